"""From the records to the scorecard: every claim with its word, as plain data."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sonode_utils.evidence.records import read_json, records_folder
from sonode_utils.evidence.report import CATALOGUE
from sonode_utils.evidence.verdicts import judge_claim

# Words of the two versions that mean the same.
SAME = {"reproduced": "supported", "inconclusive": "unresolved", "partly": "mixed"}


def load_results(folder: Path | None = None) -> list[dict]:
    """Every notebook's record in a folder (book/results), in the order of the notebooks."""
    paths = sorted(Path(folder or records_folder()).glob("*.json"))
    found = [read_json(path) for path in paths]
    return [record for record in found if "notebook" in record]


def scorecard(folder: Path | None = None) -> list[dict]:
    """One row per claim of the catalogue: its entry, its record, its word, version 1's word.

    The word comes from the confirming run (the folder's confirm/), that of theory (Q) and
    MNIST (D) from the chapter's own record.
    """
    folder = Path(folder or records_folder())
    own, confirming = _claims(folder), _claims(folder / "confirm")
    if unknown := (own | confirming).keys() - CATALOGUE.keys():
        raise ValueError(f"no such claims in the catalogue: {sorted(unknown)}")
    path = folder / "version1.json"
    first = read_json(path) if path.exists() else {"claims": {}}
    rows = []
    for id, entry in CATALOGUE.items():
        row = {"id": id, **entry, "before": _version1(first, id)}
        record, claim = (own if id[0] in "QD" else confirming).get(id, (None, None))
        chapter = own.get(id, (None, None))[1]
        row |= (chapter or {}) | (claim or {})
        row |= judge_claim(record, claim) if claim else {"word": _unjudged(entry), "ours": ""}
        row["same"] = SAME.get(row["before"]["word"], row["before"]["word"]) == row["word"]
        rows.append(row)
    return rows


def _unjudged(entry):
    return "shown" if entry["rule"].endswith("no word") else "not confirmed yet"


def _claims(folder):
    """{id: (record, claim)}; a claim may stand in one record only."""
    found = [(record, c) for record in load_results(folder) for c in record["claims"]]
    if len(by_id := {c["id"]: (record, c) for record, c in found}) < len(found):
        raise ValueError("a claim is judged twice")
    return by_id


def _version1(first, id):
    if id not in first["claims"]:
        return {"word": "", "parts": "", "date": ""}
    claim = first["claims"][id]
    date = first["dates"][claim["notebook"]]
    return {"word": claim["verdict"], "parts": claim["parts"], "date": date}


def counts(rows: Sequence[dict]) -> list[tuple[str, int]]:
    """How many claims have each word, most frequent first: [(word, n)]."""
    return Counter(row["word"] for row in rows).most_common()
