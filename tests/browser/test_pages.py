"""The pages in a real browser: whole, quiet, self-contained, usable by everybody."""

import io
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import yaml
from PIL import Image

from sonode_utils import figures
from sonode_utils.evidence import scorecard

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import browser as tools  # noqa: E402
import vendor  # noqa: E402

SCREENSHOTS = ROOT / "_build/screenshots"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
PATIENCE = 120_000  # milliseconds, for a slow machine; every wait ends as soon as it can
pytestmark = [
    pytest.mark.skipif(
        tools.chromium() is None,
        reason="no Chromium here: install the package chromium for these tests",
    ),
    pytest.mark.xdist_group("browser"),  # one worker, one browser
]


def _files(entry):
    if isinstance(entry, dict):
        if "file" in entry or "root" in entry:
            yield entry.get("file") or entry["root"]
        for value in entry.values():
            yield from _files(value)
    elif isinstance(entry, list):
        for value in entry:
            yield from _files(value)


PAGES = list(_files(yaml.safe_load((ROOT / "_toc.yml").read_text())))
CHAPTERS = [p for p in PAGES if p.startswith("notebooks/")]
WITH_FIGURE = ["book/intro", "book/playground", "book/laboratory", *CHAPTERS]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright not installed")
    try:
        with tools.started(tools.chromium()) as running:
            yield running
    except playwright.Error as error:
        pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")


@pytest.fixture(scope="module")
def html(pages):
    if not (vendor.VENDOR / "complete").exists():
        pytest.skip("the libraries of the pages could not be fetched: they come from a CDN")
    return pages


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    try:
        return Path(vendor.axe(tmp_path_factory.mktemp("axe"))).read_text("utf8")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        pytest.skip(f"axe-core could not be fetched: {error}")


class Visit:
    """A tab that notes what a page writes to the console and what it asks for."""

    def __init__(self, browser, html):
        self.html, self.said, self.asked = html, [], []
        self.tab = browser.new_page(viewport=WIDE, reduced_motion="reduce")
        self.tab.set_default_timeout(PATIENCE)
        self.tab.on("console", self._hear)
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("request", lambda request: self.asked.append(request.url))

    def _hear(self, message):
        if message.type in ("error", "warning"):  # the theme logs what it does
            self.said.append(message.text)

    def go(self, page):
        self.name = page
        self.said.clear()
        self.asked.clear()
        tools.open_page(self.tab, self.html / f"{page}.html")

    def wear(self, theme):
        """What the reader's switch between light and dark does."""
        self.tab.evaluate(
            "theme => Object.assign(document.documentElement.dataset, {theme, mode: theme})",
            theme,
        )

    def photograph(self):
        """The page as loaded, and its beginning in the dark, for a look after the tests."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        picture = str(SCREENSHOTS / self.name.replace("/", "-"))
        self.tab.screenshot(path=f"{picture}-light.jpg", full_page=True, quality=80)
        self.wear("dark")
        self.tab.screenshot(path=f"{picture}-dark.jpg", quality=80)
        self.wear("light")


@pytest.fixture(scope="module")
def visit(browser, html):
    return Visit(browser, html)


@pytest.fixture(scope="module", params=PAGES)
def page(request, visit):
    """Each page is loaded once; the tests below take it one after the other."""
    visit.go(request.param)
    visit.photograph()
    return visit


def test_every_equation_of_a_page_is_rendered(page):
    written = page.tab.locator("article .math").count()
    assert page.tab.locator("article mjx-container").count() >= written
    assert page.tab.locator("mjx-merror").count() == 0


def test_a_page_says_in_its_head_what_it_is_about(page):
    title, description = page.tab.evaluate(
        "[document.title, document.querySelector('meta[name=description]')?.content || '']"
    )
    assert len(title) > 20 and 50 <= len(description) <= 300


OWN = ("figures/", "figures.js", "scorecard.js", "labels.js")


# Screens of 900 pixels: all of the page with every fold closed, the top of the first numbered
# figure that is at least 200 pixels high, the top of the first one that reacts; the share of
# the page that is open code, and the number of open code cells.
LAYOUT = """() => {
  const shown = (e) => e.offsetParent !== null && !e.closest("details:not([open])");
  const place = (e) => e ? (e.getBoundingClientRect().top + scrollY) / 900 : 99;
  const tall = (e) => e.getBoundingClientRect().height >= 200;
  const code = [...document.querySelectorAll("div.cell_input")].filter(shown);
  const numbered = [...document.querySelectorAll("article figure[id]")];
  const figures = numbered.filter((e) => shown(e) && tall(e));
  const height = document.querySelector("main").scrollHeight;
  const open = code.reduce((sum, e) => sum + e.offsetHeight, 0);
  const reacting = figures.find((e) => e.querySelector(".sonode-figure"));
  return { screens: height / 900, code: open / height, cells: code.length,
    figure: place(figures[0]), reacting: place(reacting) };
}"""


def test_a_chapter_shows_its_findings_before_its_code(page):
    if page.name not in CHAPTERS:
        pytest.skip("not a chapter")
    page.tab.set_viewport_size({"width": 1400, "height": 900})
    found = page.tab.evaluate(LAYOUT)
    page.tab.set_viewport_size(WIDE)
    assert found["screens"] <= 12 and found["figure"] <= 2 and found["reacting"] <= 3, found
    assert found["code"] <= 0.2 and found["cells"] >= 6, found
    assert (
        page.tab.locator(".chapter-box .chip").count()
        == page.tab.locator("tr[id^=claim-]").count()
    )


def test_a_page_loads_little_script_and_no_widget_manager(page):
    """Without MathJax: the theme's icons are most of it, and our own are small."""
    sources = page.tab.evaluate("[...document.scripts].map(s => s.src).filter(s => s)")
    paths = [Path(url2pathname(urlsplit(source).path)) for source in sources]
    sizes = {str(p): p.stat().st_size for p in paths if "mathjax" not in str(p)}
    ours = sum(size for p, size in sizes.items() if any(own in p for own in OWN))
    assert ours < 0.1e6 and sum(sizes.values()) - ours < 1.85e6
    assert not [p for p in sizes if "require" in p or "embed-amd" in p or "anywidget" in p]


