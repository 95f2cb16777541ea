"""The same trainings by torchode: own steps for every member, as here, but in plain torch.

A row of torchode's batch is a member with all its points, so that its steps are ours. The
gradient is that of backpropagation through the accepted steps, whose lengths count as given,
as they do here (with torchode's default it also goes through the choice of the lengths, which
takes longer). The networks are torch's batched products. Nothing is compiled: torch.jit.script
fails on torchode's solver with the torch pinned here. pip install -e .[bench]
"""

import torch
import torchode
from clock import iterate
from torch import Tensor, nn
from torch.nn import functional

TOLERANCE = 1e-3


class Field(nn.Module):
    """x'' = f(x, v) of every member, for torchode: y: (member, points * 2 d)."""

    def __init__(self, weights, d: int):
        super().__init__()
        self.d = d
        self.w1, self.b1, self.w2, self.b2, self.w3, self.b3 = weights

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        z = y.view(y.shape[0], -1, 2 * self.d)
        hidden = functional.elu(torch.baddbmm(self.b1, z, self.w1))
        hidden = functional.elu(torch.baddbmm(self.b2, hidden, self.w2))
        force = torch.baddbmm(self.b3, hidden, self.w3)
        return torch.cat([z[:, :, self.d :], force], -1).flatten(1)


def copies(net):
    """Weight, bias, weight, ... of an EnsembleMLP, as parameters of their own."""
    return nn.ParameterList(p.detach().clone() for p in net.parameters())


class Network(nn.Module):
    """The second order networks of `ours`, with an initial velocity g(x0)."""

    def __init__(self, ours, x0, times):
        super().__init__()
        self.x0, self.times = x0, times.expand(len(x0), -1)
        self.g, self.field = copies(ours.g), Field(copies(ours.f), x0.shape[-1])
        term = torchode.ODETerm(self.field, with_stats=False)
        self.solver = torchode.AutoDiffAdjoint(
            torchode.Dopri5(term),
            torchode.IntegralController(TOLERANCE, TOLERANCE, term=term),
            backprop_through_step_size_control=False,
        )

    def forward(self):
        """-> x: (time, member, batch, d)"""
        w1, b1, w2, b2, w3, b3 = self.g
        hidden = torch.baddbmm(b1, self.x0, w1).tanh()
        v0 = torch.baddbmm(b3, torch.baddbmm(b2, hidden, w2).tanh(), w3)
        z0 = torch.cat([self.x0, v0], -1)
        problem = torchode.InitialValueProblem(z0.flatten(1), t_eval=self.times)
        y = self.solver.solve(problem).ys.movedim(1, 0)
        return y.unflatten(-1, z0.shape[1:])[..., : self.x0.shape[-1]]


def network(x0, times, target, ours):
    """One iteration of Adam, as a function of nothing; shapes as in `ensemble.contest`."""
    model = Network(ours, x0, times)
    scale = target[0, 0].numel() * len(target)
    return iterate(model, lambda: (model()[-len(target) :] - target).square().sum() / scale)
