"""The laboratory: what a reader does trains, is said, and comes back from the address."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import browser as tools  # noqa: E402
import vendor  # noqa: E402

PATIENCE = 120_000  # milliseconds, for a slow machine; every wait ends as soon as it can
WIDE, PHONE = {"width": 1280, "height": 1000}, {"width": 390, "height": 800}
TASKS = {
    "draw": "draw your own",
    "sine": "the sine of the paper",
    "oscillators": "damped oscillators",
    "parity": "parity: exchange two points",
}
pytestmark = [
    pytest.mark.skipif(
        tools.chromium() is None,
        reason="no Chromium here: install the package chromium for these tests",
    ),
    pytest.mark.xdist_group("browser"),  # one worker, one browser
]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright not installed")
    try:
        with tools.started(tools.chromium()) as running:
            yield running
    except playwright.Error as error:
        pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")


@pytest.fixture
def laboratory(browser, pages):
    """laboratory(hash): the page opened as a file, in a tab that must stay quiet."""
    if not (vendor.VENDOR / "complete").exists():
        pytest.skip("the libraries of the pages could not be fetched: they come from a CDN")
    contexts, said = [], []

    def opened(address="", **options):
        known = {"viewport": WIDE, "reduced_motion": "reduce", **options}
        contexts.append(browser.new_context(**known))
        tab = contexts[-1].new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("console", lambda m: m.type in ("error", "warning") and said.append(m.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto((pages / "book/laboratory.html").as_uri() + address)
        tab.wait_for_function(f"({ROWS})().every((row) => row[1] !== '–')")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert not said


# Per model: its name, iterations, error inside and beyond, as the table shows them.
ROWS = """() => [...document.querySelectorAll(".laboratory tbody tr")].map((row) =>
  [...row.querySelectorAll(".name, td")].map((cell) => cell.textContent))"""


def rows(tab):
    return tab.evaluate(ROWS)


def iterations(tab):
    return [int(row[1]) for row in rows(tab)]


def errors(tab):
    """Of NODE, ANODE and SONODE inside the training interval."""
    return [float(row[2].replace("−", "-")) for row in rows(tab)]


def press(tab, name):
    tab.locator(".laboratory").get_by_role("button", name=name, exact=False).click()


def trained(tab, least):
    """Wait until every model did so many iterations, and pause."""
    tab.wait_for_function(f"({ROWS})().every((row) => Number(row[1]) >= {least})")
    press(tab, "pause")
    tab.get_by_role("button", name="play").wait_for()


def note(tab):
    return tab.locator(".laboratory .note").inner_text()


def curve(tab):
    """What is drawn on the pad, as the text of its path."""
    return tab.locator(".laboratory .bench svg").first.locator("g > path").get_attribute("d")


def numbers_of(path):
    return [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]


def across(pad, *points):
    """Points of the page from shares of the pad's width and height."""
    box = pad.bounding_box()
    return [(box["x"] + a * box["width"], box["y"] + b * box["height"]) for a, b in points]


# ---- training


@pytest.mark.parametrize("task", TASKS)
def test_every_task_trains_and_its_losses_fall(task, laboratory):
    tab = laboratory()
    tab.get_by_label("task").select_option(TASKS[task])
    tab.wait_for_timeout(300)
    before = errors(tab)
    press(tab, "play")
    trained(tab, 150)
    after = errors(tab)
    assert all(b < a for a, b in zip(before, after))
    assert max(after[1:]) < 0.05 < after[0], "a NODE has learnt it, or the others have not"
    loss = tab.locator(".laboratory svg", has_text="iterations").locator("g > path")
    assert loss.count() == 9, "three seeds of three models"
    assert all(path.get_attribute("d").count("L") > 50 for path in loss.all())
    beyond = [row[3] for row in rows(tab)]
    assert (beyond == ["–"] * 3) == (task == "parity")


def test_play_pause_ten_iterations_and_reset(laboratory):
    tab = laboratory("#task=sine")
    first = rows(tab)
    assert iterations(tab) == [0, 0, 0]
    press(tab, "10 iterations")
    tab.wait_for_function(f"({ROWS})().every((row) => row[1] === '10')")
    ten = rows(tab)
    press(tab, "play")
    trained(tab, 50)
    tab.wait_for_timeout(200)
    paused = rows(tab)
    tab.wait_for_timeout(300)
    assert rows(tab) == paused
    press(tab, "reset")
    tab.wait_for_function(f"({ROWS})().every((row) => row[1] === '0')")
    assert rows(tab) == first
    press(tab, "10 iterations")
    tab.wait_for_function(f"({ROWS})().every((row) => row[1] === '10')")
    assert rows(tab) == ten, "the same seeds, the same training"


