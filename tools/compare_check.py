"""Does the comparison of a run with its record see faults, and is it quiet without one?

    python tools/compare_check.py [--keep] [--part teeth|quiet] [--only notebook] [-p name v]

Teeth: notebooks 02 and 07 run with a fault in the package; every fault must make a claim
differ. Chapter 7 runs at the settings of its stored record. Chapter 2, and both at ten times
the learning rate, run fewer iterations, with and without the fault: their fields grow stiff,
and the whole training would take hours. Quiet: a small training is run again with other
instruction sets, the pins off, and first weights moved by a unit in the last place; it must
never differ. With -p (to try it out) both run with these parameters instead. --keep stores
book/results/comparison.json.
"""

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path

import nbformat
import run_notebook
from nbclient import NotebookClient

from sonode_utils.evidence import share
from sonode_utils.evidence.compare import compare
from sonode_utils.evidence.parameters import LIMITS
from sonode_utils.evidence.records import write_json
from sonode_utils.evidence.report import Run

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ("02_parity", "07_oscillators_and_noise")
FEW = {"iterations": 100}
FEWER = {"iterations": 30, "noise_iterations": 30, "sweep_iterations": 10}  # chapter 7

# Each fault is a cell before all others: what the notebook imports is faulty already.
FAULTS = {
    "ten times the learning rate": """
import sonode_utils
right = sonode_utils.fit
def fit(model, loss, *, lr=0.01, **options):
    return right(model, loss, lr=10 * lr, **options)
sonode_utils.fit = fit
""",
    "the wrong sign in the trained field": """
import sonode_utils
right = sonode_utils.fit
def fit(model, loss, **options):
    history = right(model, loss, **options)
    for weight in list(model.f.parameters())[-2:]:  # of the last layer
        weight.data.neg_()
    return history
sonode_utils.fit = fit
""",
    "NODE and ANODE swapped": """
import sonode_utils
right = sonode_utils.paper_model
def paper_model(name, *arguments, **options):
    swapped = {"NODE": "ANODE", "ANODE": "NODE"}.get(name, name)
    return right(swapped, *arguments, **options)
sonode_utils.paper_model = paper_model
""",
    "a solver at rtol 0.1": """
import sys
import sonode_utils
right = sonode_utils.integrate
def integrate(*arguments, **options):
    return right(*arguments, **{**options, "rtol": 0.1, "atol": 0.1})
for module in [m for name, m in sys.modules.items() if name.startswith("sonode_utils")]:
    if getattr(module, "integrate", None) is right:
        module.integrate = integrate
""",
}

