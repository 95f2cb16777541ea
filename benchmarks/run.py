"""make bench: every experiment in one table, ours against the reference-style loop.

All contenders of a row run on the same machine, in the same process, one thread, taking
turns when warm; a figure is the median over rounds of milliseconds a member an iteration.
*To result* is the whole training of all members from a cold start, compiling
included: the first iteration as measured, the others by the median, and for the
reference loop the members one after the other. diffrax is raced where it is
installed: pip install -e .[bench]
"""

import argparse
import os
import platform
import time
from importlib.metadata import version

import ensemble
import growth
import parallel
import torch
from tqdm import tqdm

from sonode_utils.evidence.report import records_folder, write_json
from sonode_utils.tables import duration

try:
    import with_diffrax
except ImportError:
    with_diffrax = None
CONTENDERS = ("reference", "ours", "diffrax")


def rows():
    contests = [
        lambda: ensemble.parity(10, with_diffrax),
        lambda: ensemble.parity(100, with_diffrax),
        lambda: ensemble.trajectory(24, with_diffrax),
        lambda: ensemble.trajectory(100, with_diffrax),
        lambda: ensemble.noise(with_diffrax),
        lambda: parallel.silverbox(20, with_diffrax),
        lambda: parallel.silverbox(100, with_diffrax),
    ]
    return [plain(contest()) for contest in tqdm(contests, desc="bench")]


def plain(row):
    """Numbers only: milliseconds a member an iteration, and seconds to the result."""
    members, out = row["members"], {k: row[k] for k in ("experiment", "members", "iterations")}
    for name in CONTENDERS:
        if name in row:
            alone = name == "reference"
            cost = row[name].warm if alone else row[name].per_member(members)
            whole = row[name].to_result(row["iterations"]) * (members if alone else 1)
            out[name] = {"ms": cost, "cold": row[name].cold, "seconds": whole}
    return out


def line(row):
    """A row as text: costs, ratios to the reference, and times to the result."""
    base = row["reference"]
    cells = [f"{row['experiment']:32} {row['members']:4}"]
    for name in CONTENDERS:
        if name not in row:
            cells.append(f"{'-':>24}")
            continue
        ratio = "" if name == "reference" else f" ({base['ms'] / row[name]['ms']:.0f}x)"
        cells.append(f"{row[name]['ms']:9.3g} ms{ratio:>8} {duration(row[name]['seconds']):>9}")
    return " ".join(cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="store for the book's speed page")
    keep = parser.parse_args().keep
    torch.set_num_threads(1)
    print(__doc__)
    table = rows()
    head = [f"{name}, to result" for name in CONTENDERS]
    print(f"{'experiment':32} {'n':>4} " + " ".join(f"{h:>24}" for h in head))
    print("\n".join(map(line, table)))
    if keep:
        names = ("torch", "torchdiffeq") + (("diffrax", "jax") if with_diffrax else ())
        about = {
            "date": time.strftime("%Y-%m-%d"), "versions": {n: version(n) for n in names},
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        }  # fmt: skip
        write_json(
            records_folder() / "speed/bench.json", {**about, "rows": table, **growth.measure()}
        )


if __name__ == "__main__":
    main()
