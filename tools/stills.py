"""Photograph every interactive figure of the built book, for readers without JavaScript.

Run `make book` first. Needs the test extra (playwright) and Debian's package chromium.
"""

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]


def photograph(html, target):
    """One PNG a figure: <page>-<number on the page>.png; the names of those written."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))))
    options = {"executable_path": chromium, "args": ["--no-sandbox", "--disable-gpu"]}
    target.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        tab = play.chromium.launch(**options).new_page(viewport={"width": 1280, "height": 900})
        for page in sorted(html.glob("*/*.html")):
            if "widget-view+json" not in page.read_text("utf8"):
                continue
            tab.goto(page.as_uri())
            tab.locator(".sonode-figure").first.wait_for()
            for i, figure in enumerate(tab.locator(".sonode-figure").all()):
                figure.screenshot(path=target / f"{page.stem}-{i}.png")
                yield f"{page.stem}-{i}.png"


if __name__ == "__main__":
    for name in photograph(ROOT / "_build/html", ROOT / "assets/stills"):
        print(name)
