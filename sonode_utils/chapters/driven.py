"""Models driven by a measured input, linear in a few features (Sec. 6.2, App. E).

The state z = [x, ...] of d rows is x and its derivatives (NODE, SONODE, TONODE; the last row is
learnt), or x and an augmented a (ANODE; both are learnt). Learnt is W [z, x^3 / 100, u] + b,
the cube only where asked for; the other rows of the initial state are affine in x(0).
"""

import copy
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sonode_utils.ensemble import Streams, symmetric_uniform
from sonode_utils.solvers.parallel import SampledSolution, affine, solve_parallel
from sonode_utils.train import History, fit

SHAPES = {"NODE": (1, 1), "ANODE": (2, 2), "SONODE": (2, 1), "TONODE": (3, 1)}  # of z, learnt
CUBE = 0.01


class _OverTime(torch.autograd.Function):
    """Numbers (..., 1, member) at n times; each member's gradient is summed by itself.

    The last digits of autograd's own sum depend on how many members stand side by side.
    """

    @staticmethod
    def forward(ctx, w, n):
        return w.expand(*w.shape[:-2], n, w.shape[-1])

    @staticmethod
    def backward(ctx, grad):
        return grad.mT.contiguous().sum(-1).unsqueeze(-2), None


class DrivenField:
    """dz/dt of a `DrivenModel`, and its derivative; the weights are laid out once.

    z: (d, time, member); u: (channel, time, member or 1)
    """

    def __init__(self, model):
        self.cubic, self.given = model.cubic, slice(1, model.d - model.learnt + 1)
        self.w = torch.cat([model.weight, model.bias[..., None]], -1).permute(2, 1, 0)
        self.w, self.wide = self.w[:, :, None].contiguous(), {}

    def __call__(self, z, u):
        key, rows = (z.shape[1], torch.is_grad_enabled()), z.unbind(0)
        if key not in self.wide:  # once for all stages
            self.wide[key] = _OverTime.apply(self.w, key[0]).unbind(0)
        cube = [CUBE * rows[0] * rows[0] * rows[0]] if self.cubic else []
        *columns, bias = self.wide[key]
        return self._rates(z, bias, columns, [*rows, *cube, *u])

    @torch.no_grad()
    def push(self, z, tangents):
        """The Jacobian at z times the columns `tangents`: (d, column, time, member)."""
        rows = tangents.unbind(0)
        cube = [3 * CUBE * z[0] * z[0] * rows[0]] if self.cubic else []
        *columns, bias = self.w[:, :, None]
        return self._rates(tangents, torch.zeros_like(bias), columns, [*rows, *cube])

    def _rates(self, z, learnt, columns, features):
        for column, feature in zip(columns, features):
            learnt = torch.addcmul(learnt, column, feature)
        given = z[self.given]
        return torch.cat([given, learnt]) if len(given) else learnt


