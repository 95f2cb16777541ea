"""What `against.py` and `regroup.py` run in a process of its own, with the package of a commit.

A worker waits for a line before every piece of work, and says one line of JSON after it.
"""

import json
import sys
from pathlib import Path

import tasks
import torch
from clock import train_in_laps

from sonode_utils.data import systems
from sonode_utils.models import paper_model
from sonode_utils.train import fit, mse

NODE, ANODE = "NODE, parity, D = 8", "ANODE, noisy sine"
SIGMAS = 0.1, 0.7


def wait():
    if not sys.stdin.readline():
        sys.exit()


def say(something):
    print(json.dumps(something), flush=True)


def laps(starts, iterations, rounds):
    """Train the seven rows by `fit`, lap by lap: milliseconds per iteration of all members."""

    def between(milliseconds):
        say(milliseconds)
        wait()

    wait()
    for k, (experiment, members) in enumerate(tasks.ROWS):
        model, loss = tasks.ours(experiment, members)
        start_alike(model, Path(starts) / f"{k}.pt")
        train_in_laps(model, loss, int(iterations), int(rounds), between)


@torch.no_grad()
def start_alike(model, path):
    """Whoever comes first leaves its weights for the other."""
    if path.exists():
        for p, other in zip(model.parameters(), torch.load(path)):
            p.copy_(other)
    else:
        torch.save([p.detach().clone() for p in model.parameters()], path)


def groups(seeds, lone, iterations):
    """Train the same members in groups -> [experiment, level of noise of each member], then
    [grouping, final losses], None for members that were not trained; lone: so many alone.
    """
    seeds, lone = range(int(seeds)), int(lone)
    everyone = {
        NODE: [(seed, 0) for seed in seeds],
        ANODE: [(seed, level) for level in (0, 1) for seed in seeds[: len(seeds) // 2]],
    }
    for experiment, members in everyone.items():
        wait()
        say([experiment, [level for _, level in members]])
        groupings = {
            "all": [members],
            "reversed": [members[::-1]],
            "tens": [members[k : k + 10] for k in range(0, len(members), 10)],
        }
        if lone:
            groupings["alone"] = [[member] for member in members[:: len(members) // lone]]
        for name, them in groupings.items():
            wait()
            losses = [train(experiment, group, int(iterations)) for group in them]
            found = {m: x for group, some in zip(them, losses) for m, x in zip(group, some)}
            say([name, [found.get(member) for member in members]])


def train(experiment, members, iterations):
    """The loss of every member after so many iterations; members: [(seed, level of noise)]"""
    seeds = [seed for seed, _ in members]
    if experiment == NODE:
        points = tasks.streams("bench, regrouped points", seeds)
        x0, times = systems.parity([8] * len(seeds), points, 25), torch.tensor([0.0, 1.0])
        target = -x0[None]
        model = paper_model("NODE", 8, tasks.streams("bench, regrouped NODEs", seeds))
    else:
        noise = [tasks.streams("bench, regrouped noise", [seed], j)[0] for seed, j in members]
        x0, times = torch.zeros(len(seeds), 1, 1), torch.linspace(0, 10, 50)
        target = systems.noisy_sine([SIGMAS[j] for _, j in members], noise, times)
        model = paper_model("ANODE", 1, tasks.streams("bench, regrouped ANODEs", seeds))
    run = fit(
        model,
        lambda model: mse(model(x0, times).x[-len(target) :], target),
        iterations=iterations,
    )
    return run.loss[-1].tolist()


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"laps": laps, "groups": groups}[sys.argv[1]](*sys.argv[2:])
