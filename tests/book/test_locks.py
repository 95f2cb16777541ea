"""Work that only one process may do at a time, and files that appear whole."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = str(Path(__file__).parents[2] / "tools")
sys.path.insert(0, TOOLS)
from locks import Busy, locked  # noqa: E402

from sonode_utils.evidence.records import write_whole  # noqa: E402

HOLD = """
import sys, time
sys.path.insert(0, {tools!r})
from locks import locked
with locked({path!r}, ""):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_one_at_the_same_work_is_refused_until_the_first_has_ended(tmp_path):
    lock = tmp_path / "new/lock"
    first = locked(lock, "busy here")
    with first, pytest.raises(Busy, match="busy here"), locked(lock, "busy here"):
        pass
    with locked(lock, "busy here"):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    lock = tmp_path / "lock"
    script = HOLD.format(tools=TOOLS, path=str(lock))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Busy, match="taken"), locked(lock, "taken"):
            pass
        other.kill()
    with locked(lock, "taken"):
        pass


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new/file.txt"
    with write_whole(path) as draft:
        draft.write_text("all of it")
    with pytest.raises(OSError, match="full"), write_whole(path) as draft:
        draft.write_text("ha")
        raise OSError("full")
    assert path.read_text() == "all of it"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    words = r"file/x\.lock cannot be written .*make its folder writable"
    with pytest.raises(Busy, match=words), locked(tmp_path / "file/x.lock", "busy"):
        pass
