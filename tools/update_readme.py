"""Put the latest verdicts and the picture of the parity chapter into the README."""

import base64
import re
from pathlib import Path

import nbformat

from sonode_utils.evidence.scorecard import counts, scorecard
from sonode_utils.evidence.verdicts import headline

ROOT = Path(__file__).parents[1]
START, END = "<!-- verdicts, written by tools/update_readme.py -->", "<!-- end of verdicts -->"


def with_table(readme, table):
    """The README's text with the table between its two marks."""
    block = f"{START}\n{table}\n{END}"
    return re.sub(f"{START}.*?{END}", lambda _: block, readme, flags=re.S)


def figure(notebook, name):
    """The stored PNG of a named figure."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == name:
            (image,) = (o.data["image/png"] for o in cell.outputs if "data" in o)
            return base64.b64decode(image)
    raise KeyError(f"{notebook} has no figure {name}")


def verdict_table(rows):
    """The judged claims as Markdown, as the README shows them."""
    total = ", ".join(f"{word} {n}" for word, n in counts(rows))
    lines = [
        f"{len(rows)} claims: {total}.",
        "",
        "| claim | paper | word | effect |",
        "|---|---|---|---|",
    ]
    for row in rows:
        word = f"**{row['word']}**" + ", fragile" * row.get("fragile", False)
        effect = headline(row) if "parts" in row else ""
        lines.append(
            f"| {row['id']}: {row['statement']} | {row['where']} | {word} | {effect} |"
        )
    return "\n".join(lines)


def main():
    readme = ROOT / "README.md"
    table = verdict_table(scorecard(ROOT / "book/results"))
    readme.write_text(with_table(readme.read_text("utf8"), table), "utf8")
    picture = figure(ROOT / "notebooks/02_parity.ipynb", "fig-parity")
    (ROOT / "book/parity.png").write_bytes(picture)


if __name__ == "__main__":
    main()
