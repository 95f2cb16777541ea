"""Execute notebooks in place, two at a time, one progress line each.

    python tools/execute.py [--seeds N] [notebook ...]

A notebook is replaced only when all of it has run: an interrupted or failing run leaves
the old file, and the next run starts clean.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
RESULTS = ROOT / "book" / "results"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="names such as 02_parity; all if none")
    parser.add_argument("--seeds", type=int, help="other number of seeds")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return execute(arguments.one, arguments.seeds)
    waiting = [find(name) for name in arguments.notebooks] or sorted(
        path.stem for path in NOTEBOOKS.glob("*.ipynb")
    )
    return run_all(waiting, arguments.seeds)


def find(name):
    known = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    name = Path(name).stem
    if name not in known:
        sys.exit(f"no notebook {name!r}; there are {', '.join(known)}")
    return name


def run_all(waiting, seeds, at_once=2):
    """Keep two processes busy, longest first; report each; 1 if any failed."""
    waiting = sorted(waiting, key=last_seconds, reverse=True)
    running, failed = {}, []
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop(0)
            running[name] = start(name, seeds), time.time()
        for name, (process, since) in list(running.items()):
            if process.poll() is not None:
                del running[name]
                failed += [name] if process.returncode else []
                word = "FAILED" if process.returncode else "done"
                print(f"\r{name:28} {word} in {time.time() - since:.0f} s" + " " * 20)
        report(running)
        time.sleep(1)
    if failed:
        print(f"\nfailed, and left as they were: {', '.join(failed)}")
    return 1 if failed else 0


def start(name, seeds):
    command = [sys.executable, __file__, "--one", name]
    command += ["--seeds", str(seeds)] if seeds else []
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})


def last_seconds(name):
    """How long it took last time, as its record says; 0 where there is none."""
    record = RESULTS / f"{name}.json"
    return json.loads(record.read_text("utf8"))["seconds"] if record.exists() else 0


def report(running):
    parts = []
    for name, (_, since) in running.items():
        elapsed, whole = time.time() - since, last_seconds(name)
        rest = f", about {max(0, whole - elapsed):.0f} s left" if whole else ""
        parts.append(f"{name} {elapsed:.0f} s{rest}")
    if sys.stdout.isatty():
        print("\r" + " | ".join(parts) + "   ", end="", flush=True)
    elif int(time.time()) % 30 == 0:
        print(" | ".join(parts), flush=True)


def execute(name, seeds):
    """Run one notebook in a fresh kernel, then put it in place of the old one."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    path = NOTEBOOKS / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    source = [dict(cell) for cell in notebook.cells]
    if seeds:
        inject(notebook, seeds)
    client = NotebookClient(
        notebook, timeout=None, kernel_name="python3", record_timing=False,
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )  # fmt: skip
    try:
        client.execute()
    except CellExecutionError as error:
        print(f"\n{name}: {error}", file=sys.stderr)
        return 1
    for cell, before in zip(notebook.cells, source):
        cell["source"] = before["source"]
        tidy(cell)
    handle, draft = tempfile.mkstemp(dir=NOTEBOOKS, prefix=f".{name}.", suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf8") as file:
        nbformat.write(notebook, file)
    os.chmod(draft, 0o644)
    os.replace(draft, path)
    return 0


def inject(notebook, seeds):
    """Run with other seeds; the stored source keeps its own."""
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell["source"] += f"\nseeds = {seeds}"


def tidy(cell):
    """Drop progress bars from what is stored (they say how fast a machine was).

    Anything else on the error stream, a warning above all, stays for us to see.
    """
    if cell["cell_type"] != "code":
        return
    for output in cell["outputs"]:
        if output.get("name") == "stderr":
            pieces = re.split(r"[\r\n]", output["text"])
            kept = [p for p in pieces if p.strip() and not re.search(r"\d+%\|", p)]
            output["text"] = "\n".join(kept)
    cell["outputs"] = [o for o in cell["outputs"] if o.get("text") != ""]


if __name__ == "__main__":
    sys.exit(main())
