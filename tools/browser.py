"""The Chromium that the stills, the PDF and the browser tests share."""

import shutil
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FIGURE = ".sonode-data"


def chromium():
    """The path of the installed browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def started(executable):
    """A running browser; it never calls home."""
    from playwright.sync_api import sync_playwright

    quiet = ["--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable, args=quiet)
        yield browser
        browser.close()


def open_page(tab, page):
    """Go to a page of the book and wait until its equations and its figures are drawn."""
    tab.goto(page.as_uri())
    tab.evaluate("window.MathJax?.startup?.promise")
    for figure in tab.locator(FIGURE).all():
        figure.locator("svg").first.wait_for()