def test_a_narrow_screen_shows_a_page_without_scrolling_sideways(page):
    page.tab.set_viewport_size(NARROW)
    across = page.tab.evaluate("document.scrollingElement.scrollWidth")
    page.tab.set_viewport_size(WIDE)
    assert across <= NARROW["width"]


def test_the_panels_of_a_figure_are_equally_wide(page):
    """Three that nearly fit side by side once became two small ones above a huge one."""
    for width in (390, 1024, 1280, 1400):
        page.tab.set_viewport_size({"width": width, "height": 900})
        rows = page.tab.evaluate(
            "[...document.querySelectorAll('.pictures')].map("
            "row => [...row.children].map(svg => svg.getBoundingClientRect().width))"
        )
        assert [row for row in rows if max(row) - min(row) > 1] == [], width
    page.tab.set_viewport_size(WIDE)


# How the interactive figures stand in the page: texts that leave their drawing, curves that may
# reach a title, sliders narrower than 200 pixels, values of sliders beyond the figure, and
# whether the drawings of a figure begin at the same distance from the left.
IN_FRAME = """() => [...document.querySelectorAll("figure .sonode-figure")].map((figure) => {
  const rect = (e) => e.getBoundingClientRect();
  const drawings = [...figure.querySelectorAll(".pictures > svg")];
  const texts = (svg) => [...svg.querySelectorAll("text")].filter((e) => e.textContent.trim());
  const leaves = (svg) => texts(svg).filter((e) =>
    rect(e).left < rect(svg).left - 1 || rect(e).right > rect(svg).right + 1);
  const meets = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
    && a.y < b.y + b.height && b.y < a.y + a.height;
  const around = (curve) => {
    const window = curve.closest("svg").querySelector(
      (curve.getAttribute("clip-path") ?? "#none").replace(/url\\((.*)\\)/, "$1"));
    return (window?.firstElementChild ?? curve).getBBox();
  };
  const titles = (svg) => texts(svg).filter((e) => e.getAttribute("font-weight") === "bold");
  const crossed = (svg) => titles(svg).filter((title) =>
    [...svg.querySelectorAll("g > path")].some((p) => meets(around(p), title.getBBox())));
  const names = (found) => found.map((e) => e.textContent);
  const sliders = [...figure.querySelectorAll("label:has(input[type=range])")];
  return {
    leave: names(drawings.flatMap(leaves)), crossed: names(drawings.flatMap(crossed)),
    narrow: names(sliders.filter((e) => rect(e.querySelector("input")).width < 200)),
    cut: names(sliders.filter((e) => rect(e.lastElementChild).right > rect(figure).right)),
    columns: new Set(drawings.map((e) => Math.round(rect(e).left))).size,
    badge: getComputedStyle(figure.closest("figure").lastElementChild, "::before").content,
  };
})"""


