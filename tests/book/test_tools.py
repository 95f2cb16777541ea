"""The scripts behind make: nothing half-done is ever left in place."""

import importlib.util
import json
import re
import sys
import types
from pathlib import Path

import pytest
import yaml
from sphinx.util.matching import get_matching_files

ROOT = Path(__file__).parents[2]


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


@pytest.fixture
def build_book(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return load("build_book")


def fake_npm(folder, monkeypatch, script):
    (folder / "bin").mkdir()
    npm = folder / "bin" / "npm"
    npm.write_text(f"#!{sys.executable}\n{script}")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"))


REFUSED = "npm error code E401\nnpm error 401 Unauthorized: no such user\n"


@pytest.mark.parametrize(
    "script, words",
    [
        (
            f"import sys; sys.exit({REFUSED!r})",
            "mathjax@3.2.2: code E401; 401 Unauthorized",
        ),
        ("import sys; sys.exit(1)", "could not fetch mathjax@3.2.2: no reason given"),
        (
            "import sys\nopen(sys.argv[4] + '/a.tgz', 'w').write('<html>')\nprint('a.tgz')",
            "has sha256 .* not used",
        ),
    ],
    ids=["refused", "silent", "wrong file"],
)
def test_what_cannot_be_fetched_whole_is_not_used(vendor, script, words, tmp_path, monkeypatch):
    fake_npm(tmp_path, monkeypatch, script)
    assert re.search(words, vendor.vendor())
    assert list((tmp_path / "assets").iterdir()) == []


def test_a_damaged_library_is_named_put_aside_and_fetched_again(
    vendor, tmp_path, monkeypatch, capsys
):
    file = vendor.VENDOR / "mathjax/tex-mml-chtml.js"
    file.parent.mkdir(parents=True)
    file.write_text("maths")
    kept = {"mathjax/tex-mml-chtml.js": vendor._sha256(file)}
    (vendor.VENDOR / "complete").write_text(json.dumps(kept))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert vendor.vendor() == "" and file.exists()
    file.write_text("meths")
    assert vendor.vendor() == "npm is not installed"
    assert f"{file} is damaged" in capsys.readouterr().out and not vendor.VENDOR.exists()
    aside = vendor.VENDOR.with_name(".vendor.damaged")
    assert (aside / "mathjax/tex-mml-chtml.js").read_text() == "meths"


def test_without_npm_the_build_goes_on_and_names_the_pages_that_lack_formulas(
    build_book, tmp_path, monkeypatch, capsys
):
    def jupyter_book(target, page, *options):
        for name, text in (("a", '<span class="math notranslate">'), ("b", "words")):
            (tmp_path / f"{name}.html").write_text(text)
        return tmp_path / "index.html"

    monkeypatch.setattr(build_book, "vendor", lambda: "npm is not installed")
    monkeypatch.setattr(build_book, "jupyter_book", jupyter_book)
    build_book.build(tmp_path)
    said = "npm is not installed.\nFormulas are shown as TeX on these pages: a\n"
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize("fetched", [True, False])
def test_formulas_are_set_by_the_pinned_library_or_by_none(fetched, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book/_ext"))
    offline, config = importlib.import_module("offline"), types.SimpleNamespace()
    monkeypatch.setattr(offline, "VENDOR", tmp_path)
    if fetched:
        (tmp_path / "complete").touch()
    offline.use_vendored(None, config)
    file = "vendor/mathjax/tex-mml-chtml.js" if fetched else "no_mathjax.js"
    assert config.mathjax_path == file
    assert fetched or (ROOT / "assets" / file).exists()


def test_what_a_killed_build_left_behind_is_removed_by_the_next(vendor, tmp_path, monkeypatch):
    left = tmp_path / "assets/.vendor.draft"
    left.mkdir(parents=True)
    fake_npm(tmp_path, monkeypatch, "import sys; sys.exit('no network')")
    vendor.vendor()
    assert not left.exists()


def test_two_builds_at_once_are_refused(build_book, tmp_path):
    first = build_book.locked(tmp_path / "_build/book.lock", "")
    with first, pytest.raises(SystemExit, match="another make book is at work here: wait"):
        build_book.main(tmp_path)


def test_a_failing_build_ends_with_its_first_warning(build_book, tmp_path, monkeypatch):
    fake = tmp_path / "jupyter-book"
    said = "[IPKernelApp] WARNING | no matter\\n\\033[91ma.md:3: WARNING: no such label\\033[0m"
    fake.write_text(f"#!/bin/sh\nprintf '{said}\\nb.md: WARNING: later\\n' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(build_book.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(
        SystemExit, match=r"did not build\. First: a\.md:3: WARNING: no such label$"
    ):
        build_book.jupyter_book(tmp_path, "html/index.html")


def test_what_else_lies_in_a_checkout_is_no_page(tmp_path):
    """Notes in hidden folders, and the files of a second virtual environment."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    for name in ("book/a.md", ".notes/b.md", "env2/lib/c.md", "d.md", "book/_ext/e.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    wanted = config["sphinx"]["config"]["include_patterns"]
    assert list(get_matching_files(tmp_path, wanted)) == ["book/a.md"]
