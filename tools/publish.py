"""Lay out _build/site, all that is published: the book, both PDFs, the notebooks for Colab.

A notebook for Colab is the stored one with a cell before its first, which fetches the checkout
and installs the package beside Colab's own torch. Without an address there is nothing to fetch
it from, and no such notebook.
"""

import shutil
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "book/_ext"))
from launch import Project, of_checkout  # noqa: E402

FIRST = """\
# Only what Colab lacks is installed; its own torch serves. On the quick profile a chapter takes
# about a minute. Without the last line it has the paper's settings, and takes much longer.
!test -d /content/{name} || git clone --quiet --depth 1 {address} /content/{name}
%cd -q /content/{name}/notebooks
%pip install --quiet "..[data]" anywidget
%env SONODE_PROFILE=quick"""


def main(build=ROOT / "_build") -> None:
    home, site = of_checkout(ROOT), Path(build) / "site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(Path(build) / "html", site)
    for name in ("book.pdf", "report.pdf"):
        shutil.copy(Path(build) / name, site)
    if home:
        (site / "colab").mkdir()
        for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
            notebook = for_colab(nbformat.read(path, as_version=4), home)
            nbformat.write(notebook, site / "colab" / path.name)
    print(f"What is published is in {site}")


def for_colab(notebook: nbformat.NotebookNode, home: Project) -> nbformat.NotebookNode:
    """The notebook with the cell that installs the package."""
    source = FIRST.format(name=home.name, address=home.address)
    cell = nbformat.v4.new_code_cell(source, id="colab", metadata={"tags": ["colab"]})
    notebook.cells.insert(0, cell)
    return notebook


if __name__ == "__main__":
    main(*sys.argv[1:])
