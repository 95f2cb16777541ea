"""make quick: a chapter that fails is named, the others run, and make sees it."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import quick  # noqa: E402


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """What papermill was asked to run, [(notebook, target, profile)]; 03 fails."""
    asked = []

    def execute(source, target, **options):
        asked.append((source, target, os.environ["SONODE_PROFILE"]))
        if source.stem == "03_nested_spheres":
            raise RuntimeError("the kernel died")

    monkeypatch.chdir(tmp_path)
    for name in ("SONODE_PROFILE", "SONODE_RESULTS_DIR"):
        monkeypatch.setenv(name, "")  # put back at the end
    monkeypatch.setattr(quick, "FOLDER", tmp_path / "quick")
    monkeypatch.setattr(quick.papermill, "execute_notebook", execute)
    return asked


def test_all_notebooks_run_on_the_quick_profile_though_one_fails(ran, tmp_path, capsys):
    assert quick.main() == 1
    notebooks = sorted(ROOT.glob("notebooks/*.ipynb"))
    assert sorted(source for source, *_ in ran) == notebooks
    assert {target for _, target, _ in ran} == {tmp_path / "quick" / p.name for p in notebooks}
    assert {profile for *_, profile in ran} == {"quick"}
    said = capsys.readouterr().out
    assert said.count("FAILED") == 1 and "the kernel died" in said
    assert said.count("done") == len(notebooks) - 1


def test_one_notebook_runs_alone_and_a_misspelt_one_is_refused(ran):
    assert quick.main("02_parity") == 0 and [p.stem for p, *_ in ran] == ["02_parity"]
    with pytest.raises(SystemExit, match="no notebook '02_party'"):
        quick.main("02_party")
