"""The time of our iterations, now and at an earlier commit: the seven rows of the table.

Each commit has a process of its own, in which its own `fit` trains, and today's has a second
one without pinned code paths. They take turns, lap by lap, on the same machine; all start from
the same weights. A ratio is that of the medians.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

BEFORE = "4878d42"  # the last commit with one step size for all members
HERE = Path(__file__).parent
ROWS = 7


@contextmanager
def checkout(commit):
    """A folder with the package as it was at a commit."""
    git = ["git", "-C", HERE.parent, "archive", "--format=tar", commit, "sonode_utils"]
    files = subprocess.run(git, check=True, stdout=subprocess.PIPE).stdout
    with TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(files)) as archive:
        archive.extractall(folder, filter="data")
        yield folder


def unpinned():
    """The variables that leave the libraries' code paths to the processor."""
    best = torch.backends.cpu.get_cpu_capability().lower()
    return {"MKL_CBWR": "AUTO", "ATEN_CPU_CAPABILITY": best, "ONEDNN_MAX_CPU_ISA": "ALL"}


@contextmanager
def worker(package, *work, **variables):
    """A process that does some work (`worker.py`) with the package in a folder.

    Nothing here may import the package before: it would pass its pins on.
    """
    given = {"PYTHONPATH": str(package), "TQDM_DISABLE": "1", **variables}
    process = subprocess.Popen(
        [sys.executable, HERE / "worker.py", *map(str, work)], env={**os.environ, **given},
        cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(process):
    """Let a worker do its next piece of work -> what it says."""
    process.stdin.write("\n")
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError("a worker broke off: its message stands above")
    return json.loads(answer)


def measure(commit, iterations, rounds):
    """Milliseconds per iteration of all members: now, now without pins, and at the commit."""
    rows = []
    with checkout(commit) as then, TemporaryDirectory() as starts:
        work = "laps", starts, iterations, rounds
        with (
            worker(HERE.parent, *work) as ours,
            worker(HERE.parent, *work, **unpinned()) as free,
            worker(then, *work) as theirs,
        ):
            for _ in range(ROWS):
                laps = [(ask(ours), ask(free), ask(theirs)) for _ in range(rounds)]
                now, unbound, before = map(median, zip(*laps))
                row = {"now": now, "unpinned": unbound, "before": before}
                rows.append({**row, "ratio": now / before})
                print(*(f"{name} {value:.3g} ms," for name, value in row.items()), end=" ")
                print(f"ratio {now / before:.2f}", flush=True)
    return {"commit": commit, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", default=BEFORE)
    parser.add_argument("--keep", action="store_true", help="store it in the bench table")
    parser.add_argument("--iterations", type=int, default=20, help="of a lap")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    print(__doc__)
    before = measure(given.commit, given.iterations, given.rounds)
    if given.keep:
        keep("bench", lambda record: {**record, "before": before})


def keep(name, change):
    """Write book/results/speed/<name>.json, changed."""
    from sonode_utils.evidence.records import records_folder, write_json

    path = records_folder() / f"speed/{name}.json"
    old = json.loads(path.read_text("utf8")) if path.exists() else {}
    write_json(path, change(old))


if __name__ == "__main__":
    main()
