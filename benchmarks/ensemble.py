"""Training an ensemble of second order networks: one at a time, together, by diffrax.

The reference loop trains one model at a time the way the authors' code does: torch's own
layers, torchdiffeq's dopri5 at 1e-3, plain backpropagation through it, Adam. Ours trains all
members in one solve. It starts from the draw of our first member.
"""

import torch
from clock import iterate, race
from torch import nn
from torchdiffeq import odeint

from sonode_utils.data import systems
from sonode_utils.ensemble import EnsembleMLP, stream, streams
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


@torch.no_grad()
def reference(x0, times, target, ours):
    model = ReferenceSONODE(x0.shape[-1])
    for net, its in ((ours.f, model.f), (ours.g, model.g)):
        for layer, linear in zip(net.layers[0::2], its[0::2]):
            linear.weight.copy_(layer.weight[0].T)
            linear.bias.copy_(layer.bias[0, 0])
    return model, lambda: (model(x0[0], times)[-len(target) :] - target[:, 0]).square().mean()


def ensemble(x0, times, target):
    d, rng = x0.shape[-1], streams("bench, weights", range(len(x0)))
    model = SONODE(EnsembleMLP(2 * d, d, rng), EnsembleMLP(d, d, rng, activation="tanh"))
    return model, lambda: mse(model(x0, times).x[-len(target) :], target).sum()


def contest(name, x0, times, target, iterations, third=None):
    """One row of the table. x0: (member, batch, d); target: (time, member, batch, d)."""
    model, loss = ensemble(x0, times, target)
    steps = {
        "reference": iterate(*reference(x0, times, target, model)),
        "ours": iterate(model, loss),
    }
    if third:
        steps["diffrax"] = third.network(x0, times, target)
    timed = race(steps, dict.fromkeys(steps, 20))
    return {"experiment": name, "members": len(x0), "iterations": iterations, **timed}


def parity_task(members, d):
    """What `contest` asks for: x0, times, target."""
    rng = streams("bench, parity points", range(members), d)
    x0 = systems.parity([d] * members, rng, points=50)
    return x0, torch.tensor([0.0, 1.0]), -x0[None]


def trajectory_task(members):
    times = torch.linspace(0, 10, 50)
    target = torch.sin(times).view(-1, 1, 1, 1).expand(-1, members, 1, 1)
    return torch.zeros(members, 1, 1), times, target


def parity(members, third=None, d=5):
    return contest(f"parity, D = {d}", *parity_task(members, d), 1000, third)


def trajectory(members, third=None):
    return contest("50-point trajectory", *trajectory_task(members), 500, third)


def noise(third=None, levels=8, seeds=20):
    """SONODE's half of chapter 7's noise experiment, all levels and seeds."""
    members, times = levels * seeds, torch.linspace(0, 10, 50)
    sigmas = [j / 10 for j in range(levels) for _ in range(seeds)]
    rng = [stream("bench, noise", seed, j) for j in range(levels) for seed in range(seeds)]
    target = systems.noisy_sine(sigmas, rng, times)
    x0 = torch.zeros(members, 1, 1)
    return contest("noise, 8 levels x 20 seeds", x0, times, target, 500, third)