def test_it_plays_by_itself_where_motion_is_welcome_and_stops_at_the_end(laboratory):
    tab = laboratory(reduced_motion="no-preference")
    tab.locator(".laboratory .pictures").nth(1).scroll_into_view_if_needed()
    tab.get_by_text("Paused. Errors inside").wait_for()
    assert iterations(tab) == [3000] * 3
    assert "SONODE has learnt the motion after" in note(tab)
    assert tab.get_by_role("button", name="play").count() == 1


def test_a_blow_up_is_said_and_no_nan_is_shown(laboratory):
    tab = laboratory("#task=sine&rate=10")
    press(tab, "play")
    tab.get_by_text("Paused. Errors inside").wait_for()
    assert "NODE: 3 of 3 seeds diverged." in note(tab)
    assert (
        tab.locator(".laboratory tbody tr").first.get_by_text("3 of 3 seeds diverged").count()
    )
    whole = tab.locator(".laboratory").evaluate("box => box.outerHTML")
    assert not re.search(r"NaN|Infinity|undefined", whole)


# ---- the address


def sliders(tab):
    return tab.locator(".laboratory output").all_inner_texts()


def test_the_address_brings_the_whole_experiment_back(laboratory):
    tab = laboratory()
    pad = tab.locator(".laboratory .pad")
    pad.focus()
    for key in ["ArrowRight"] * 9 + ["ArrowUp"] * 7:
        tab.keyboard.press(key)
    for slider in tab.locator(".laboratory input").all():
        slider.press("ArrowRight")
    tab.wait_for_function(f"({ROWS})()[1][0] === 'ANODE(2)'")
    tab.wait_for_timeout(400)
    address = re.search("#.*", tab.url)[0]
    assert len(address) < 200
    again = laboratory(address)
    assert curve(again) == curve(tab)
    assert sliders(again) == sliders(tab) == ["0.05", "0.025", "t = 6.5", "2", "1"]
    for one in (tab, again):
        press(one, "10 iterations")
        one.wait_for_function(f"({ROWS})().every((row) => row[1] === '10')")
    assert rows(again) == rows(tab)


WRONG = {
    "#task=fly": "task",
    "#task=sine&noise=9&rate=fast": "noise, rate",
    "#task=draw&x=zz": "x",
    "#task=draw&seed=1.5&colour=red&=": "seed, colour, a part without a name",
    "#task=draw&constructor=1&until=NaN": "constructor, until",
}


@pytest.mark.parametrize("address", WRONG)
def test_a_malformed_address_gives_the_defaults_and_says_so(address, laboratory):
    tab = laboratory(address)
    assert f"no valid {WRONG[address]}: the default is used" in note(tab)
    assert sliders(tab)[1:] == [("0.02"), "t = 7.2" if "sine" in address else "t = 6", "1", "0"]


def test_an_address_of_a_section_asks_for_no_experiment(laboratory):
    tab = laboratory("#experiments")
    assert note(tab) == "" and tab.get_by_label("task").input_value() == TASKS["draw"]


def test_every_guided_experiment_starts_without_a_complaint(laboratory):
    tab = laboratory()
    links = tab.locator("article a[href^='#task=']")
    assert links.count() >= 8
    for link in links.all():
        link.click()
        tab.wait_for_function(f"({ROWS})().some((row) => Number(row[1]) > 0)")
        assert "no valid" not in note(tab)
        task = re.match(r"#task=(\w+)", link.get_attribute("href"))[1]
        assert tab.get_by_label("task").input_value() == TASKS[task]


def test_the_wave_that_sonode_loses_is_learnt_by_anode_alone(laboratory):
    tab = laboratory()
    tab.get_by_role("link", name="Make SONODE lose").click()
    tab.wait_for_function(f"({ROWS})()[1][0] === 'ANODE(2)'")
    trained(tab, 1000)
    node, anode, sonode = errors(tab)
    assert 5 * anode < sonode < node


# ---- drawing


def test_a_stroke_of_the_mouse_becomes_the_curve_and_is_learnt(laboratory):
    tab = laboratory()
    pad, before = tab.locator(".laboratory .pad"), numbers_of(curve(tab))
    (x, y), *rest = across(pad, (0.3, 0.2), (0.5, 0.8), (0.4, 0.8), (0.7, 0.2))
    tab.mouse.move(x, y)
    tab.mouse.down()
    for point in rest:
        tab.mouse.move(*point)
    tab.mouse.up()
    after = numbers_of(curve(tab))
    assert len(after) == 50, "one x per time, whatever the hand did"
    assert after[:10] == before[:10] and after[40:] == before[40:]
    box = pad.bounding_box()
    scale = tab.locator(".laboratory .pad").evaluate("e => e.getScreenCTM().a")
    drawn = [(v * scale - 24 * scale) / box["height"] for v in after]
    assert abs(drawn[17] - 0.27) < 0.1 and abs(drawn[22] - 0.7) < 0.15
    assert abs(drawn[34] - 0.22) < 0.1
    tab.get_by_role("button", name="pause").wait_for()
    tab.wait_for_function(f"({ROWS})().every((row) => Number(row[1]) > 100)")
    dashed = tab.locator(".laboratory svg", has_text="ANODE(1)").first.locator("path").all()
    assert any(path.get_attribute("stroke-dasharray") for path in dashed)
    assert "x=" in tab.url


