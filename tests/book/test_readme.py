"""What the README tells a newcomer to type works."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "book/how_to_read.md"])
def test_the_ten_lines_of_python_run(page):
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    names = {}
    exec(lines.replace("iterations=200", "iterations=5"), names)  # ours, from the page above
    assert names["history"].loss.shape == (5, 10)


def test_make_help_lists_every_target_the_readme_names():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    named = set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text()))
    assert named and named <= set(re.findall(r"^make ([a-z]+)", listed, re.M))


def test_an_old_python_is_refused_with_a_word(tmp_path):
    old = tmp_path / "python-old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    for name in ("requirements.lock", "requirements.hashes", "pyproject.toml"):
        (tmp_path / name).touch()
    done = subprocess.run(
        ["make", f"PYTHON={old}", "book"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0 and "needs Python 3.11 or later" in done.stdout
    assert "Python 3.9.1" in done.stdout and not (tmp_path / ".venv").exists()


def test_a_failed_installation_says_what_to_do_and_is_taken_up_again(tmp_path):
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "requirements.hashes").touch()
    (tmp_path / "requirements.lock").write_text("./no-such-package.whl\n")
    done = subprocess.run(["make", "book"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "The installation failed" in done.stdout
    assert not (tmp_path / ".venv/installed").exists()
