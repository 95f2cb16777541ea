"""Do neighbours matter? The same seeds trained alone, in tens, together and in reversed order.

Every member has its own steps: the final losses should be equal to the bit, whatever stands
beside it. At the commit before, all members of an ensemble shared one step size.
"""

import argparse

import numpy as np
from against import BEFORE, HERE, ask, checkout, keep, worker


def compare(package, seeds, lone, iterations):
    """{experiment: {spread, groupings: {name: {members, largest, correlation}}}}

    In log10 of the final losses, compared with all members together. spread: their standard
    deviation over members; it and the correlation are those within a level of noise.
    """
    table = {}
    with worker(package, "groups", seeds, lone, iterations) as process:
        for _ in range(2):
            experiment, levels = ask(process)
            _, losses = ask(process)
            together = np.log10(losses)
            rows = dict(ask(process) for _ in range(3 if lone else 2))
            table[experiment] = {
                "spread": float(within(together, levels).std()),
                "groupings": {
                    name: against(together, np.array(row, float), np.array(levels))
                    for name, row in rows.items()
                },
            }
            print(experiment, table[experiment], flush=True)
    return table


def against(together, losses, levels):
    """How far losses, NaN where a member was not trained, are from those of all together."""
    some = ~np.isnan(losses)
    here, there, levels = together[some], np.log10(losses[some]), levels[some]
    found = {"members": int(some.sum()), "largest": float(abs(there - here).max())}
    if len(here) > 5:
        pair = within(here, levels), within(there, levels)
        found["correlation"] = float(np.corrcoef(*pair)[0, 1])
    return found


def within(values, levels):
    """The values without the mean of their level."""
    levels = np.array(levels)
    return values - np.array([values[levels == level].mean() for level in levels])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", default=BEFORE)
    parser.add_argument("--keep", action="store_true", help="store it for the book")
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--lone", type=int, default=2, help="members also trained alone")
    given = parser.parse_args()
    print(__doc__)
    now = compare(HERE.parent, given.seeds, given.lone, given.iterations)
    with checkout(given.commit) as then:
        before = compare(then, given.seeds, 0, given.iterations)
    record = {
        "commit": given.commit, "iterations": given.iterations, "now": now, "before": before,
    }  # fmt: skip
    if given.keep:
        keep("regroup", lambda _: record)


if __name__ == "__main__":
    main()
