"""pyproject's ranges, the lock's pins, conda's door and what is installed agree."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import sonode_utils

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = dict(PROJECT["optional-dependencies"])
BENCH = [Requirement(line) for line in EXTRAS.pop("bench")]  # large, and not installed by make
RANGES = [
    Requirement(line) for group in (PROJECT["dependencies"], *EXTRAS.values()) for line in group
]


def pins():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): pin for name, pin in pairs}


def test_every_range_admits_its_pin():
    locked = pins()
    for wanted in RANGES:
        assert canonicalize_name(wanted.name) in locked, f"{wanted} is not in the lock"
        assert locked[canonicalize_name(wanted.name)] in wanted.specifier, wanted


def test_what_the_lock_leaves_out_is_pinned_where_it_stands():
    assert BENCH and all(str(wanted.specifier).startswith("==") for wanted in BENCH)


def test_every_pin_but_torch_has_its_hashes():
    lines = (ROOT / "requirements.hashes").read_text().replace("\\\n", " ").splitlines()
    held = [line.split() for line in lines if not line.startswith("#")]
    names = {canonicalize_name(p.split("==")[0]): p.split("==")[1] for p, *_ in held}
    assert names == {name: pin for name, pin in pins().items() if name != "torch"}
    for pin, *hashes in held:
        assert hashes and all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", h) for h in hashes), (
            pin
        )


def test_torch_is_pinned_exactly_in_the_lock_and_by_a_range_in_the_package():
    (torch,) = (r for r in RANGES if r.name == "torch")
    assert pins()["torch"] == "2.13.0" and ">=" in str(torch.specifier)


def test_the_package_needs_four_libraries_and_everything_else_is_an_extra():
    needed = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert needed == {"torch", "torchdiffeq", "numpy", "tqdm"}
    assert set(EXTRAS) == {"book", "data", "test", "cluster", "lab"}


def test_the_version_has_one_source():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert PROJECT["dynamic"] == ["version"]
    assert citation["version"] == sonode_utils.__version__ == version("sonode-utils")
    assert f"## {sonode_utils.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_installed_versions_are_the_locked_ones():
    wrong = {n: version(n) for n, pin in pins().items() if version(n).split("+")[0] != pin}
    assert not wrong, f"installed, but locked otherwise: {wrong}; run make again"


def test_binder_and_conda_open_the_same_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *conda, pip = environment["dependencies"]
    (python,) = [line.removeprefix("python=") for line in conda if line.startswith("python=")]
    assert python in SpecifierSet(PROJECT["requires-python"])
    check = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())
    assert python in check["jobs"]["quick"]["strategy"]["matrix"]["python"]  # it is tried
    assert pip == {"pip": ["-r requirements.lock", "-e ."]}


@pytest.mark.parametrize(
    "name", ["README.md", "LICENSE", "CITATION.cff", "CONTRIBUTING.md", "CHANGELOG.md"]
)
def test_a_newcomer_finds(name):
    assert (ROOT / name).stat().st_size > 500
