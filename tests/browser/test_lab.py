"""The cells of "Try it live" in a real JupyterLab: controls, training, picture, cancelling."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import browser as tools  # noqa: E402

PATIENCE = 180_000  # milliseconds, for a slow machine; every wait ends as soon as it can
LIVE = ["02_parity", "03_nested_spheres", "04_second_order_anodes"]
LIVE += ["06_interpretability", "07_oscillators_and_noise", "E1_van_der_pol"]
pytestmark = [
    pytest.mark.skipif(
        tools.chromium() is None,
        reason="no Chromium here: install the package chromium for these tests",
    ),
    pytest.mark.xdist_group("browser"),  # one worker, one browser
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab that has the live cells of each chapter alone."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    folder = tmp_path_factory.mktemp("lab")
    for name in LIVE:
        notebook = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
        keep = [c for c in notebook.cells if "live" in c.metadata.get("tags", [])]
        notebook.cells = keep
        nbformat.write(notebook, folder / f"{name}.ipynb")
    homes = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    environment = {**os.environ} | {home: str(folder / f".{home}") for home in homes}
    options = ["--no-browser", "--port=0", "--allow-root", "--expose-app-in-browser"]
    options += [f"--ServerApp.root_dir={folder}", "--IdentityProvider.token="]
    command = [sys.executable, "-m", "jupyterlab", *options]
    pipe = {"stderr": subprocess.STDOUT, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipe) as server:
        lines = iter(server.stdout.readline, "")
        found = (re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)/", line) for line in lines)
        port = next(match[1] for match in found if match)
        yield f"http://127.0.0.1:{port}"
        server.terminate()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright not installed")
    try:
        with tools.started(tools.chromium()) as running:
            yield running
    except playwright.Error as error:
        pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")


@pytest.fixture
def opened(lab, browser, request):
    """A chapter's live cells in JupyterLab, run."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.set_default_timeout(PATIENCE)
    tab.goto(f"{lab}/doc/tree/{request.param}.ipynb")
    tab.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    tab.wait_for_function("jupyterapp.shell.currentWidget?.sessionContext.session?.kernel")
    tab.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    tab.get_by_role("button", name="Train").wait_for()
    yield tab
    tab.close()


def set_number(tab, name, value):
    """Type a value into the read-out of a slider."""
    readout = tab.locator(".widget-hslider", has_text=name).locator(".widget-readout")
    readout.fill(str(value))
    readout.press("Enter")


@pytest.mark.parametrize("opened", LIVE, indirect=True)
def test_train_draws_a_picture_and_another_setting_another_one(opened):
    tab = opened
    set_number(tab, "iterations", 50)
    tab.get_by_role("button", name="Train").click()
    tab.get_by_text("Trained in").wait_for()
    picture = tab.locator(".jp-OutputArea img.widget-image")
    picture.wait_for()
    before = picture.get_attribute("src")
    set_number(tab, "iterations", 100)
    tab.wait_for_function(
        "src => document.querySelector('img.widget-image').src !== src", arg=before
    )


@pytest.mark.parametrize("opened", ["02_parity"], indirect=True)
def test_cancel_ends_a_training_and_leaves_no_picture(opened):
    tab = opened
    set_number(tab, "iterations", 1000)
    tab.get_by_role("button", name="Train").click()
    tab.get_by_text("seconds left").wait_for()
    tab.get_by_role("button", name="Cancel").click()
    tab.get_by_text("Cancelled.").wait_for()
    assert not tab.locator("img.widget-image").is_visible()
