"""The check of the comparison keeps what it does not measure again."""

import json

import compare_check
import pytest


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A checkout whose check has run once, and which finds something else now."""
    rows = [{"notebook": name, "fault": "x", "differ": ["old"]} for name in ("02_parity", "07")]
    path = tmp_path / "book/results/comparison.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"teeth": rows, "quiet": [{"line": "old"}]}))
    new = {"notebook": "02_parity", "fault": "x", "differ": ["new"]}
    monkeypatch.setattr(compare_check, "ROOT", tmp_path)
    monkeypatch.setattr(compare_check, "teeth", lambda *_: [new])
    monkeypatch.setattr(compare_check, "quiet", lambda *_: [{"line": "new"}])
    return lambda: json.loads(path.read_text())


def test_a_new_quiet_table_leaves_the_faults_as_they_are(stored):
    before = stored()["teeth"]
    assert compare_check.main(["--keep", "--part", "quiet"]) == 0
    assert stored()["teeth"] == before and stored()["quiet"] == [{"line": "new"}]


def test_one_notebook_again_leaves_the_rows_of_the_others(stored):
    arguments = ["--keep", "--part", "teeth", "--only", "02_parity"]
    assert compare_check.main(arguments) == 0
    found = {row["notebook"]: row["differ"] for row in stored()["teeth"]}
    assert found == {"02_parity": ["new"], "07": ["old"]}
    assert stored()["quiet"] == [{"line": "old"}]