@pytest.mark.parametrize("width", [1400, 390])
def test_an_interactive_figure_keeps_to_its_frame(page, width):
    if page.name not in WITH_FIGURE:
        pytest.skip("no interactive figure")
    page.tab.set_viewport_size({"width": width, "height": 900})
    found = page.tab.evaluate(IN_FRAME)
    across = page.tab.evaluate("document.scrollingElement.scrollWidth")
    page.tab.set_viewport_size(WIDE)
    assert found and across <= width
    for figure in found:
        assert figure.pop("badge") == '"Interactive"'
        columns = figure.pop("columns")
        assert columns == 1 if width < 600 else columns > 1
        assert not any(figure.values()), figure


# Code is coloured by kind of word, and formulas like the text around them: the first of
# each kind stands for the thousands.
ONE_OF_EACH_KIND = """() => {
    const seen = new Set();
    const kind = (found) => found.className + getComputedStyle(found).color;
    const all = [...document.querySelectorAll('pre span[class], mjx-container')];
    const kinds = all.map(kind);
    all.forEach((found, k) => {
        if (seen.has(kinds[k])) found.replaceWith(found.textContent);
        seen.add(kinds[k]);
    });
}"""
CHECK = "rules => axe.run(document, {resultTypes: ['violations'], preload: false, ...rules})"


@pytest.mark.parametrize(
    "theme, rules",
    [("light", {}), ("dark", {"runOnly": ["color-contrast"]})],
    ids=["light", "dark"],
)
def test_a_page_has_no_serious_accessibility_violation(page, theme, rules, axe):
    page.tab.evaluate(ONE_OF_EACH_KIND)
    page.wear(theme)
    page.tab.evaluate(axe)
    found = page.tab.evaluate(CHECK, rules)["violations"]
    page.wear("light")
    serious = {
        v["id"]: [node["target"] for node in v["nodes"]][:5]
        for v in found
        if v["impact"] in ("serious", "critical")
    }
    assert not serious


# What a figure shows, without its own sliders and buttons: those always move.
SHOWN = """figure => {
    const copy = figure.cloneNode(true);
    copy.querySelector('.controls').remove();
    return copy.innerHTML;
}"""


def _controls(page, kinds):
    """(its figure, the control), buttons last: some undo what the others did."""
    figures = page.tab.locator(".sonode-figure").all()
    assert bool(figures) == (page.name in WITH_FIGURE)
    for figure in figures:
        for kind in kinds:
            for control in figure.locator(kind).all():
                yield figure, control


def _pause(figure):
    """Stop a motion that an earlier test began: it would change the picture by itself."""
    figure.evaluate("""figure => figure.querySelectorAll('button').forEach(
        button => button.textContent.includes('pause') && button.click())""")


def _reacts(figure, act, *ways):
    """Whether the figure shows something else after act() in one of these ways."""
    _pause(figure)
    before = figure.evaluate(SHOWN)
    for way in ways:
        act(way)
        for _ in range(25):
            if figure.evaluate(SHOWN) != before:
                return True
            figure.page.wait_for_timeout(40)
    return False


