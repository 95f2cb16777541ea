"""Put the latest counts of verdicts and the picture of the parity chapter into the README."""

import base64
import re
from pathlib import Path

import nbformat

from sonode_utils.evidence.scorecard import counts, scorecard

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


def count_table(rows):
    """How many claims got each word, as Markdown."""
    words, numbers = zip(*counts(rows))
    lines = [(f"of {len(rows)} claims", *words), ["---"] * (len(words) + 1), ("", *numbers)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def main():
    readme = ROOT / "README.md"
    table = count_table(scorecard(ROOT / "book/results"))
    readme.write_text(with_table(readme.read_text("utf8"), table), "utf8")
    picture = figure(ROOT / "notebooks/02_parity.ipynb", "fig-parity")
    (ROOT / "book/parity.png").write_bytes(picture)


if __name__ == "__main__":
    main()