TRAINING = """
import json, sys
import numpy as np, torch
from sonode_utils import fit, mse, paper_model, score, streams
iterations, nudge = map(int, sys.argv[1:])
times = torch.linspace(0, 5, 30)
x0, data = torch.ones(10, 1, 1), torch.cos(2 * times).view(30, 1, 1, 1)
found = {}
for name in ("NODE", "ANODE", "SONODE"):
    model = paper_model(name, 1, streams("quiet check, weights", range(10), name))
    for p in model.parameters():
        for _ in range(abs(nudge)):
            p.data = torch.nextafter(p.data, torch.tensor(nudge * float("inf")))
    loss = lambda solve: mse(solve(x0, times).x, data)
    fit(model, loss, iterations=iterations)
    final = np.asarray(score(loss, model.solve_tight), float)
    found[name] = np.where(np.isfinite(final), final, None).tolist()
print(json.dumps(found))
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="store the tables for the book")
    parser.add_argument("--part", choices=["teeth", "quiet"], help="only one of the tables")
    parser.add_argument("--iterations", type=int, default=200, help="of the small training")
    parser.add_argument("-p", nargs=2, action="append", default=[], help="a parameter, a value")
    only = {"nargs": "+", "choices": NOTEBOOKS, "default": NOTEBOOKS}
    parser.add_argument("--only", **only, help="of the notebooks; rows of the others stay")
    options = parser.parse_args(arguments)
    given = {name: ast.literal_eval(value) for name, value in options.p}
    tables = {"date": time.strftime("%Y-%m-%d")}
    if options.part != "quiet":
        tables["teeth"] = [row for name in options.only for row in teeth(name, given)]
    if options.part != "teeth":
        tables["quiet"] = list(quiet(options.iterations))
    if options.keep:
        path = ROOT / "book/results/comparison.json"
        kept = json.loads(path.read_text("utf8")) if path.exists() else {}
        again = {(row["notebook"], row["fault"]) for row in tables.get("teeth", [])}
        rows = [r for r in kept.get("teeth", []) if (r["notebook"], r["fault"]) not in again]
        write_json(path, kept | tables | {"teeth": rows + tables.get("teeth", [])})
    blind = [row for row in tables.get("teeth", []) if not row["differ"]]
    loud = [row for row in tables.get("quiet", []) if "differs" in row["line"]]
    print(f"{len(blind)} faults were not seen, {len(loud)} re-runs differ")
    return 1 if blind or loud else 0


def teeth(name, given):
    """A row per fault: the claims of this notebook that differ from a run without it."""
    stored = json.loads((ROOT / f"book/results/{name}.json").read_text("utf8"))
    sound = {"{}": stored}  # by settings
    for fault, cell in FAULTS.items():
        few = FEW if name == "02_parity" else FEWER if "rate" in fault else {}
        settings = {key: v for key, v in (few | given).items() if key in LIMITS[name]}
        if str(settings) not in sound:
            sound[str(settings)] = execute(name, settings, "")
        old, new = sound[str(settings)], execute(name, settings, cell)
        lines = [compare(claim["id"], old, new) for claim in new["claims"]]
        compared = [line for line in lines if "not compared" not in line]
        differ = [line for line in compared if " differs: " in line]
        head = f"{name}, {fault}: {len(differ)} of {len(compared)} differ"
        print(head, *differ, sep="\n  ", flush=True)
        row = {"notebook": name, "settings": settings, "fault": fault}
        yield row | {"compared": len(compared), "differ": differ}


def execute(name, given, fault):
    """The record of a notebook run with these parameters after a cell that puts the fault in.

    A cell that fails, as a figure of swapped models may, is passed over.
    """
    notebook = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
    run_notebook.inject(notebook, given)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(fault))
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=None, kernel_name="python3", allow_errors=True,
            resources={"metadata": {"path": str(ROOT / "notebooks")}},
        )  # fmt: skip
        client.execute(env={**os.environ, "SONODE_RESULTS_DIR": folder})
        return json.loads(Path(folder, f"{name}.json").read_text("utf8"))


def quiet(iterations, runs=20):
    """A row per re-run of the small training: how many seeds changed, and what it says."""
    old = trained(iterations, {}, 0)
    for environment, nudge in variants()[:runs]:
        new = trained(iterations, environment, nudge)
        changed = {
            seed
            for name, values in old["values"].items()
            for seed, (a, b) in enumerate(zip(values, new["values"][name]))
            if a != b
        }
        words = [f"{name}={value}" for name, value in environment.items()]
        words += [f"first weights moved by {nudge} ulp"] if nudge else []
        row = {"run": ", ".join(words), "changed": len(changed), "seeds": old["seeds"]}
        row["line"] = compare("O2", old, new)
        print(*row.values(), sep=" | ", flush=True)
        yield row


def variants():
    """Settings in place of the pins, then the same with other first weights."""
    info = Path("/proc/cpuinfo")
    wide = info.exists() and "avx512f" in info.read_text("utf8")
    aten = ["default", "avx2", "avx512"] if wide else ["default", "avx2"]
    pinless = [
        {"ATEN_CPU_CAPABILITY": a, "MKL_CBWR": m, "ONEDNN_MAX_CPU_ISA": "ALL"}
        for a, m in product(aten, ("AUTO", "AVX2", "COMPATIBLE"))
    ]
    return [(one, nudge) for nudge in (0, 1, -1, 2) for one in pinless]


def trained(iterations, environment, nudge):
    """The record of one small training in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, str(iterations), str(nudge)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    losses = json.loads(done.stdout)
    run = Run("small training", "paper", range(10))
    for name, values in losses.items():
        run.record(name, values)
    parts = {name: share(values, "<", 1e-2) for name, values in losses.items()}
    with redirect_stdout(io.StringIO()):
        run.judge("O2", parts, ours="")
    return run.as_dict()


if __name__ == "__main__":
    sys.exit(main())
