"""Training an ensemble against the reference-style loop, in one run, on one machine.

The reference loop trains one model at a time the way the authors' code does: torch's own
layers, torchdiffeq's dopri5 at 1e-3, plain backpropagation through it, Adam. Ours trains all
members in one solve. Both start from the same kind of draw, are warmed up, and take turns;
the figure is the median over rounds of milliseconds a member an iteration.
"""

import time
from statistics import median

import torch
from torch import nn
from torchdiffeq import odeint

from sonode_utils import systems
from sonode_utils.ensemble import EnsembleMLP, generators
from sonode_utils.models import SONODE
from sonode_utils.train import mse

TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def mlp(n_in, n_out, activation):
    return nn.Sequential(
        nn.Linear(n_in, 20), activation(), nn.Linear(20, 20), activation(), nn.Linear(20, n_out)
    )


class ReferenceSONODE(nn.Module):
    """One second order model, as one would write it for one model."""

    def __init__(self, d):
        super().__init__()
        self.f, self.g = mlp(2 * d, d, nn.ELU), mlp(d, d, nn.Tanh)

    def field(self, t, z):
        return torch.cat([z[..., z.shape[-1] // 2 :], self.f(z)], -1)

    def forward(self, x0, times):
        z0 = torch.cat([x0, self.g(x0)], -1)
        z = odeint(self.field, z0, times, method="dopri5", **TOLERANCE)
        return z[..., : x0.shape[-1]]


def reference(x0, times, target):
    model = ReferenceSONODE(x0.shape[-1])
    return model, lambda: (model(x0[0], times)[-len(target) :] - target[:, 0]).square().mean()


def ensemble(x0, times, target):
    d, rng = x0.shape[-1], generators(range(len(x0)))
    model = SONODE(EnsembleMLP(2 * d, d, rng), EnsembleMLP(d, d, rng, activation="tanh"))
    return model, lambda: mse(model(x0, times).x[-len(target) :], target).sum()


def milliseconds(model, loss, iterations):
    """Mean time of one iteration of Adam on the given loss."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    start = time.perf_counter()
    for _ in range(iterations):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    return 1000 * (time.perf_counter() - start) / iterations


def compare(task, x0, times, target, rounds=5, iterations=20):
    """x0: (member, batch, d); target: (time, member, batch, d), the last times."""
    torch.manual_seed(0)
    runs = reference(x0, times, target), ensemble(x0, times, target)
    for run in runs:
        milliseconds(*run, iterations=5)
    pairs = [[milliseconds(*run, iterations) for run in runs] for _ in range(rounds)]
    theirs, ours = median(a for a, _ in pairs), median(b for _, b in pairs) / len(x0)
    print(
        f"{len(x0)} members: reference {theirs:.1f} ms, ours {ours:.2f} ms a member an "
        f"iteration; {task}: {theirs / ours:.0f}x"
    )


def noise_experiment(levels=8, seeds=20, iterations=500):
    """SONODE's half of chapter 7's noise experiment, all levels and seeds.

    Extrapolated on both sides from the first iterations, the reference's from one member
    at every other level: the whole of its loop would take an hour.
    """
    members, times = levels * seeds, torch.linspace(0, 10, 50)
    sigmas = [j / 10 for j in range(levels) for _ in range(seeds)]
    x0, target = torch.zeros(members, 1, 1), systems.noisy_sine(sigmas, range(members), times)
    picked = range(0, members, 2 * seeds)
    torch.manual_seed(0)
    alone = [reference(x0[k : k + 1], times, target[:, k : k + 1]) for k in picked]
    theirs = median(milliseconds(*run, iterations=20) for run in alone) * members
    ours = median(milliseconds(*ensemble(x0, times, target), iterations=20) for _ in picked)
    minutes = [cost * iterations / 60_000 for cost in (theirs, ours)]
    print(
        f"{members} SONODEs x {iterations} iterations, extrapolated from "
        f"{len(alone)} reference runs of 20: reference {minutes[0]:.0f} minutes, ours "
        f"{minutes[1]:.1f}; noise experiment: {theirs / ours:.0f}x"
    )


def main():
    print(__doc__)
    ends = torch.tensor([0.0, 1.0])
    for members in (10, 100):
        x0 = systems.parity([5] * members, range(members), points=50)
        compare(f"parity D = 5, {members} members", x0, ends, -x0[None])
    times = torch.linspace(0, 10, 50)
    for members in (24, 100):
        x0 = torch.zeros(members, 1, 1)
        target = torch.sin(times).view(-1, 1, 1, 1).expand(-1, members, 1, 1)
        compare(f"50-point trajectory, {members} members", x0, times, target)
    noise_experiment()


if __name__ == "__main__":
    main()
