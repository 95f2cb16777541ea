"""Print the whole book to _build/book.pdf: one long page, printed by Chromium.

Paper does not react: the still pictures of assets/stills stand for the interactive figures.
Needs Debian's package chromium; everything else comes with the book.
"""

import re
import sys
from pathlib import Path

from browser import chromium, open_page, started
from build_book import ROOT, jupyter_book
from vendor import vendor
from whole import write_whole

PAGE_OR_FIGURE = re.compile(
    r'id="document-(?P<page>[^"]+)"'
    r'|<div class="sonode-data".*?</div>',
    re.DOTALL,
)
HIDDEN = ".bd-header, .bd-sidebar, .headerlink, .prev-next-area, .filters, .skip-link"
STYLE = (
    f"{HIDDEN} {{ display: none !important }}"
    "figure, .cell_output img, table.claims tr, .admonition { break-inside: avoid }"
    ".cell, .cell_output, table, section { break-inside: auto !important }"
    "section > h1 { break-before: page }"
)


def main(target=ROOT):
    if chromium() is None:
        sys.exit("No Chromium here: install the package chromium, then run make pdf again.")
    page = build(Path(target))
    pdf = Path(target) / "_build/book.pdf"
    with write_whole(pdf) as draft, started(chromium()) as browser:
        tab = browser.new_page()
        open_page(tab, page)
        tab.add_style_tag(content=STYLE)
        tab.pdf(path=draft, format="A4", margin=dict.fromkeys(("top", "bottom"), "15mm"))
    print(f"The book is at {pdf}")


def build(target):
    """All chapters as one HTML page; the path of that page."""
    vendor()
    page = jupyter_book(target, "singlehtml/book/intro.html", "--builder", "singlehtml")
    single = target / "_build/singlehtml/all.html"  # its links start here
    single.write_text(with_stills(page.read_text("utf8")), "utf8")
    return single


def with_stills(html):
    """The single page with a picture where each interactive figure would be."""
    page, count = "", 0

    def picture(found):
        nonlocal page, count
        if found["page"]:
            page, count = found["page"].split("/")[-1], 0
            return found[0]
        count += 1
        return f'<img class="still" alt="" src="_static/stills/{page}-{count - 1}.png">'

    return PAGE_OR_FIGURE.sub(picture, html)


if __name__ == "__main__":
    main(*sys.argv[1:])
