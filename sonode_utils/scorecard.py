"""From the notebooks' records to the tables that readers see."""

import json
from collections import Counter
from html import escape
from pathlib import Path

from sonode_utils.claims import CATALOGUE, RESULTS


def load_results(folder=RESULTS):
    """Every notebook's record, in the order of the notebooks."""
    return [json.loads(p.read_text("utf8")) for p in sorted(Path(folder).glob("*.json"))]


def scorecard(folder=RESULTS):
    """One row a claim of the catalogue, judged or not."""
    judged = {}
    for record in load_results(folder):
        for claim in record["claims"]:
            if claim["id"] in judged:
                raise ValueError(f"{claim['id']} is judged twice")
            judged[claim["id"]] = claim
    unknown = set(judged) - set(CATALOGUE)
    if unknown:
        raise ValueError(f"no such claims in the catalogue: {sorted(unknown)}")
    blank = {"verdict": "not judged yet", "ours": ""}
    return [{"id": id, **entry, **judged.get(id, blank)} for id, entry in CATALOGUE.items()]


def counts(rows):
    """How many claims have each verdict, most frequent first: [(verdict, n)]."""
    return Counter(row["verdict"] for row in rows).most_common()


def counts_html(rows):
    chips = [f"{verdict_html(verdict)} {n}" for verdict, n in counts(rows)]
    return f"<p>{' &emsp; '.join(chips)}</p>"


def verdict_html(verdict):
    kind = verdict.replace(" ", "-")
    return f'<span class="verdict verdict-{kind}">{verdict}</span>'


def group_html(rows, group):
    """The claims of one group as a table, each verdict linked to the cell that judged it."""
    head = "".join(f"<th>{h}</th>" for h in ("claim", "paper", "verdict", "what we found"))
    body = "".join(_row_html(row) for row in rows if row["group"] == group)
    return f'<table class="table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _row_html(row):
    verdict = verdict_html(row["verdict"])
    if row.get("anchor"):
        verdict = f'<a href="../notebooks/{row["anchor"]}">{verdict}</a>'
    found = escape(row["ours"])
    if row.get("parts") and not row["parts"].endswith(" of 1"):
        found = f"{row['parts']} parts; " + found
    if row.get("seeds"):
        found += f" <small>({row['seeds']} seeds, {row['diverged']} diverged)</small>"
    if row.get("fragile"):
        verdict += " <small>fragile</small>"
    cells = (
        f"<b>{row['id']}</b> {escape(row['statement'])}"
        f"<br><small>{escape(row['rule'])}</small>",
        escape(row["where"]),
        verdict,
        found,
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def readme_table(rows):
    """The judged claims as Markdown, as the README shows them."""
    lines = ["| claim | paper | verdict |", "|---|---|---|"]
    for row in rows:
        if row["verdict"] != "not judged yet":
            statement = f"{row['id']}: {row['statement']}"
            lines.append(f"| {statement} | {row['where']} | **{row['verdict']}** |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(readme_table(scorecard()))
