"""Every claim of the book, judged from the stored values.

    python -m sonode_utils.evidence [claim ...]

Reads book/results in the working directory or above it. With ids, every part of these claims.
"""

import sys

from sonode_utils.evidence.report import CATALOGUE
from sonode_utils.evidence.scorecard import counts, scorecard
from sonode_utils.evidence.verdicts import headline


def main(ids: list[str]) -> int:
    """Print a line per claim, or all parts of the claims that are named."""
    if unknown := [id for id in ids if id not in CATALOGUE]:
        print(f"no such claim: {', '.join(unknown)}; there are {', '.join(CATALOGUE)}")
        return 1
    rows = [row for row in scorecard() if not ids or row["id"] in ids]
    for row in rows:
        again = row.get("replication")
        chance = "" if again is None else f"{again:4.0%}" + " fragile" * row["fragile"]
        before = f"version 1: {row['before']['word']}" if row["before"]["word"] else "new"
        found = headline(row) if "parts" in row else ""
        print(f"{row['id']:4}{row['word']:20}{chance:13}{found}  [{before}]")
        groups = {"": row, **row["beside"]} if ids and "parts" in row else {}
        for group, judged in groups.items():
            for name, part in judged["parts"].items():
                label = ", ".join(filter(None, (group, name))) or "the whole"
                print(f"      {part['word']:10}{label}: {part['text']}")
    if not ids:
        print("; ".join(f"{word} {n}" for word, n in counts(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
