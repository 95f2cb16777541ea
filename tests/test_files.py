"""Files appear whole or not at all."""

import os
import subprocess
import sys

import pytest

from sonode_utils import files
from sonode_utils.files import Refused, alone, whole


def test_the_draft_takes_the_place_of_the_file(tmp_path):
    with whole(tmp_path / "new/file.txt") as draft:
        draft.write_text("all of it")
    assert (tmp_path / "new/file.txt").read_text() == "all of it"
    assert os.listdir(tmp_path / "new") == ["file.txt"]


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match="full"), whole(tmp_path / "file") as draft:
        draft.write_text("ha")
        raise OSError("full")
    assert (tmp_path / "file").read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_the_draft_of_a_dead_process_is_removed_and_that_of_a_living_one_is_not(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".file.{dead.pid}.draft").write_text("ha")
    (tmp_path / f".file.{os.getppid()}.draft").write_text("another is writing")
    with whole(tmp_path / "file") as draft:
        draft.write_text("all")
    assert sorted(os.listdir(tmp_path)) == [f".file.{os.getppid()}.draft", "file"]


def test_a_second_one_at_the_same_work_is_refused_until_the_first_has_ended(tmp_path):
    lock = tmp_path / "lock"
    first = alone(lock, "busy here")
    with first, pytest.raises(Refused, match="busy here"), alone(lock, "busy here"):
        pass
    with alone(lock, "busy here"):
        pass


def test_a_process_of_somebody_else_counts_as_alive(tmp_path, monkeypatch):
    """A draft that another user's process is writing is not ours to remove."""

    def not_ours(pid, signal):
        raise PermissionError

    draft = tmp_path / ".a.txt.4242.draft"
    draft.touch()
    monkeypatch.setattr(files.os, "kill", not_ours)
    assert files.leftovers(tmp_path / "a.txt") == []