class DrivenModel(nn.Module):
    """`kind` of SHAPES for every stream. All learnt numbers are drawn as torch.nn.Linear draws.

    weight: (member, learnt, feature), bias: (member, learnt), start: (member, d - 1, 2), the
    slope and offset of the initial state's other rows in x(0).
    inputs: channels of u; dt: time between samples.
    """

    alive: Tensor

    def __init__(
        self, kind: str, rng: Streams, *, inputs: int = 1, cubic: bool = False,
        dt: float = 1.0,
    ):  # fmt: skip
        super().__init__()
        self.d, self.learnt = SHAPES[kind]
        self.rng, self.cubic, self.dt = rng, cubic, dt
        self.features, size = self.d + int(cubic) + inputs, len(rng)
        self.weight = nn.Parameter(torch.zeros(size, self.learnt, self.features))
        self.bias = nn.Parameter(torch.zeros(size, self.learnt))
        self.start = nn.Parameter(torch.zeros(size, self.d - 1, 2))
        self.register_buffer("alive", torch.ones(size, dtype=torch.bool))
        self.nfe = torch.tensor(0)
        self.draw(range(size))

    @torch.no_grad()
    def draw(self, members: Iterable[int]) -> None:
        """Fresh weights for these members, each from its own stream."""
        for k in members:
            for p in (self.weight, self.bias, self.start):
                fan_in = 1 if p is self.start else self.features
                p[k] = symmetric_uniform(p.shape[1:], fan_in**-0.5, self.rng[k])

    def initial_state(self, x0) -> Tensor:
        """x0: a number -> (d, member)."""
        x0 = torch.as_tensor(x0).to(self.start)
        slope, offset = self.start.unbind(-1)
        return torch.cat([x0.expand(1, len(slope)), (slope * x0 + offset).t()])

    def field(self) -> DrivenField:
        """The field for `solve_parallel`."""
        return DrivenField(self)

    def forward(self, x0, u: Tensor, guess: Tensor | None = None, **options) -> SampledSolution:
        """The free run from x0 under `input_at_stages`; guess, options: for Newton's method."""
        field, z0, options = self.field(), self.initial_state(x0), {"dt": self.dt, **options}
        if self.cubic:
            done = solve_parallel(field, z0, u, guess=guess, alive=self.alive, **options)
        else:
            done = affine(field, z0, u, dt=self.dt, alive=self.alive)
        self.nfe = done.nfe
        return done

    @torch.no_grad()
    def exact(self, x0, u: Tensor, window: int = 1000) -> Tensor:
        """The free run in double precision, by windows: (feature, sample, member)."""
        twin, u = copy.deepcopy(self).double(), u.double()
        solver, z = solve_parallel if self.cubic else affine, [twin.initial_state(x0)[:, None]]
        for part in u.split(window, dim=2):
            z.append(solver(twin.field(), z[-1][:, -1], part, dt=self.dt).z[:, 1:])
        return torch.cat(z, 1)

    def matrix(self) -> Tensor:
        """The linear part of z' = ... z: (member, d, d)."""
        learnt = self.weight.detach()[..., : self.d]
        given = torch.eye(self.d)[1 : self.d - self.learnt + 1].to(learnt)
        return torch.cat([given.expand(len(learnt), -1, -1), learnt], 1)

    @torch.no_grad()
    def unstable(self) -> Tensor:
        """(member,): does the linear part, left alone, grow?"""
        return torch.linalg.eigvals(self.matrix().double()).real.amax(-1) >= 0

    @torch.no_grad()
    def reflect(self, members: Tensor) -> None:
        """Mirror the unstable eigenvalues of these members: (member,) of bool."""
        members = members & self.unstable()
        values, vectors = torch.linalg.eig(self.matrix()[members].double())
        values = torch.complex(-values.real.abs(), values.imag)
        if self.learnt == self.d:
            mirrored = (vectors @ torch.diag_embed(values) @ torch.linalg.inv(vectors)).real
        else:
            polynomials = [np.poly(roots).real[:0:-1] for roots in values.numpy()]
            mirrored = -torch.tensor(np.array(polynomials)).view(-1, 1, self.d)
        self.weight[members, :, : self.d] = mirrored.to(self.weight)


@torch.no_grad()
def stable_start(
    model: DrivenModel, x0, u: Tensor, rule: str | Sequence = "reject"
) -> tuple[Tensor, Tensor]:
    """Draw weights from which training can begin; count the draws put aside.

    rule, one for all or one for each member: "reject" draws again while the linear part is
    unstable, "reflect" mirrors its unstable eigenvalues instead. Either way a member whose
    first free run over u blows up is drawn again.
    -> draws put aside because the linear part grows, because the run blows up: (member,) each
    """
    rules = [rule] * len(model.rng) if isinstance(rule, str) else rule
    mirror = torch.tensor([{"reject": False, "reflect": True}[name] for name in rules])
    unstable, blown = (torch.zeros(len(mirror), dtype=torch.long) for _ in range(2))
    while True:
        model.reflect(mirror)
        aside, count = model.unstable(), unstable
        if not aside.any():
            aside, count = model(x0, u).failed, blown
        if not aside.any():
            return unstable, blown
        count += aside
        model.draw(aside.nonzero()[:, 0].tolist())


def fit_driven(
    model: DrivenModel, x: Tensor, u: Tensor, iterations: int, *, lr: float = 0.01,
    label: str = "training", callback: Callable | None = None, **options,
) -> History:  # fmt: skip
    """Adam on each member's mean square error of x: (sample,); options go to the solve."""
    last, before = None, None

    def loss(model):
        nonlocal last, before
        guess = last if before is None else 2 * last - before  # a straight line through both
        z = model(x[0], u, guess, **options).z
        before, last = last, z.detach()
        return mean_square(z[0] - x[:, None])

    return fit(model, loss, iterations=iterations, lr=lr, label=label, callback=callback)


def mean_square(error: Tensor) -> Tensor:
    """Over samples, with the same digits in any company: (sample, member) -> (member,)."""
    return error.t().contiguous().square().mean(1)


def centred(signal, train: int, samples: int, scale: float = 1.0) -> Tensor:
    """The first samples of a signal, less the mean of its training rows: (sample,)."""
    signal = torch.tensor(signal[:samples])
    return scale * (signal - signal[:train].mean())


def running_rmse(error: Tensor, window: int) -> Tensor:
    """Root mean square over windows of samples: (sample, ...) -> (sample - window + 1, ...)."""
    total = torch.cat([torch.zeros_like(error[:1]), error.square().cumsum(0)])
    return ((total[window:] - total[:-window]).clamp_min(0) / window).sqrt()
