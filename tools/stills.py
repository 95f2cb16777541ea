"""Photograph every interactive figure of the built book, for readers without JavaScript.

Run `make book` first. Needs the test extra (playwright) and Debian's package chromium.
"""

import io
import sys
from pathlib import Path

from browser import chromium, open_page, started
from PIL import Image

ROOT = Path(__file__).parents[1]


def photograph(html, target):
    """One PNG per figure: <page>-<number on the page>.png; the names of those written."""
    target.mkdir(parents=True, exist_ok=True)
    with started(chromium()) as browser:
        tall = {"width": 1280, "height": 1800}  # no figure is taller
        tab = browser.new_page(viewport=tall, reduced_motion="reduce")
        for page in sorted(html.glob("*/*.html")):
            if "sonode-data" not in page.read_text("utf8"):
                continue
            open_page(tab, page)
            _train(tab)
            for i, figure in enumerate(tab.locator(".sonode-figure").all()):
                name = f"{page.stem}-{i}.png"
                _save_small(figure.screenshot(), target / name)
                yield name


def _train(tab):
    """Before it has trained, the laboratory shows little."""
    for play in tab.locator(".laboratory").get_by_role("button", name="play").all():
        play.click()
        tab.get_by_text("SONODE has learnt").wait_for()
        tab.get_by_role("button", name="pause").click()


def _save_small(png, path):
    """In 256 colours, those of thin lines too: a third of the bytes."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(256, method=Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


if __name__ == "__main__":
    if chromium() is None:
        sys.exit("No Chromium here: install the package chromium, then run make stills again.")
    for name in photograph(ROOT / "_build/html", ROOT / "assets/stills"):
        print(name)
