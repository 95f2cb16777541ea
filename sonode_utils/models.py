"""NODE, ANODE, SONODE and their higher order kin, in the paper's own letters.

A model is three things: the state z the data x0 start from, the field that moves z, and
the x read out of it. f (and g) are ensembles of networks, or any callable on
(member, batch, feature).
"""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sonode_utils.ensemble import EnsembleMLP, Streams, pad_mask
from sonode_utils.solve import TIGHT, integrate


class Trajectory(NamedTuple):
    """x: (time, member, batch, d) and the full state z; nfe, failed: (member,)."""

    x: Tensor
    z: Tensor
    nfe: Tensor
    failed: Tensor


class NODE(nn.Module):
    """x' = f(x, t): a neural ODE. f: (member, batch, d) -> (member, batch, d)."""

    alive: Tensor | None  # (member,); `fit` puts out the members that diverge

    def __init__(self, f: Callable):
        super().__init__()
        self.f, self.nfe = f, torch.tensor(0)
        self.plan = None  # a `StepPlan` while `fit` trains
        weights = list(f.parameters()) if isinstance(f, nn.Module) else []
        everyone = torch.ones(len(weights[0]), dtype=torch.bool) if weights else None
        self.register_buffer("alive", everyone)

    def initial_state(self, x0: Tensor) -> Tensor:
        """x0: (member, batch, d) -> z(t0): (member, batch, feature)."""
        return x0

    def field(self, t, z: Tensor) -> Tensor:
        """z' = field(t, z), in torchdiffeq's order of arguments."""
        return self.f(z, t)

    def readout(self, z: Tensor) -> Tensor:
        """The real space x in the state z."""
        return z

    def network(self) -> EnsembleMLP | None:
        """f, where the field is just what its class makes of an EnsembleMLP."""
        if type(self.f) is not EnsembleMLP or "field" in vars(self):
            return None
        order = {NODE.field: 1, HigherOrderNODE.field: getattr(self, "order", 1)}
        return self.f if self.f.n_in == self.f.n_out * order.get(type(self).field, 0) else None

    def forward(self, x0: Tensor, times: Tensor, **solver) -> Trajectory:
        """Solve from x0: (member, batch, d) at `times`; `solver` goes to `integrate`."""
        z0 = self.initial_state(x0)
        features = getattr(self.f, "in_features", None)
        known = {"features": features, "network": self.network(), "alive": self.alive}
        done = integrate(self.field, z0, times, plan=self.plan, **{**known, **solver})
        self.nfe = done.nfe
        return Trajectory(self.readout(done.z), done.z, done.nfe, done.failed)

    def double_copy(self) -> "NODE":
        """The same weights in double precision, every member alive."""
        twin = copy.deepcopy(self).double()
        twin.alive = None
        return twin

    @torch.no_grad()
    def solve_tight(self, x0: Tensor, times: Tensor) -> Trajectory:
        """Solve in double precision at rtol 1e-8: without the solver's error, or NaN."""
        return self.double_copy()(x0.double(), times.double(), **TIGHT)


class ANODE(NODE):
    """[x, a]' = f([x, a], t): `augment` extra dimensions a, starting at 0 or at g(x0)."""

    def __init__(self, f: Callable, augment: int, g: Callable | None = None):
        super().__init__(f)
        self.augment, self.g = augment, g

    def initial_state(self, x0: Tensor) -> Tensor:
        a0 = x0.new_zeros(*x0.shape[:-1], self.augment) if self.g is None else self.g(x0)
        return torch.cat([x0, a0], -1)

    def readout(self, z: Tensor) -> Tensor:
        return z[..., : z.shape[-1] - self.augment]


class HigherOrderNODE(NODE):
    """The k-th derivative of x is f([x, x', ...], t); g(x0) gives the k - 1 first ones.

    Without g the data must bring their own derivatives: x0 is then the full state.
    """

    def __init__(self, f: Callable, order: int, g: Callable | None = None):
        super().__init__(f)
        self.order, self.g = order, g

    def initial_state(self, x0: Tensor) -> Tensor:
        return x0 if self.g is None else torch.cat([x0, self.g(x0)], -1)

    def field(self, t, z: Tensor) -> Tensor:
        d = z.shape[-1] // self.order
        return torch.cat([z[..., d:], self.f(z, t)], -1)

    def readout(self, z: Tensor) -> Tensor:
        return z[..., : z.shape[-1] // self.order]


class SONODE(HigherOrderNODE):
    """x'' = f([x, v], t), x'(t0) = g(x0): a second order neural ODE."""

    def __init__(self, f: Callable, g: Callable | None = None):
        super().__init__(f, 2, g)


def paper_model(
    name: str, d: int, rng: Streams, *, augment: int | None = None,
    hidden: Sequence[int] = (20, 20), dims: Tensor | None = None,
) -> NODE:  # fmt: skip
    """The paper's NODE, ANODE or SONODE on x of d features, one member per stream.

    f has two hidden layers of 20 and ELU, SONODE's g the same with tanh, and no layer stands
    before or after the flow. augment: ANODE's extra dimensions (d unless given).
    dims: (member,), the features that each member really has where members are padded to d.
    """
    n = d + (d if augment is None else augment)
    x = None if dims is None else pad_mask(dims, d)
    z = None if x is None else torch.cat([x, x], -1)
    if name == "NODE":
        return NODE(EnsembleMLP(d, d, rng, hidden, in_mask=x, out_mask=x))
    if z is not None and n != 2 * d:
        raise ValueError(f"augment accepts {d} where dims are given, not {augment}")
    if name == "ANODE":
        return ANODE(EnsembleMLP(n, n, rng, hidden, in_mask=z, out_mask=z), n - d)
    if name != "SONODE":
        raise ValueError(f"name accepts 'NODE', 'ANODE' or 'SONODE', not {name!r}")
    f = EnsembleMLP(2 * d, d, rng, hidden, in_mask=z, out_mask=x)
    return SONODE(f, EnsembleMLP(d, d, rng, hidden, "tanh", in_mask=x, out_mask=x))
