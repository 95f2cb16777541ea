"""In a browser: search results in plain words; on a telephone, frames that show they scroll."""

import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import browser as tools  # noqa: E402
import vendor  # noqa: E402

PAGES = [f"book/{p.stem}" for p in sorted((ROOT / "book").glob("*.md"))]
PAGES += [f"notebooks/{p.stem}" for p in sorted((ROOT / "notebooks").glob("*.ipynb"))]
PAGES += ["genindex", "py-modindex", "prf-prf", "search"]  # what Sphinx adds by itself
pytestmark = [
    pytest.mark.skipif(
        tools.chromium() is None,
        reason="no Chromium here: install the package chromium for these tests",
    ),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def tab(pages):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright not installed")
    if not (vendor.VENDOR / "complete").exists():
        pytest.skip("the libraries of the pages could not be fetched: they come from a CDN")
    try:
        with tools.started(tools.chromium()) as running:
            tab = running.new_page(viewport={"width": 390, "height": 800})
            tab.set_default_timeout(120_000)
            yield tab
    except playwright.Error as error:
        pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(pages):
    """The book behind a server: from files a browser lets no page read another."""
    handler = partial(Quiet, directory=str(pages))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("word", ["velocity", "parity", "adjoint"])
def test_search_results_show_no_tex(word, tab, address):
    tab.goto(f"{address}/search.html?q={word}")
    tab.get_by_text("Search finished").wait_for()
    tab.wait_for_load_state("networkidle")
    quoted = tab.locator("#search-results li p.context").all_inner_texts()
    results = tab.locator("#search-results").inner_text()
    assert len(quoted) >= 5 and "\\" not in results
    assert any(word in text.lower() for text in quoted)


# Every frame that can be pushed aside: does it show the mark, and does the mark go at the end?
FRAMES = """async () => {
  const settled = () => new Promise((done) => setTimeout(done, 150));
  const shown = (e) => e && !e.hidden && getComputedStyle(e).visibility === "visible";
  const state = (e) => [e.hasAttribute("data-more"), e.matches("pre") || shown(e.hint)];
  const can = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const inView = [...document.querySelectorAll("article *")].filter((e) => e.checkVisibility());
  const framed = inView.filter((e) => can(e) && e.clientWidth);
  const wide = framed.filter((e) => e.scrollWidth > e.clientWidth + 2);
  const name = (e) => `${e.tagName} ${e.className} ${e.id}`;
  const before = wide.map((e) => [name(e), ...state(e)]);
  const idle = framed.filter((e) => !wide.includes(e) && state(e)[0]).map(name);
  for (const e of wide) e.scrollLeft = e.scrollWidth;
  await settled();
  const after = wide.map((e) => [name(e), e.hasAttribute("data-more"), shown(e.hint) ?? false]);
  return { before, idle, after, across: document.scrollingElement.scrollWidth };
}"""


@pytest.mark.parametrize("page", PAGES)
def test_on_a_telephone_what_scrolls_says_so_until_its_end(page, tab, pages):
    tools.open_page(tab, pages / f"{page}.html")
    tab.wait_for_timeout(300)
    found = tab.evaluate(FRAMES)
    assert found["across"] <= 390
    assert [frame for frame in found["before"] if frame[1:] != [True, True]] == []
    assert [frame for frame in found["after"] if any(frame[1:])] == []
    assert found["idle"] == []


def test_on_a_telephone_a_finger_drags_a_point_and_not_the_page(tab, pages):
    phone = {"viewport": tab.viewport_size, "has_touch": True, "is_mobile": True}
    context = tab.context.browser.new_context(**phone, reduced_motion="reduce")
    touched = context.new_page()
    tools.open_page(touched, pages / "book/intro.html")
    point = touched.locator(".handle").first
    point.evaluate("e => e.scrollIntoView({ block: 'center', behavior: 'instant' })")
    place, box = touched.evaluate("scrollY"), point.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    finger = context.new_cdp_session(touched)
    for k in range(20):
        kind, at = "touchMove" if k else "touchStart", {"x": x, "y": y + 2 * k}
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    moved, scrolled = point.bounding_box(), touched.evaluate("scrollY")
    context.close()
    assert scrolled == place > 0
    assert abs(box["y"] + 38 - moved["y"]) < 4


def test_on_a_telephone_the_deviations_are_cards(tab, pages):
    tools.open_page(tab, pages / "book/deviations.html")
    widths = tab.evaluate(
        "[...document.querySelectorAll('article tr')].map((e) => e.offsetWidth).filter(Boolean)"
    )
    assert len(widths) > 60 and max(widths) <= 390
    assert not tab.locator("article thead").first.is_visible()
