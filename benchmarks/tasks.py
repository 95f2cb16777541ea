"""What is trained in the seven rows of the table, and how this book trains it.

It runs at earlier commits too (`against.py`): there a seed stands where now a stream does.
"""

import torch

from sonode_utils.chapters.driven import DrivenModel, stable_start
from sonode_utils.data import measured, systems
from sonode_utils.models import paper_model
from sonode_utils.solvers.parallel import input_at_stages
from sonode_utils.train import mse

try:
    from sonode_utils.ensemble import streams
except ImportError:

    def streams(purpose, seeds, *indices):
        return list(seeds)


SAMPLES = 1000
PARITY, TRAJECTORY = "parity, D = 5", "50-point trajectory"
NOISE, SILVERBOX = "noise, 8 levels x 20 seeds", "Silverbox"
ROWS = (  # experiment, members
    (PARITY, 10), (PARITY, 100), (TRAJECTORY, 24), (TRAJECTORY, 100), (NOISE, 160),
    (SILVERBOX, 20), (SILVERBOX, 100),
)  # fmt: skip
ITERATIONS = {PARITY: 1000, TRAJECTORY: 500, NOISE: 500, SILVERBOX: 1000}


def task(experiment, members):
    """x0: (member, batch, d); times; target: (time, member, batch, d), the last times."""
    tasks = {PARITY: parity, TRAJECTORY: trajectory, NOISE: noise}
    return tasks[experiment](members)


def parity(members, d=5):
    rng = streams("bench, parity points", range(members), d)
    x0 = systems.parity([d] * members, rng, points=50)
    return x0, torch.tensor([0.0, 1.0]), -x0[None]


def trajectory(members):
    times = torch.linspace(0, 10, 50)
    target = torch.sin(times).view(-1, 1, 1, 1).expand(-1, members, 1, 1)
    return torch.zeros(members, 1, 1), times, target


def noise(members, levels=8):
    """The data of chapter 7's noise experiment, all levels and seeds."""
    seeds, times = range(members // levels), torch.linspace(0, 10, 50)
    sigmas = [j / 10 for j in range(levels) for _ in seeds]
    rng = [one for j in range(levels) for one in streams("bench, noise", seeds, j)]
    target = systems.noisy_sine(sigmas, rng, times)
    return torch.zeros(members, 1, 1), times, target


def second_order(x0, times, target, hidden=(20, 20), **solver):
    """A SONODE for each member, and the loss of each for `fit`."""
    rng = streams("bench, weights", range(len(x0)))
    model = paper_model("SONODE", x0.shape[-1], rng, hidden=hidden)
    return model, lambda model: mse(model(x0, times, **solver).x[-len(target) :], target)


def signals():
    """Silverbox as chapter 8 has it: input and output, (1000,) each, single precision."""
    record = measured.silverbox()
    u, x = (torch.tensor(s[:SAMPLES]) for s in (record.u, record.y))
    return [(100 * (s - s.mean())).float() for s in (u, x)], record.data


def driven(members):
    """Second order models with a cubic term, from stable draws, and the loss of each."""
    (u, x), _ = signals()
    stage, last = input_at_stages(u[None]), None
    rng = streams("bench, driven weights", range(members))
    model = DrivenModel("SONODE", rng, cubic=True)
    stable_start(model, x[0], stage)

    def loss(model):
        nonlocal last
        done = model(x[0], stage, last)
        last = done.z.detach()
        return (done.z[0] - x[:, None]).square().mean(0)

    return model, loss


def ours(experiment, members):
    """Model and loss of a row, for `fit`."""
    if experiment == SILVERBOX:
        return driven(members)
    return second_order(*task(experiment, members))
