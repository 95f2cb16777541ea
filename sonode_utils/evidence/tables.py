"""Values per seed in a few words, and tables of text in which every cell is escaped."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np


class Html(str):
    """Markup of our own, which a table takes as it is."""


def table_html(head: Sequence[str], rows: Iterable[Sequence]) -> Html:
    """An HTML table; head: (column,), rows: of the same length. Cells are escaped."""
    head, *rows = (
        [c if isinstance(c, Html) else escape(str(c)) for c in r] for r in (head, *rows)
    )
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    top = f'<table class="table claims"><thead><tr>{top}</tr></thead>'
    return Html(f"{top}<tbody>{''.join(lines)}</tbody></table>")


def table(head: Sequence[str], rows: Iterable[Sequence]) -> object:
    """A table for display in a notebook; head: (column,), rows: of the same length."""
    from IPython.display import HTML

    return HTML(table_html(head, rows))


def claim_row(row: dict) -> tuple:
    """The cells claim, paper, verdict, what we found; row: a claim's catalogue and record."""
    kind = escape(row["verdict"].replace(" ", "-"), quote=True)
    verdict = Html(f'<span class="verdict verdict-{kind}">{escape(row["verdict"])}</span>')
    small = [_small(part) for part in (row["rule"], row.get("paper"), counted(row))]
    statement = Html(f"<b>{escape(row['id'])}</b> {escape(row['statement'])}{small[0]}")
    where, found = escape(row["where"]), escape(row.get("ours", ""))
    return statement, Html(where + small[1]), verdict, Html(found + small[2])


def _small(text):
    return f"<br><small>{escape(str(text))}</small>" if text else ""


def counted(row: dict) -> str:
    """How a claim was counted: parts, seeds, divergences, solver check."""
    words = [f"{row['parts']} parts"] if not row["parts"].endswith(" of 1") else []
    words += [f"{row['seeds']} seeds", f"{row['diverged']} diverged"]
    words += [f"{row['rejected']} rejected"] if row["rejected"] else []
    if row["solver_check"] is not None:
        artefact = "; over 1 %, so quoted at 1e-8" if row["solver_artefact"] else ""
        words.append(f"solver check {row['solver_check']:.1e}{artefact}")
    return ", ".join(words)


def span(values, form: str = ".5g") -> str:
    """The least and the greatest value, in words."""
    values = np.asarray(values, float)
    return f"{values.min():{form}} to {values.max():{form}}"


def quartiles(values, form: str = ".4f") -> str:
    """Median and quartiles, in words."""
    low, middle, high = np.quantile(np.asarray(values, float), [0.25, 0.5, 0.75])
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def medians(by_name: dict, form: str = ".0f") -> str:
    """The median of each name's values, in words: "ANODE 12, SONODE 9"."""
    return ", ".join(f"{name} {np.median(v):{form}}" for name, v in by_name.items())
