"""Training on 1000 samples of a measured signal: step by step, all at once, by diffrax.

The reference loop trains one model at a time the way the authors' code does: torch's own
layers, the input interpolated at every evaluation, torchdiffeq's dopri5 at 1e-3, plain
backpropagation through it, Adam. Ours solves all samples and all members at once
(sonode_utils/parallel.py). All start from the same stable draws.
"""

import torch
from clock import iterate, race
from torch import nn
from torchdiffeq import odeint

from sonode_utils.chapters.driven import CUBE, DrivenModel, stable_start
from sonode_utils.data import measured
from sonode_utils.ensemble import streams
from sonode_utils.solvers.parallel import input_at_stages

SAMPLES = 1000


def signals():
    """Silverbox as chapter 8 has it: input and output, (1000,) each, single precision."""
    record = measured.silverbox()
    u, x = (torch.tensor(s[:SAMPLES]) for s in (record.u, record.y))
    return [(100 * (s - s.mean())).float() for s in (u, x)], record.data


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


def parallel(x, ensemble, stage):
    last = None

    def loss():
        nonlocal last
        done = ensemble(x[0], stage, last)
        last = done.z.detach()
        return (done.z[0] - x[:, None]).square().mean(0).sum()

    return ensemble, loss


def silverbox(members, third=None):
    """One row of the table."""
    (u, x), data = signals()
    stage = input_at_stages(u[None])
    ensemble = DrivenModel(
        "SONODE", streams("bench, driven weights", range(members)), cubic=True
    )
    stable_start(ensemble, x[0], stage)
    steps = {"reference": iterate(*reference(u, x, ensemble, 0))}
    if third:
        numbers = ensemble.weight[:, 0], ensemble.bias[:, 0], ensemble.start[:, 0]
        steps["diffrax"] = third.driven(u, x, *(n.detach() for n in numbers), CUBE)
    steps["ours"] = iterate(*parallel(x, ensemble, stage))
    times = {"reference": 1, "diffrax": 2, "ours": 10}
    timed = race(steps, times, rounds=3)
    name = f"Silverbox ({data}), {SAMPLES} samples"
    return {"experiment": name, "members": members, "iterations": 1000, **timed}
