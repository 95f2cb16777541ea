"""What several test files share: the built book, and JavaScript of the figures run by node."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock
from nbclient import NotebookClient

from sonode_utils import figures
from sonode_utils.evidence.parameters import LIMITS

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]
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


# In a notebook's kernel: note the name of every stream, and the line that opens it.
NOTE_STREAMS = """
import json, linecache, sys
import sonode_utils
from sonode_utils import ensemble

opened_streams, open_stream = [], ensemble.stream


def noted_stream(purpose, seed, *indices):
    frame = sys._getframe(1)
    while frame.f_code.co_filename == ensemble.__file__:
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    place = f"{file}:{line}: {linecache.getline(file, line).strip()}"
    opened_streams.append([purpose, int(seed), list(indices), place])
    return open_stream(purpose, seed, *indices)


ensemble.stream = sonode_utils.stream = noted_stream
"""
TAKE_NOTES = """
print(json.dumps(opened_streams, default=int))
opened_streams.clear()
"""


@pytest.fixture(scope="session")
def smoke_runs(tmp_path_factory, worker_id):
    """smoke_runs(path): a notebook three times in one kernel, the last with one more seed.

    Once per test run, on the smoke profile. For each time: seeds asked for, the record, and the
    streams that were opened, [purpose, seed, indices, place in the code].
    """
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent

    def runs(path):
        folder = shared / f"smoke-{path.stem}"
        with FileLock(f"{folder}.lock"):  # the other worker waits, then finds it done
            if not (folder / "runs.json").exists():
                folder.mkdir(exist_ok=True)
                (folder / "runs.json").write_text(json.dumps(list(_smoke(path, folder))))
        return json.loads((folder / "runs.json").read_text())

    return runs


def _smoke(path, folder):
    notebook, seeds = nbformat.read(path, as_version=4), LIMITS[path.stem]["seeds"]["smoke"]
    where, cells = {"metadata": {"path": str(path.parent)}}, [*notebook.cells]
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where)
    settings = {"SONODE_PROFILE": "smoke", "SONODE_RESULTS_DIR": str(folder)}
    with client.setup_kernel(env={**os.environ, **settings}):
        client.execute_cell(nbformat.v4.new_code_cell(NOTE_STREAMS), 0)
        for used in (seeds, seeds, seeds + 1):
            for k, cell in enumerate(cells):
                if cell.cell_type == "code":
                    if "parameters" in cell.metadata.get("tags", []) and used != seeds:
                        cell = nbformat.from_dict(
                            {**cell, "source": f"{cell.source}\nseeds = {used}"}
                        )
                    client.execute_cell(cell, k)
            taken = client.execute_cell(nbformat.v4.new_code_cell(TAKE_NOTES), 0)
            record = json.loads((folder / f"{path.stem}.json").read_text())
            streams = json.loads("".join(output.text for output in taken.outputs))
            yield {"seeds": used, "record": record, "streams": streams}


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
