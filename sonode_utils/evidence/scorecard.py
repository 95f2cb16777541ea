"""From the notebooks' records to the scorecard: every claim, judged or not, as plain data."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sonode_utils.evidence.report import CATALOGUE, records_folder


def load_results(folder: Path | None = None) -> list[dict]:
    """Every notebook's record, in the order of the notebooks."""
    folder = records_folder() if folder is None else Path(folder)
    found = [json.loads(path.read_text("utf8")) for path in sorted(folder.glob("*.json"))]
    return [record for record in found if "notebook" in record]


def scorecard(folder: Path | None = None) -> list[dict]:
    """One row per claim of the catalogue, judged or not; fragile if any run turned it."""
    judged, fresh = {}, fresh_verdicts(folder)
    for record in load_results(folder):
        for claim in record["claims"]:
            if claim["id"] in judged:
                raise ValueError(f"{claim['id']} is judged twice")
            again = fresh.get(claim["id"], {})
            turned = any(verdict != claim["verdict"] for verdict in again.values())
            fragile = claim["fragile"] or turned
            judged[claim["id"]] = {**claim, "fragile": fragile, "again": again}
    unknown = set(judged) - set(CATALOGUE)
    if unknown:
        raise ValueError(f"no such claims in the catalogue: {sorted(unknown)}")
    blank = {"verdict": "not judged yet", "ours": ""}
    return [{"id": id, **entry, **judged.get(id, blank)} for id, entry in CATALOGUE.items()]


def fresh_verdicts(folder: Path | None = None) -> dict[str, dict[str, str]]:
    """{claim: {kind of run: verdict}} of the runs of `make verify-seeds`.

    A kind is the first of the fresh seeds, or "double": the same seeds in float64.
    """
    found: dict[str, dict[str, str]] = {}
    folder = records_folder() if folder is None else Path(folder)
    for path in sorted((folder / "fresh").glob("*.json")):
        for kind, run in json.loads(path.read_text("utf8")).items():
            for id, verdict in run["verdicts"].items():
                found.setdefault(id, {})[kind] = verdict
    return found


def counts(rows: Sequence[dict]) -> list[tuple[str, int]]:
    """How many claims have each verdict, most frequent first: [(verdict, n)]."""
    return Counter(row["verdict"] for row in rows).most_common()


def cpu_seconds(record: dict) -> float:
    """What a run cost one core; the clock tells less where the machine was shared."""
    return record.get("cpu_seconds", record["seconds"])
