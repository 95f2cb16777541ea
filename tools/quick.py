"""Run notebooks on the quick profile by papermill, two at a time, into _build/quick.

    python tools/quick.py [notebook ...]

This is how a stranger's machine is asked whether every chapter runs there. Nothing is compared
and nothing of the checkout changes.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import papermill
from execute import ROOT, find, known
from papermill.exceptions import PapermillExecutionError

FOLDER = ROOT / "_build/quick"


def main(*names: str) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ |= {"SONODE_PROFILE": "quick", "SONODE_RESULTS_DIR": str(FOLDER)}
    os.chdir(ROOT / "notebooks")  # kernels start where their notebooks are
    with ThreadPoolExecutor(2) as pool:  # each thread waits for a kernel of its own
        ran = list(pool.map(run, [find(name) for name in names] or known()))
    return 0 if all(ran) else 1


def run(name: str) -> bool:
    """False if the notebook failed; what it showed until then is stored all the same."""
    source, target = Path(f"{name}.ipynb").resolve(), FOLDER / f"{name}.ipynb"
    started, error = time.time(), None
    try:
        papermill.execute_notebook(source, target, kernel_name="python3", progress_bar=False)
    except (PapermillExecutionError, RuntimeError) as failure:
        error = failure
    word = f"FAILED\n{error}" if error else "done"
    print(f"{name:28} {time.time() - started:4.0f} s  {word}", flush=True)
    return error is None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
