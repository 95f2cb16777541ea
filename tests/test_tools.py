"""The scripts behind make: nothing half-done is ever left in place."""

import importlib.util
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[1]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def execute(tmp_path, monkeypatch):
    tool = load("execute")
    monkeypatch.setattr(tool, "NOTEBOOKS", tmp_path)
    return tool


def store(folder, *sources):
    cells = [new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(new_notebook(cells=cells), folder / "x.ipynb")


def outputs(folder):
    cells = nbformat.read(folder / "x.ipynb", as_version=4).cells
    return [[output.get("text") for output in cell.outputs] for cell in cells]


def test_a_notebook_is_executed_in_place(execute, tmp_path):
    store(tmp_path, "seeds = 10", "print(seeds + 1)")
    assert execute.execute("x", seeds=None) == 0
    assert outputs(tmp_path) == [[], ["11\n"]]


def test_other_seeds_change_the_run_and_not_the_source(execute, tmp_path):
    store(tmp_path, "seeds = 10", "print(seeds + 1)")
    execute.execute("x", seeds=20)
    assert outputs(tmp_path) == [[], ["21\n"]]
    assert nbformat.read(tmp_path / "x.ipynb", as_version=4).cells[0].source == "seeds = 10"


def test_a_failing_notebook_is_left_as_it_was(execute, tmp_path, capsys):
    store(tmp_path, "seeds = 10", "1 / 0")
    before = (tmp_path / "x.ipynb").read_bytes()
    assert execute.execute("x", seeds=None) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert (tmp_path / "x.ipynb").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.ipynb"]


def test_progress_bars_are_not_stored_and_warnings_are(execute, tmp_path):
    bar = "from tqdm import tqdm\nfor _ in tqdm(range(3)): pass"
    store(tmp_path, bar, "import warnings\nwarnings.warn('look here')")
    execute.execute("x", seeds=None)
    first, second = outputs(tmp_path)
    assert first == [] and "look here" in second[0]


def test_an_unknown_notebook_is_named_with_those_there_are(execute, tmp_path):
    store(tmp_path, "seeds = 10")
    with pytest.raises(SystemExit, match="no notebook 'y'; there are x"):
        execute.find("y")


@pytest.fixture
def vendor(tmp_path, monkeypatch):
    tool = load("vendor")
    monkeypatch.setattr(tool, "VENDOR", tmp_path / "assets" / "vendor")
    return tool


def fake_npm(folder, monkeypatch, script):
    (folder / "bin").mkdir()
    npm = folder / "bin" / "npm"
    npm.write_text(f"#!{sys.executable}\n{script}")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"))


@pytest.mark.parametrize(
    "script, words",
    [
        ("import sys; sys.exit('no network')", "could not fetch mathjax"),
        (
            "import sys\nopen(sys.argv[4] + '/a.tgz', 'w').write('<html>')\nprint('a.tgz')",
            "has sha256 .* not used",
        ),
    ],
    ids=["no network", "wrong file"],
)
def test_what_cannot_be_fetched_whole_is_not_used(
    vendor, script, words, tmp_path, monkeypatch, capsys
):
    fake_npm(tmp_path, monkeypatch, script)
    assert vendor.vendor() is False
    printed = capsys.readouterr().out
    assert re.search(words, printed) and "CDN" in printed
    assert list((tmp_path / "assets").iterdir()) == []


def test_without_npm_the_build_goes_on_and_says_so(vendor, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert vendor.vendor() is False
    assert "npm is not installed" in capsys.readouterr().out
