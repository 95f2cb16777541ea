"""Values per seed in a few words, and tables of text in which every cell is escaped."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from sonode_utils.evidence.verdicts import count_words


class Html(str):
    """Markup of our own, which a table takes as it is."""


def table_html(head: Sequence[str], rows: Iterable[Sequence], ids: Sequence[str] = ()) -> Html:
    """An HTML table; head: (column,), rows: of the same length, ids: anchors of the rows."""
    head, *rows = (
        [c if isinstance(c, Html) else escape(str(c)) for c in r] for r in (head, *rows)
    )
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    marks = [f' id="{escape(id, quote=True)}"' for id in ids] or [""] * len(rows)
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    lines = [f"<tr{mark}>{line}</tr>" for mark, line in zip(marks, lines)]
    top = f'<table class="table claims"><thead><tr>{top}</tr></thead>'
    return Html(f"{top}<tbody>{''.join(lines)}</tbody></table>")


def table(head: Sequence[str], rows: Iterable[Sequence]) -> object:
    """A table for display in a notebook; head: (column,), rows: of the same length."""
    from IPython.display import HTML

    return HTML(table_html(head, rows))


def claim_row(row: dict) -> tuple:
    """The cells claim, paper, word, what we found.

    row: a claim's catalogue and record, `now` and `confirmed`: judged here and in the
    confirming run. Claims of theory and of MNIST have no confirming run.
    """
    small = [_small(part) for part in (row["rule"], row.get("paper"), counted(row))]
    statement = Html(f"<b>{escape(row['id'])}</b> {escape(row['statement'])}{small[0]}")
    judged = row["now"] if row["id"][0] in "QD" else row["confirmed"]
    found = f"{escape(row['ours'])}{_small(count_words(row['now']))}{small[2]}"
    return statement, Html(escape(row["where"]) + small[1]), word_html(judged), Html(found)


def word_html(judged: dict | None) -> Html:
    """A word as a chip, with the chance that new seeds give it again."""
    word = judged["word"] if judged else "not confirmed yet"
    chip = f'<span class="verdict verdict-{escape(word.replace(" ", "-"), quote=True)}">'
    chip += f"{escape(word)}</span>"
    if not judged or judged["replication"] is None:
        return Html(chip)
    again = f"same word in {judged['replication']:.0%} of resamples"
    return Html(chip + _small(("fragile: " if judged["fragile"] else "") + again))


def parts_rows(row: dict) -> list[tuple]:
    """The cells claim, part, effect, word of every part of a claim, and of those beside it."""
    groups = {"": row["now"], **row["now"]["beside"]}
    return [
        (row["id"], ", ".join(filter(None, (group, name))) or "the whole", p["text"], p["word"])
        for group, judged in groups.items()
        for name, p in judged["parts"].items()
    ]


def _small(text):
    return f"<br><small>{escape(str(text))}</small>" if text else ""


def counted(row: dict) -> str:
    """How a claim was counted: seeds, divergences, rejections, solver check."""
    words = [f"{row['seeds']} seeds", f"{row['diverged']} diverged"]
    words += [f"{row['rejected']} rejected"] if row["rejected"] else []
    words += [row["scale"]] if row["scale"] else []
    if row["solver_check"] is not None:
        artefact = f", over 1 %: quoted {row['quoted']}" if row["solver_artefact"] else ""
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
