"""Run one notebook away from its place: text in, files out.

The processes of this machine and the workers of a cluster call the same function. It needs
the installed package and nothing of the checkout around it.
"""

import base64
import hashlib
import io
import os
import re
import tempfile
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from PIL import Image

# A kernel of this machine, spoken to over its own loopback, need not warn of eavesdroppers.
QUIET = ["--IPKernelApp.log_level=40"]
STARTS = 3  # two kernels that start at once may choose one port, and one of them dies of it
VIEW = "application/vnd.jupyter.widget-view+json"


def run(name, text, parameters, records, replaces=True):
    """Execute the notebook's text in a fresh kernel with some parameters replaced.

    records: {path in the checkout: content}, what the notebook may read of book/results.
    replaces: its record will take the place of the stored one, so its claims agree.
    Returns what it made, {path in the checkout: content}: the notebook with its outputs (and
    its own parameters in the source) and the records it saved. Raises RuntimeError with the
    traceback of the cell that failed.
    """
    notebook = nbformat.reads(text, as_version=4)
    source = [cell["source"] for cell in notebook.cells]
    inject(notebook, parameters)
    with tempfile.TemporaryDirectory(prefix="sonode-") as folder:
        checkout, saved = Path(folder, "checkout"), Path(folder, "saved")
        (checkout / "notebooks").mkdir(parents=True)
        (checkout / "book/results").mkdir(parents=True)
        saved.mkdir()
        for path, content in records.items():
            (checkout / path).parent.mkdir(parents=True, exist_ok=True)
            (checkout / path).write_text(content, "utf8")
        try:
            execute(notebook, checkout / "notebooks", saved, replaces)
        except (CellExecutionError, DeadKernelError) as error:
            raise RuntimeError(f"{name}: {error}") from None
        for cell, before in zip(notebook.cells, source):
            cell["source"] = before
            tidy(cell)
        made = {
            f"book/results/{path.relative_to(saved).as_posix()}": path.read_text("utf8")
            for path in sorted(saved.rglob("*.json"))
        }
    if record := made.get(f"book/results/{name}.json"):  # the two agree, and can show it
        notebook.metadata["record_sha256"] = hashlib.sha256(record.encode()).hexdigest()
    return {**made, f"notebooks/{name}.ipynb": nbformat.writes(notebook) + "\n"}


def signed(*job):
    """What `run` makes, and what it was made with, for those who sent the job elsewhere."""
    return run(*job), fingerprint()


def execute(notebook, here, saved, replaces=True):
    """Run all cells in a fresh kernel; one that dies before the first cell is started again."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SONODE_RESULTS_DIR": str(saved)}
    environment |= {"SONODE_REPLACES": "1"} if replaces else {}
    for start in range(1, STARTS + 1):
        client = NotebookClient(
            notebook, timeout=None, kernel_name="python3", record_timing=False,
            resources={"metadata": {"path": str(here)}},
            extra_arguments=QUIET, store_widget_state=False,
        )  # fmt: skip
        try:
            return client.execute(env=environment)
        except RuntimeError as error:
            if start == STARTS or "before replying to kernel_info" not in str(error):
                raise


def inject(notebook, parameters):
    """Replace parameters for this run, after those of the cell tagged so."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell["source"] += "".join(f"\n{name} = {v!r}" for name, v in parameters.items())


def tidy(cell):
    """Drop what is of this run's machine alone: progress bars, and views of live widgets.

    Anything else on the error stream, a warning above all, stays for us to see.
    """
    if cell["cell_type"] != "code":
        return
    for output in cell["outputs"]:
        if output.get("name") == "stderr":
            pieces = re.split(r"[\r\n]", output["text"])
            kept = [p for p in pieces if p.strip() and not re.search(r"\d+%\|", p)]
            output["text"] = "\n".join(kept)
        if output.get("data", {}).pop(VIEW, None) and "text/html" not in output["data"]:
            output["text"] = ""  # a live control, of no use without its kernel
        if "image/png" in output.get("data", {}):
            output["data"]["image/png"] = in_256_colours(output["data"]["image/png"])
    cell["outputs"] = [o for o in cell["outputs"] if o.get("text") != ""]


def in_256_colours(png):
    """The same picture in a third of the bytes; png: base64."""
    picture = Image.open(io.BytesIO(base64.b64decode(png)))
    small, made = picture.convert("RGBA").quantize(256), io.BytesIO()
    small.save(made, "png", optimize=True)
    return base64.b64encode(min(made.getvalue(), base64.b64decode(png), key=len)).decode()


def fingerprint():
    """What the numbers come from: versions, and a hash of the package's own source."""
    import sonode_utils

    package = Path(sonode_utils.__file__).parent
    code = hashlib.sha256()
    for path in sorted(p for p in package.rglob("*") if p.suffix in (".py", ".toml", ".js")):
        code.update(path.read_bytes())
    names = ("torch", "torchdiffeq", "numpy")
    return {"sonode_utils": code.hexdigest()[:12]} | {n: version(n) for n in names}
