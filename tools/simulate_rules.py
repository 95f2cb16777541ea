"""Do the intervals cover, and does the comparison of re-runs keep quiet and see shifts?

    python tools/simulate_rules.py [--keep]

Made-up data whose truth is known. Coverage: how often a 95 % interval contains the true value,
at 10, 20 and 50 seeds and for three shapes of data. Comparison: how often a re-run of the same
distribution differs (false alarms), and how often one that moved by some standard deviations
does (detection). --keep stores book/results/simulated.json, which the book shows.
"""

import sys
from pathlib import Path

import numpy as np

from sonode_utils.evidence.compare import exchange_test
from sonode_utils.evidence.intervals import median_interval, shift_interval
from sonode_utils.evidence.records import write_json
from sonode_utils.evidence.rules import share

ROOT = Path(__file__).parents[1]
SEEDS = (10, 20, 50)
SHAPES = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skewed": lambda rng, size: rng.exponential(size=size),
    "two kinds": lambda rng, size: rng.normal(size=size) + 6 * (rng.random(size) < 0.3),
}
RUNS, COMPARED = 20_000, 200
SHIFT, SHARES = 0.5, (0.5, 0.8, 0.95)


def main(arguments):
    found = {"coverage": coverage(), "comparison": comparison(), "runs": RUNS}
    found["compared"] = COMPARED
    for rows in (found["coverage"], found["comparison"]):
        print(*rows, sep="\n")
    if "--keep" in arguments:
        write_json(ROOT / "book/results/simulated.json", found)


def coverage():
    """A row per interval, number of seeds and shape: how often it contains the truth."""
    rng, rows = np.random.default_rng(0), []

    def row(kind, n, shape, low, high, truth):
        covered = float(((low <= truth) & (truth <= high)).mean())
        rows.append({"interval": kind, "seeds": n, "shape": shape, "covered": covered})

    for n in SEEDS:
        for shape, draw in SHAPES.items():
            _, low, high, _ = median_interval(draw(rng, (RUNS, n)))
            row("median", n, shape, low, high, np.median(draw(rng, 10_000_001)))
            parts = [
                (draw(rng, (500, n)) - SHIFT, draw(rng, (500, n))) for _ in range(RUNS // 500)
            ]
            ends = [shift_interval(a, b)[1:] for a, b in parts]
            row("shift", n, shape, *np.concatenate(ends, 1), -SHIFT)
        for p in SHARES:
            _, _, low, high, _ = share(rng.random((RUNS, n)), "<", p).outcome()
            row("share", n, f"{p:.0%} of seeds", low, high, p)
    return rows


def comparison():
    """A row per number of seeds and quantities: how often p < 1e-4, by shift."""
    rng, rows = np.random.default_rng(1), []
    for n, quantities in ((10, 1), (10, 9), (20, 1), (20, 9)):
        for shift in (0, 1, 2, 3):
            seen = 0
            for _ in range(COMPARED):
                old, new = rng.normal(size=(2, quantities, n))
                sets = ({k: tuple(r) for k, r in enumerate(s)} for s in (old, new + shift))
                seen += int(exchange_test(*sets)[1] < 1e-4)
            row = {"seeds": n, "quantities": quantities, "shift": shift}
            rows.append(row | {"differs": seen / COMPARED})
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
