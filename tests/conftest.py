"""What several test files share: the built book, and JavaScript of the figures run by node."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from sonode_utils import figures

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import kernel_ports  # noqa: E402

kernel_ports.keep_apart()


@pytest.fixture(scope="session")
def pages(tmp_path_factory, worker_id):
    """The whole book, built once per test run into a folder of its own."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent
    target = shared / "built-book"
    with FileLock(shared / "built-book.lock"):  # the other worker waits, then finds it done
        if not (target / "done").exists():
            command = [sys.executable, str(ROOT / "tools/build_book.py"), str(target)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            (target / "done").touch()
    return target / "_build/html"


@pytest.fixture(scope="session")
def javascript():
    """javascript(figure, expression): its value in the script of that figure, by node."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")

    def evaluate(figure, expression):
        code = figures.sources(figure)["_esm"].replace("export default", "const figure =")
        script = f"{code}\nconsole.log(JSON.stringify({expression}));"
        command = ["node", "-e", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return evaluate
