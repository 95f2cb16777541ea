"""The scripts behind make: nothing half-done is ever left in place."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sonode_utils import files

ROOT = Path(__file__).parents[1]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_what_a_killed_build_left_behind_is_removed_by_the_next(vendor, tmp_path, monkeypatch):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / f"assets/.vendor.{dead.pid}.draft"
    left.mkdir(parents=True)
    fake_npm(tmp_path, monkeypatch, "import sys; sys.exit('no network')")
    vendor.vendor()
    assert not left.exists()


def test_two_builds_at_once_are_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    build_book = load("build_book")
    first = files.alone(tmp_path / "_build/book.lock", "")
    with first, pytest.raises(SystemExit, match="another make book is at work here: wait"):
        build_book.main(tmp_path)
