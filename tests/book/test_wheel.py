"""The package alone: what its wheel holds, asks for, and can do away from the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
TRAIN = """
import torch, sonode_utils
from sonode_utils import figures, fit, mse, paper_model, streams
from sonode_utils.evidence.report import CATALOGUE
model, times = paper_model("SONODE", 1, streams("test", range(2))), torch.linspace(0, 1, 5)
x0, data = torch.ones(2, 1, 1), torch.cos(times).view(5, 1, 1, 1)
loss = fit(model, lambda solve: mse(solve(x0, times).x, data), iterations=50, label=None).loss
print(sonode_utils.__file__, len(CATALOGUE) > 50, "export" in figures.sources("parity")["_esm"])
print(bool((loss[-1] < loss[0]).all()))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built by setuptools from a copy, as pip builds it from a checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    away = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sonode_utils", folder / "sonode_utils", ignore=away)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", folder, folder], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (p for p in (ROOT / "sonode_utils").rglob("*") if p.is_file())
    ours = {p.relative_to(ROOT).as_posix() for p in files if "__pycache__" not in p.parts}
    assert held == ours and any(name.endswith(".js") for name in held)


def test_the_wheel_asks_for_the_core_alone_and_describes_itself(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist")]
    plain = {r.name: r.specifier for r in needed if r.marker is None}
    assert plain.keys() == {"torch", "torchdiffeq", "numpy", "tqdm"}
    assert "2.6.0" in plain["torch"] and "2.13.0+cpu" in plain["torch"]
    assert metadata["License-Expression"] == "MIT"
    assert "make book" in metadata.get_payload()


def test_the_wheel_trains_away_from_the_checkout(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    own = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", TRAIN]
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True)
    place = tmp_path / "sonode_utils/__init__.py"
    assert done.stdout == f"{place} True True\nTrue\n", done.stderr
