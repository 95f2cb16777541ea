"""What several test files share: the built book."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def pages(tmp_path_factory, worker_id):
    """The whole book, built once a test run into a folder of its own."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent
    target = shared / "built-book"
    with open(shared / "built-book.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other worker waits, then finds it done
        if not (target / "done").exists():
            command = [sys.executable, str(ROOT / "tools/build_book.py"), str(target)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            (target / "done").touch()
    return target / "_build/html"
