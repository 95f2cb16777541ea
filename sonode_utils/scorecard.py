"""From the notebooks' records to the scorecard: every claim, judged or not."""

import json
from collections import Counter
from html import escape
from pathlib import Path

from sonode_utils.claims import CATALOGUE, RESULTS
from sonode_utils.tables import plain_table_html, verdict_html


def load_results(folder=RESULTS):
    """Every notebook's record, in the order of the notebooks."""
    return [json.loads(p.read_text("utf8")) for p in sorted(Path(folder).glob("*.json"))]


def scorecard(folder=RESULTS):
    """One row a claim of the catalogue, judged or not; fragile if any run turned it."""
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


def fresh_verdicts(folder=RESULTS):
    """{claim: {kind of run: verdict}} of the runs of `make verify-seeds`.

    A kind is the first of the fresh seeds, or "double": the same seeds in float64.
    """
    found = {}
    for path in sorted((Path(folder) / "fresh").glob("*.json")):
        for kind, run in json.loads(path.read_text("utf8")).items():
            for id, verdict in run["verdicts"].items():
                found.setdefault(id, {})[kind] = verdict
    return found


def counts(rows):
    """How many claims have each verdict, most frequent first: [(verdict, n)]."""
    return Counter(row["verdict"] for row in rows).most_common()


def counts_html(rows):
    chips = [f"{verdict_html(verdict)} {n}" for verdict, n in counts(rows)]
    return f"<p>{' &emsp; '.join(chips)}</p>"


def filters_html(rows):
    """The counts as switches: assets/scorecard.js shows only the rows of one verdict.

    Without JavaScript they stay what they look like, the counts.
    """
    fragile = sum(bool(row.get("fragile")) for row in rows)
    marks = [("all", "all claims", len(rows))]
    marks += [(verdict, verdict_html(verdict), n) for verdict, n in counts(rows)]
    marks += [("fragile", "fragile", fragile)]
    switches = "".join(
        f'<button type="button" class="filter" data-show="{key}" '
        f'aria-pressed="{str(key == "all").lower()}">{label} {n}</button>'
        for key, label, n in marks
    )
    return (
        f'<div class="filters" role="group" aria-label="Show claims by verdict">{switches}'
        f'</div><p class="shown" role="status"></p>'
    )


def cpu_seconds(record):
    """What a run cost one core; the clock tells less where the machine was shared."""
    return record.get("cpu_seconds", record["seconds"])


def status_html(records):
    """When each notebook last ran, for how long and with what, as a table.

    What they ran with is mostly the same: it stands below, under the letters of the table.
    """
    made_with = [
        ", ".join([record["machine"], *(f"{k} {v}" for k, v in record["versions"].items())])
        for record in records
    ]
    letters = dict(zip(dict.fromkeys(made_with), "abcdefghijklmnopqrstuvwxyz"))
    head = ("notebook", "CPU", "seeds", "data", "claims", "last run", "with")
    rows = [
        (
            record["notebook"], f"{cpu_seconds(record)} s", record["seeds"], record["data"],
            " ".join(claim["id"] for claim in record["claims"]), record["date"], letters[with_],
        )
        for record, with_ in zip(records, made_with)
    ]  # fmt: skip
    total = sum(map(cpu_seconds, records))
    sums = ("all", f"{total // 60} min {total % 60} s", "", "", "", "", "")
    below = "<br>".join(f"{letter}: {escape(text)}" for text, letter in letters.items())
    return f"{plain_table_html(head, [*rows, sums])}<p>{below}</p>"


def again_html(rows):
    """Each run of `make verify-seeds`: how many claims it judged again, and which turned."""
    table = []
    for kind in sorted({kind for row in rows for kind in row.get("again", {})}):
        judged = [row for row in rows if kind in row.get("again", {})]
        turned = [
            f"{row['id']} ({row['verdict']}, then {row['again'][kind]})"
            for row in judged
            if row["again"][kind] != row["verdict"]
        ]
        name = "the same draws in float64" if kind == "double" else f"seeds from {kind} on"
        table.append((name, len(judged), ", ".join(turned) or "none"))
    return plain_table_html(("run", "claims judged again", "turned"), table)


def readme_table(rows):
    """The judged claims as Markdown, as the README shows them."""
    lines = ["| claim | paper | verdict |", "|---|---|---|"]
    for row in rows:
        if row["verdict"] != "not judged yet":
            statement = f"{row['id']}: {row['statement']}"
            verdict = f"**{row['verdict']}**" + (" (fragile)" if row["fragile"] else "")
            verdict += f", {row['parts']}" if row["verdict"] == "partly" else ""
            lines.append(f"| {statement} | {row['where']} | {verdict} |")
    return "\n".join(lines)