def test_the_keys_choose_a_time_and_move_the_curve(laboratory):
    tab = laboratory()
    pad, before = tab.locator(".laboratory .pad"), numbers_of(curve(tab))
    pad.focus()
    for key in ["ArrowRight"] * 20 + ["ArrowLeft"] * 5 + ["ArrowUp"] * 4 + ["ArrowDown"]:
        tab.keyboard.press(key)
    after = numbers_of(curve(tab))
    lifted = [b - a for a, b in zip(after, before)]  # pixels, upwards
    assert lifted.index(max(lifted)) == 15 and max(lifted) > 5
    assert lifted[5] == lifted[30] == 0, "only the neighbours follow"
    words = pad.get_attribute("aria-valuetext")
    assert re.fullmatch(r"x is -?\d\.\d\d at time 3\.1", words)
    assert tab.get_by_role("slider", name="The motion to be learnt").count() == 1


def test_a_finger_draws_on_a_phone_and_the_page_stays_where_it_is(laboratory):
    tab = laboratory(viewport=PHONE, has_touch=True, is_mobile=True)
    pad, before = tab.locator(".laboratory .pad"), curve(tab)
    pad.evaluate("e => e.scrollIntoView({ block: 'center' })")
    place = tab.evaluate("scrollY")
    finger = tab.context.new_cdp_session(tab)
    path = [(0.02 + 0.0096 * k, 0.5 - 0.4 * math.sin(k / 12)) for k in range(100)]
    for kind, points in [("touchStart", path[:1]), *(("touchMove", [p]) for p in path[1:])]:
        touches = [{"x": x, "y": y} for x, y in across(pad, *points)]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert tab.evaluate("scrollY") == place and curve(tab) != before
    after = numbers_of(curve(tab))
    turns = sum((b - a) * (c - b) < 0 for a, b, c in zip(after, after[1:], after[2:]))
    assert 2 <= turns <= 4, "a sine of one and a third periods"
    tab.wait_for_function(f"({ROWS})().every((row) => Number(row[1]) > 50)")
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= 390


# ---- Python


EXECUTE = """
import json, sys
import torch
for name, code in json.loads(sys.stdin.read()).items():
    print("task", name)
    known = {}
    exec(compile(code, name, "exec"), known)
    data, times, train = known["data"], known["times"], known["train"]
    assert data.shape == (len(times), 1, known["x0"].shape[1], 1)
    if name == "sine":
        assert (data[:, 0, 0, 0] - times.sin()).abs().max() < 1e-4
        assert times[train[-1]] <= 7.2 < times[train[-1] + 1]
    if name == "parity":
        assert data.flatten().tolist() == [1.0, -1.0, -1.0, 1.0] and train == [1]
"""


def test_the_program_for_python_runs_as_it_stands(laboratory):
    tab, programs = laboratory(), {}
    for task, name in TASKS.items():
        tab.get_by_label("task").select_option(name)
        press(tab, "copy as Python")
        tab.wait_for_timeout(300)
        programs[task] = tab.get_by_label("the same experiment in Python").input_value()
    short = {k: v.replace("iterations = 500", "iterations = 3") for k, v in programs.items()}
    assert all(short[k] != programs[k] for k in short)
    assert all(len(line) <= 100 for text in programs.values() for line in text.splitlines())
    command = [sys.executable, "-c", EXECUTE]
    done = subprocess.run(
        command, input=json.dumps(short), capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr
    said = re.findall(r"(?:trains|beyond): (\S+)", done.stdout)
    assert len(said) == 3 * 2 * 3 + 3 and all(0 < float(x) < 1e3 for x in said)


# ---- the page around it


def test_the_page_shows_the_whole_engine(laboratory):
    tab = laboratory()
    fold = tab.locator("details", has_text="engine of the laboratory")
    shown = re.sub(r"\s+", "", fold.locator("pre").text_content())
    engine = (ROOT / "assets/laboratory/engine.js").read_text("utf8")
    assert re.sub(r"\s+", "", engine) == shown


def test_the_pages_own_code_stays_short():
    names = ("experiment", "view", "pad", "page")
    texts = [(ROOT / f"assets/laboratory/{name}.js").read_text("utf8") for name in names]
    assert sum(len(text.splitlines()) for text in texts) <= 780