def test_every_control_of_a_figure_answers_the_keys(page):
    arrows = ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp")
    for figure, control in _controls(page, ["input", "select", ".handle"]):
        assert _reacts(figure, control.press, *arrows), control.evaluate("c => c.outerHTML")
    for figure, button in _controls(page, ["button"]):
        assert _reacts(figure, button.press, "Enter"), button.inner_text()


def _drag(tab, control, way):
    """Press in the middle of the control (a slider: where it stands), let go elsewhere."""
    # To the middle: at the upper edge the page's bar would lie over it.
    control.evaluate("c => c.scrollIntoView({block: 'center', behavior: 'instant'})")
    box = control.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + way * 35, y + way * 20)
    tab.mouse.up()


def test_every_control_of_a_figure_answers_the_mouse(page):
    """Handles first: a slider may have nothing to move where the buttons left the figure."""
    for figure, control in _controls(page, [".handle", "input"]):
        drag = partial(_drag, page.tab, control)
        assert _reacts(figure, drag, 1, -1), control.evaluate("c => c.outerHTML")
    for figure, button in _controls(page, ["button"]):
        assert _reacts(figure, lambda _, b=button: b.click(), "once"), button.inner_text()


def test_a_motion_pauses_when_the_reader_moves_a_slider(page):
    """The laboratory goes on: there a slider changes what is learnt."""
    for figure in page.tab.locator(".sonode-figure:has(input):not(.laboratory)").all():
        for play in figure.get_by_role("button", name="play").all():
            play.click()
            for arrow in ("ArrowRight", "ArrowLeft"):  # at an end one of them moves nothing
                figure.locator("input").first.press(arrow)
            assert figure.get_by_role("button", name="pause").count() == 0


def test_a_page_is_quiet_and_asks_nothing_outside_the_book(page):
    """Last of the tests of a page: what they made it do counts as well."""
    book = page.html.as_uri()
    assert not page.said
    assert [url for url in page.asked if not url.startswith((book, "data:", "blob:"))] == []


def test_the_switches_of_the_scorecard_show_the_claims_they_count(visit):
    visit.go("book/scorecard")
    rows = scorecard.scorecard(ROOT / "book/results")
    shown = visit.tab.locator("article.claim:visible")
    for verdict, n in scorecard.counts(rows):
        visit.tab.locator(f"button[data-show='{verdict}']").click()
        assert shown.count() == n
    visit.tab.locator("button[data-show='all']").press("Enter")
    assert shown.count() == len(rows)


def test_the_switch_in_the_head_turns_a_page_dark_and_light_again(visit):
    visit.go("book/intro")
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = {visit.tab.evaluate(ground)}
    for _ in range(3):  # light, dark, as the system has it
        visit.tab.locator(".theme-switch-button:visible").first.click()
        seen.add(visit.tab.evaluate(ground))
    assert len(seen) == 2


@pytest.fixture(params=[1400, 390])
def front(request, visit):
    """The front page in a wide and in a narrow window."""
    visit.tab.set_viewport_size({"width": request.param, "height": 900})
    visit.go("book/intro")
    yield visit
    visit.wear("light")
    visit.tab.set_viewport_size(WIDE)


def test_the_hero_of_the_intro_plays_pauses_and_lets_its_points_be_dragged(front):
    hero = front.tab.locator(".sonode-figure")
    assert hero.locator("select").count() == 0 and hero.locator(".handle").count() == 6
    assert _reacts(hero, lambda _: hero.get_by_role("button", name="play").click(), "once")
    hero.get_by_role("button", name="pause").click()
    paused = hero.evaluate(SHOWN)
    front.tab.wait_for_timeout(400)
    assert hero.evaluate(SHOWN) == paused
    for handle in hero.locator(".handle").all():
        assert _reacts(hero, partial(_drag, front.tab, handle), 1, -1)


def test_the_first_screen_of_the_intro_reaches_the_hero(front):
    if front.tab.viewport_size["width"] > 1000:
        assert front.tab.locator(".sonode-figure svg").first.bounding_box()["y"] < 800


