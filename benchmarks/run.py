"""make bench: every experiment in one table, ours against the reference-style loop.

All contenders of a row run on the same machine, in the same process, one thread, taking
turns when warm; a figure is the median over rounds of milliseconds per member and iteration.
Ours is trained by `fit`, as in the notebooks, with its plan of steps. *To result* is the whole
training of all members from a cold start, compiling included: the first iteration as measured,
the others by the median, and for the reference loop the members one after the other.
diffrax and torchode are raced where they are installed: pip install -e .[bench]
"""

import argparse
import os
import platform
import time
from importlib.metadata import version

import ensemble
import growth
import parallel
import tasks
import torch
from against import keep

try:
    import with_diffrax
except ImportError:
    with_diffrax = None
try:
    import with_torchode
except ImportError:
    with_torchode = None
CONTENDERS = ("reference", "ours", "diffrax", "torchode")


def rows(brief):
    """The table, printed row by row; brief: to see that it runs."""
    laps = {"laps": 1, "rounds": 1} if brief else {}
    table = []
    for experiment, members in tasks.ROWS:
        if experiment == tasks.SILVERBOX:
            row = parallel.contest(members, with_diffrax, **laps)
        else:
            row = ensemble.contest(experiment, members, with_diffrax, with_torchode, **laps)
        table.append(plain({**row, "iterations": tasks.ITERATIONS[experiment]}))
        print(line(table[-1]), flush=True)
    return table


def plain(row):
    """Numbers only: milliseconds per member and iteration, and seconds to the result."""
    members, out = row["members"], {k: row[k] for k in ("experiment", "members", "iterations")}
    for name in CONTENDERS:
        if name in row:
            alone = name == "reference"
            cost = row[name].warm if alone else row[name].per_member(members)
            whole = row[name].to_result(row["iterations"]) * (members if alone else 1)
            out[name] = {"ms": cost, "cold": row[name].cold, "seconds": whole}
    return out


def line(row):
    """A row as text: costs, ratios to the reference, and seconds to the result."""
    base = row["reference"]
    cells = [f"{row['experiment']:32} {row['members']:4}"]
    for name in CONTENDERS:
        if name not in row:
            cells.append(f"{'-':>27}")
            continue
        ratio = "" if name == "reference" else f" ({base['ms'] / row[name]['ms']:.0f}x)"
        cells.append(f"{row[name]['ms']:8.3g} ms{ratio:>8} {row[name]['seconds']:6.0f} s")
    return " ".join(cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="store for the book's speed page")
    parser.add_argument("--brief", action="store_true", help="one iteration, to see it run")
    given = parser.parse_args()
    if given.keep and not (with_diffrax and with_torchode):
        parser.error("the speed page shows diffrax and torchode too: pip install -e .[bench]")
    torch.set_num_threads(1)
    print(__doc__)
    head = [f"{name}, to result" for name in CONTENDERS]
    print(f"{'experiment':32} {'n':>4} " + " ".join(f"{h:>27}" for h in head))
    table = rows(given.brief)
    if not given.keep:
        return
    names = ["torch", "torchdiffeq"]
    names += (["diffrax", "jax"] if with_diffrax else []) + ["torchode"] * bool(with_torchode)
    record = {
        "date": time.strftime("%Y-%m-%d"), "versions": {n: version(n) for n in names},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores", "rows": table,
    }  # fmt: skip
    grown = growth.measure(*(1, 1) if given.brief else ())
    keep("bench", lambda old: {**old, **record, **grown})


if __name__ == "__main__":
    main()
