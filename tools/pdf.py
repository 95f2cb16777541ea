"""Print the whole book to _build/book.pdf: one long page, printed by Chromium.

Needs Debian's package chromium; everything else comes with the book.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from vendor import vendor

ROOT = Path(__file__).parents[1]
HIDDEN = ".bd-header, .bd-sidebar, .headerlink, .prev-next-area, .filters, .skip-link"
STYLE = (
    f"{HIDDEN} {{ display: none !important }}"
    "figure, .cell_output img, table.claims tr, .admonition { break-inside: avoid }"
    ".cell, .cell_output, table, section { break-inside: auto !important }"
    "section > h1 { break-before: page }"
)


def main(target=ROOT):
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if chromium is None:
        sys.exit("No Chromium here: install the package chromium, then run make pdf again.")
    page = build(Path(target))
    pdf = Path(target) / "_build/book.pdf"
    draft = pdf.with_suffix(".tmp")
    with sync_playwright() as play:
        options = {"executable_path": chromium, "args": ["--no-sandbox", "--disable-gpu"]}
        tab = play.chromium.launch(**options).new_page()
        tab.goto(page.as_uri())
        tab.evaluate("window.MathJax?.startup?.promise")
        tab.wait_for_timeout(3000)  # the interactive figures draw themselves
        tab.add_style_tag(content=STYLE)
        tab.pdf(path=draft, format="A4", margin=dict.fromkeys(("top", "bottom"), "15mm"))
    os.replace(draft, pdf)
    print(f"The book is at {pdf}")


def build(target):
    """All chapters as one HTML page; the path of that page."""
    vendor()
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(ROOT)]
    command += ["--path-output", str(target), "--builder", "singlehtml", "--all", "--quiet"]
    environment = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    page = target / "_build/singlehtml/book/intro.html"
    if done.returncode or not page.exists():
        print(done.stdout[-4000:], done.stderr[-8000:], sep="\n", file=sys.stderr)
        sys.exit("The single page did not build: the first error above says why.")
    return Path(
        shutil.copy(page, target / "_build/singlehtml/all.html")
    )  # its links start here


if __name__ == "__main__":
    main(*sys.argv[1:])