# The contrast of a link's text with its ground, by the formula of WCAG.
CONTRAST = """link => {
    const light = (colour) => {
        const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255);
        const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = parts.map(linear);
        return 0.05 + 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const { color, backgroundColor } = getComputedStyle(link);
    const [low, high] = [light(color), light(backgroundColor)].sort((a, b) => a - b);
    return high / low;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_intro_fits_its_window_and_its_buttons_can_be_read_and_reached(front, theme):
    front.wear(theme)
    across = front.tab.evaluate("document.scrollingElement.scrollWidth")
    assert across <= front.tab.viewport_size["width"]
    front.tab.wait_for_timeout(400)  # the colours of links fade over
    buttons = front.tab.locator(".buttons a").all()
    assert len(buttons) == 3
    for button in buttons:
        assert button.evaluate(CONTRAST) >= 4.5
        button.focus()
        assert button.evaluate("link => link === document.activeElement")


SWATCH = """colour => {
    const image = document.querySelector("div.cell_output img").cloneNode();
    const square = `<rect width="99" height="99" fill="${colour}"/>`;
    const drawing = `<svg xmlns="http://www.w3.org/2000/svg">${square}</svg>`;
    image.src = `data:image/svg+xml,${encodeURIComponent(drawing)}`;
    image.style.cssText = "width: 40px; height: 40px !important";
    document.getElementById("swatch")?.remove();
    document.querySelector("div.cell_output").append(image);
    image.id = "swatch";
    return image.decode();
}"""
SEEN = """(image, colour) => {
    const backgroundColor = getComputedStyle(document.body).backgroundColor;
    Object.assign(image.style, { color: `rgb(${colour})`, backgroundColor });
}"""


def test_the_colours_of_a_stored_picture_can_be_told_from_a_dark_page(visit):
    """The page inverts it there: each colour as the reader sees it, by the formula above."""
    visit.go("notebooks/00_models")
    visit.wear("dark")
    seen = {}
    for name, colour in {**figures.COLOURS, "ink": figures.INK}.items():
        visit.tab.evaluate(SWATCH, colour)
        swatch = visit.tab.locator("#swatch")
        pixel = Image.open(io.BytesIO(swatch.screenshot())).convert("RGB").getpixel((20, 20))
        swatch.evaluate(SEEN, ",".join(map(str, pixel)))
        seen[name] = swatch.evaluate(CONTRAST)
    visit.wear("light")
    assert min(seen.values()) >= 4.5, seen


def test_the_search_finds_a_chapter(visit):
    visit.tab.goto((visit.html / "search.html").as_uri() + "?q=Silverbox")
    visit.tab.locator("#search-results a[href*='08_real_systems']").first.wait_for()


def test_without_javascript_a_still_picture_stands_for_each_figure(browser, html):
    tab = browser.new_context(java_script_enabled=False).new_page()
    tab.set_default_timeout(PATIENCE)
    for page in WITH_FIGURE:
        tab.goto((html / f"{page}.html").as_uri())
        stills = tab.locator("img.still").all()
        assert len(stills) == tab.locator(tools.FIGURE).count() > 0, page
        for still in stills:
            assert still.get_attribute("alt")
            assert still.evaluate("image => image.naturalWidth") > 200, page


def test_a_still_picture_is_small():
    sizes = {p.name: p.stat().st_size for p in (ROOT / "assets/stills").glob("*.png")}
    assert sizes and max(sizes.values()) < 60_000


def test_the_whole_book_prints_to_one_pdf_with_a_picture_for_each_figure(tmp_path, html):
    command = [sys.executable, str(ROOT / "tools/pdf.py"), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=1200)
    printed = (tmp_path / "_build/book.pdf").read_bytes()
    assert printed.startswith(b"%PDF") and len(printed) > 1_000_000
    whole = (tmp_path / "_build/singlehtml/all.html").read_text("utf8")
    named = re.findall(r'class="still" alt="" src="([^"]+)"', whole)
    assert len(named) >= len(WITH_FIGURE)
    assert all((tmp_path / "_build/singlehtml" / name).exists() for name in named)


def test_the_report_prints_on_four_pages(tmp_path, html):
    command = [sys.executable, str(ROOT / "tools/pdf.py"), "--report", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    printed = (tmp_path / "_build/report.pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 4
