"""Put the latest verdicts and the picture of the parity chapter into the README."""

import base64
import re
from pathlib import Path

import nbformat

from sonode_utils.evidence.scorecard import scorecard

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
    lines = ["| claim | paper | verdict |", "|---|---|---|"]
    for row in rows:
        if row["verdict"] != "not judged yet":
            statement = f"{row['id']}: {row['statement']}"
            verdict = f"**{row['verdict']}**"
            verdict += f", {row['parts']}" if row["verdict"] == "partly" else ""
            lines.append(f"| {statement} | {row['where']} | {verdict} |")
    return "\n".join(lines)


def main():
    readme = ROOT / "README.md"
    table = verdict_table(scorecard(ROOT / "book/results"))
    readme.write_text(with_table(readme.read_text("utf8"), table), "utf8")
    picture = figure(ROOT / "notebooks/02_parity.ipynb", "fig-parity")
    (ROOT / "book/parity.png").write_bytes(picture)


if __name__ == "__main__":
    main()
