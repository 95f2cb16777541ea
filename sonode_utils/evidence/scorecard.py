"""From the notebooks' records to the scorecard: every claim, judged or not, as plain data."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sonode_utils.evidence.report import CATALOGUE, records_folder


def load_results(folder: Path | None = None) -> list[dict]:
    """Every notebook's record, in the order of the notebooks."""
    paths = sorted(Path(folder or records_folder()).glob("*.json"))
    found = [json.loads(path.read_text("utf8")) for path in paths]
    return [record for record in found if "notebook" in record]


def scorecard(folder: Path | None = None) -> list[dict]:
    """One row per claim of the catalogue, judged or not."""
    claims = [claim for record in load_results(folder) for claim in record["claims"]]
    judged = {claim["id"]: claim for claim in claims}
    if len(judged) < len(claims):
        raise ValueError("a claim is judged twice")
    if unknown := judged.keys() - CATALOGUE.keys():
        raise ValueError(f"no such claims in the catalogue: {sorted(unknown)}")
    blank = {"verdict": "not judged yet", "ours": ""}
    return [{"id": id, **entry, **judged.get(id, blank)} for id, entry in CATALOGUE.items()]


def counts(rows: Sequence[dict]) -> list[tuple[str, int]]:
    """How many claims have each verdict, most frequent first: [(verdict, n)]."""
    return Counter(row["verdict"] for row in rows).most_common()
