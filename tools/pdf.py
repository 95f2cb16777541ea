"""Print the whole book to _build/book.pdf: one long page, printed by Chromium.

With --report, print the replication report alone to _build/report.pdf.

Paper does not react: the still pictures of assets/stills stand for the interactive figures.
Needs Debian's package chromium; everything else comes with the book.
"""

import re
import sys
from pathlib import Path

from browser import chromium, open_page, started
from build_book import ROOT, jupyter_book
from vendor import vendor

from sonode_utils.evidence.records import write_whole

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


# The report fits on four pages: one column, small print, no page furniture.
REPORT = (
    ".bd-article-container { max-width: none !important } .bd-article { font-size: 8.6pt }"
    ".bd-header-article, .bd-sidebar-secondary, .bd-footer, footer, #jb-print-toc"
    " { display: none !important }"
    "h1 { font-size: 15pt !important; margin: 0 }"
    "h2 { font-size: 11pt; margin: 0.5em 0 0.2em !important }"
    "h3 { font-size: 10pt !important; margin: 0.5em 0 0.2em !important }"
    "p, ul, figure { margin: 0 0 0.4em !important } li p { margin: 0 !important }"
    "table.claims :is(td, th), .bd-article table td { padding: 0.05em 0.4em !important }"
    "figcaption, table.claims { font-size: 7.2pt } svg.forest { width: 64% }"
    "figure.forest-plot { break-inside: auto }"
    "table.claims:has(.verdict) td:first-child { width: 42% }"
    "table.claims tr { break-inside: avoid } section > h1 { break-before: auto }"
)


def main(target=ROOT, report=False):
    if chromium() is None:
        sys.exit("No Chromium here: install the package chromium, then run make pdf again.")
    page = html(Path(target)) if report else build(Path(target))
    pdf = Path(target) / f"_build/{'report' if report else 'book'}.pdf"
    with write_whole(pdf) as draft, started(chromium()) as browser:
        tab = browser.new_page()
        open_page(tab, page)
        tab.add_style_tag(content=STYLE + REPORT * report)
        tab.pdf(path=draft, format="A4", margin=dict.fromkeys(("top", "bottom"), "15mm"))
    print(f"The {'report' if report else 'book'} is at {pdf}")


def html(target):
    """The report as a page of the book."""
    vendor()
    return jupyter_book(target, "html/book/report.html")


def build(target):
    """All chapters as one HTML page; the path of that page."""
    vendor()
    page = jupyter_book(target, "singlehtml/book/intro.html", "--builder", "singlehtml")
    single = target / "_build/singlehtml/all.html"  # its links start here
    single.write_text(with_stills(page.read_text("utf8")), "utf8")
    return single


def with_stills(html):
    """The single page with a picture where each interactive figure would be."""
    page, count = "intro", 0  # the first page of the book carries no mark

    def picture(found):
        nonlocal page, count
        if found["page"]:
            page, count = found["page"].split("/")[-1], 0
            return found[0]
        count += 1
        return f'<img class="still" alt="" src="_static/stills/{page}-{count - 1}.png">'

    return PAGE_OR_FIGURE.sub(picture, html)


if __name__ == "__main__":
    places = [argument for argument in sys.argv[1:] if argument != "--report"]
    main(*places, report="--report" in sys.argv)
