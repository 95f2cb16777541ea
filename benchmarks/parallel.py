"""Training on 1000 samples of a measured signal: step by step, all at once, by diffrax.

The reference loop trains one model at a time the way the authors' code does: torch's own
layers, the input interpolated at every evaluation, torchdiffeq's dopri5 at 1e-3, plain
backpropagation through it, Adam. Ours solves all samples and all members at once
(sonode_utils/solvers/parallel.py). All start from the same stable draws.
"""

import tasks
import torch
from clock import iterate, race
from torch import nn
from torchdiffeq import odeint

from sonode_utils.chapters.driven import CUBE


class ReferenceSONODE(nn.Module):
    """One second order model with a cubic term, as one would write it for one model."""

    def __init__(self, u, ensemble, member):
        super().__init__()
        self.u, self.f, self.g = u, nn.Linear(4, 1), nn.Linear(1, 1)
        with torch.no_grad():  # the ensemble's member: features x, v, x^3, u
            self.f.weight.copy_(ensemble.weight[member])
            self.f.bias.copy_(ensemble.bias[member])
            self.g.weight.copy_(ensemble.start[member, :, :1])
            self.g.bias.copy_(ensemble.start[member, :, 1])

    def field(self, t, z):
        n = min(max(int(t), 0), len(self.u) - 2)
        u = self.u[n] + (t - n) * (self.u[n + 1] - self.u[n])
        x, v = z
        return torch.cat([v[None], self.f(torch.stack([x, v, CUBE * x**3, u]))])

    def forward(self, x0, times):
        z0 = torch.cat([x0, self.g(x0)])
        return odeint(self.field, z0, times, method="dopri5", rtol=1e-3, atol=1e-3)[:, 0]


def reference(u, x, ensemble, member):
    model, times = ReferenceSONODE(u, ensemble, member), torch.arange(float(len(x)))
    return model, lambda: (model(x[:1], times) - x).square().mean()


def contest(members, diffrax=None, laps=10, rounds=3):
    """One row of the table; diffrax: the module that trains with it."""
    (u, x), data = tasks.signals()
    model, loss = tasks.driven(members)
    others = {"reference": iterate(*reference(u, x, model, 0))}
    if diffrax:
        numbers = model.weight[:, 0], model.bias[:, 0], model.start[:, 0]
        others["diffrax"] = diffrax.driven(u, x, *(n.detach() for n in numbers), CUBE)
    each = {"reference": 1, "diffrax": min(2, laps), "ours": laps}
    timed = race((model, loss), others, each, rounds, f"Silverbox, {members}")
    name = f"Silverbox ({data}), {tasks.SAMPLES} samples"
    return {"experiment": name, "members": members, **timed}
