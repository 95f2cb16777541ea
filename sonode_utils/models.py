"""NODE, ANODE, SONODE and their higher order kin, in the paper's own letters.

A model is three things: the state z the data x0 start from, the field that moves z, and
the x read out of it. f (and g) are ensembles of networks, or any callable on
(member, batch, feature).
"""

import copy
from typing import NamedTuple

import torch
from torch import nn

from sonode_utils.ensemble import EnsembleMLP, Fused
from sonode_utils.solve import integrate


class Trajectory(NamedTuple):
    """x: (time, member, batch, d) and the full state z; nfe evaluations; failed: (member,)."""

    x: torch.Tensor
    z: torch.Tensor
    nfe: int
    failed: torch.Tensor


class NODE(nn.Module):
    """x' = f(x, t): a neural ODE. f: (member, batch, d) -> (member, batch, d)."""

    def __init__(self, f):
        super().__init__()
        self.f = f
        self.alive = None  # (member,); `fit` puts out the members that diverge
        self.nfe = 0
        self.plan = None  # a `solve.Plan` while `fit` trains

    def initial_state(self, x0):
        """x0: (member, batch, d) -> z(t0): (member, batch, feature)."""
        return x0

    def field(self, t, z):
        """z' = field(t, z), in torchdiffeq's order of arguments."""
        return self.f(z, t)

    def readout(self, z):
        """The real space x in the state z."""
        return z

    def fused(self):
        """The field with its derivative, where f is an EnsembleMLP and `field` is ours."""
        ours = type(self).field in (NODE.field, HigherOrderNODE.field)
        return Fused(self.f) if ours and type(self.f) is EnsembleMLP else None

    def forward(self, x0, times, **solver):
        """Solve from x0: (member, batch, d) at `times`; `solver` goes to `integrate`."""
        z0 = self.initial_state(x0)
        features = getattr(self.f, "in_features", None)
        known = {"features": features, "fused": self.fused, "alive": self.alive}
        done = integrate(self.field, z0, times, plan=self.plan, **{**known, **solver})
        self.nfe = done.nfe
        return Trajectory(self.readout(done.z), done.z, done.nfe, done.failed)

    @torch.no_grad()
    def tight(self, x0, times):
        """The same weights in double precision at rtol 1e-8: the model without its solver.

        A member that cannot be solved even so comes back as NaN.
        """
        twin = copy.deepcopy(self).double()
        twin.alive = None
        return twin(x0.double(), times.double(), rtol=1e-8, atol=1e-8)


class ANODE(NODE):
    """[x, a]' = f([x, a], t): `augment` extra dimensions a, starting at 0 or at g(x0)."""

    def __init__(self, f, augment, g=None):
        super().__init__(f)
        self.augment, self.g = augment, g

    def initial_state(self, x0):
        a0 = x0.new_zeros(*x0.shape[:-1], self.augment) if self.g is None else self.g(x0)
        return torch.cat([x0, a0], -1)

    def readout(self, z):
        return z[..., : z.shape[-1] - self.augment]


class HigherOrderNODE(NODE):
    """The k-th derivative of x is f([x, x', ...], t); g(x0) gives the k - 1 first ones.

    Without g the data must bring their own derivatives: x0 is then the full state.
    """

    def __init__(self, f, order, g=None):
        super().__init__(f)
        self.order, self.g = order, g

    def initial_state(self, x0):
        return x0 if self.g is None else torch.cat([x0, self.g(x0)], -1)

    def field(self, t, z):
        d = z.shape[-1] // self.order
        return torch.cat([z[..., d:], self.f(z, t)], -1)

    def readout(self, z):
        return z[..., : z.shape[-1] // self.order]


class SONODE(HigherOrderNODE):
    """x'' = f([x, v], t), x'(t0) = g(x0): a second order neural ODE."""

    def __init__(self, f, g=None):
        super().__init__(f, 2, g)


class Both(NODE):
    """ANODE(d) and SONODE members side by side: f gives [F, G] at z = [x, a].

    second: (member,), True where the member is a SONODE, with F = a and f = G.
    """

    def __init__(self, f, second):
        super().__init__(f)
        self.second = second[:, None, None]

    def field(self, t, z):
        dz, half = self.f(z, t), z.shape[-1] // 2
        second_order = torch.cat([z[..., half:], dz[..., half:]], -1)
        return torch.where(self.second, second_order, dz)

    def fused(self):
        ours = type(self).field is Both.field and type(self.f) is EnsembleMLP
        return Fused(self.f, self.second) if ours else None

    def readout(self, z):
        return z[..., : z.shape[-1] // 2]
