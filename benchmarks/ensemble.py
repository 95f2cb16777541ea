"""Training an ensemble of second order networks: one at a time, together, by other libraries.

The reference loop trains one model at a time the way the authors' code does: torch's own
layers, torchdiffeq's dopri5 at 1e-3, plain backpropagation through it, Adam. Ours trains all
members in one solve. The loop starts from the draw of our first member, torchode from the
draws of all.
"""

import tasks
import torch
from clock import iterate, race
from torch import nn
from torchdiffeq import odeint

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


def contest(experiment, members, diffrax=None, torchode=None, laps=20, rounds=5):
    """One row of the table; diffrax, torchode: the modules that train with them."""
    task = tasks.task(experiment, members)
    model, loss = tasks.second_order(*task)
    others = {"reference": iterate(*reference(*task, model))}
    if diffrax:
        others["diffrax"] = diffrax.network(*task)
    if torchode:
        others["torchode"] = torchode.network(*task, model)
    each = dict.fromkeys(("ours", *others), laps)
    timed = race((model, loss), others, each, rounds, f"{experiment}, {members}")
    return {"experiment": experiment, "members": members, **timed}
