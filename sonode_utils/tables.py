"""Verdicts as HTML tables, in the notebooks and on the scorecard alike."""

from html import escape


def verdict_html(verdict):
    kind = verdict.replace(" ", "-")
    return f'<span class="verdict verdict-{kind}">{verdict}</span>'


def duration(seconds):
    """In seconds, minutes or hours, whichever reads well."""
    if seconds > 7200:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds > 120 else f"{seconds:.0f} s"


def plain_table_html(head, rows):
    """A table of text; head: (column,), rows: of the same length."""
    return _table(head, [[escape(str(cell)) for cell in row] for row in rows])


def table_html(rows, link=""):
    """Claims with their verdicts and numbers; verdicts link to `link` + anchor if given.

    rows: catalogue entry and record of each claim in one dict.
    """
    head = ("claim", "paper", "verdict", "what we found")
    return _table(head, [_claim(row, link) for row in rows], [_marks(row) for row in rows])


def _marks(row):
    """What the filters of the scorecard look at."""
    fragile = " data-fragile" if row.get("fragile") else ""
    return f' id="claim-{row["id"]}" data-verdict="{row["verdict"]}"{fragile}'


def _table(head, rows, marks=None):
    cells = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(
        f"<tr{mark}>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for row, mark in zip(rows, marks or [""] * len(rows), strict=True)
    )
    return (
        f'<table class="table claims"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _claim(row, link):
    statement = f"<b>{row['id']}</b> {escape(row['statement'])}"
    verdict = verdict_html(row["verdict"])
    if link and row.get("anchor"):
        verdict = f'<a href="{link}{row["anchor"]}">{verdict}</a>'
    if row.get("fragile"):
        verdict += "<br><small>fragile: turns with fresh seeds</small>"
    rule = f"<br><small>{escape(row['rule'])}</small>"
    paper = f"<br><small>{escape(str(row['paper']))}</small>" if row.get("paper") else ""
    return statement + rule, escape(row["where"]) + paper, verdict, _found(row)


def _found(row):
    """What we found, then how it was counted: parts, seeds, divergences, solver check."""
    if "parts" not in row:
        return ""
    counted = [f"{row['parts']} parts"] if not row["parts"].endswith(" of 1") else []
    counted += [f"{row['seeds']} seeds", f"{row['diverged']} diverged"]
    counted += [f"{row['rejected']} rejected"] if row["rejected"] else []
    if row["solver_check"] is not None:
        artefact = "; over 1 %, so quoted at 1e-8" if row["solver_artefact"] else ""
        counted.append(f"solver check {row['solver_check']:.1e}{artefact}")
    for kind, verdict in row.get("again", {}).items():
        run = "in float64" if kind == "double" else f"with seeds from {kind} on"
        counted.append(f"{run}: {'the same' if verdict == row['verdict'] else verdict}")
    return f"{escape(row['ours'])}<br><small>{', '.join(counted)}</small>"
