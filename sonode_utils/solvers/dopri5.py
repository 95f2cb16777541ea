"""Dormand and Prince's method for an ensemble: every member its own clock.

The method is torchdiffeq's `dopri5`: its tableau, first step, step-size rule and interpolant
(tests hold each member's evaluations against a solve of it alone). Each clock has its own
time, step, error, decision to accept or reject, and plan (`clocks.py`). Every pass is written
on a tape (`tape.py`), from which the outputs are interpolated. Where the field is that of a
known network (`networks.py`) the gradient walks the tape back: that of the steps which were
taken, exactly, and without a graph. For any other field they are taken once more with one.
"""

import numpy as np
import torch
from torch import Tensor, nn

from sonode_utils.solvers.clocks import Clocks, StepPlan
from sonode_utils.solvers.fields import PlainField
from sonode_utils.solvers.networks import FusedMLP, RowMLP
from sonode_utils.solvers.scan import first_derivatives_only
from sonode_utils.solvers.tape import Tape, interpolate


def dopri5(
    field, z0: Tensor, times: np.ndarray, *, begin: float, rtol: float, atol: float,
    moves: np.ndarray, size: np.ndarray, network: nn.Module | None = None,
    plan: StepPlan | None = None, max_steps: int = 5000,
) -> tuple[Tensor, np.ndarray, np.ndarray]:  # fmt: skip
    """Solve z' = field(t, z) -> (time, *z0.shape); evaluations and failed: (member, clock).

    z0: (member, batch, feature); times: (time, member, clock), from 0 on, in which clock is 1,
    or batch for a clock per row; begin: the time at 0; moves: (member,), False = stand still;
    size: (member,), how many numbers the error of each of its clocks is a mean of;
    network: the `EnsembleMLP` that the field is made of, if it is exactly known.
    """
    each, graph = times.shape[2], torch.is_grad_enabled()
    if network is None:
        lease = Lease(Tape(PlainField(field, z0, each > 1), z0, keep=False), None)
    else:
        lease = rent(network, z0, each > 1, plan, keep=graph)
    tape = lease.tape
    members = int(np.prod(tape.field.clock)) // each

    def flat(values):
        """(..., member, clock) -> (..., all clocks), those of idle members too."""
        wide = np.zeros((*values.shape[:-2], members, each), values.dtype)
        wide[..., : len(z0), :] = values
        return wide.reshape(*values.shape[:-2], -1)

    clocks = Clocks(flat(times), flat(np.repeat(moves[:, None], each, 1)), plan, max_steps)
    numbers = np.maximum(flat(np.repeat(size[:, None], each, 1)), 1)
    options = clocks, numbers, begin, rtol, atol
    if graph and network is not None:
        z = Solve.apply(lease, options, z0, *tape.field.parameters)
    else:
        z = tape.solve(z0, *options)
        z = tape.field.read(replay(tape, z0) if graph else z)
    nfe, failed = (v.reshape(members, each)[: len(z0)] for v in (clocks.close(), clocks.failed))
    return z, nfe, failed


def replay(tape: Tape, z0: Tensor) -> Tensor:
    """The steps of a tape once more, for autograd to see -> (time, clock, number)

    A step that was rejected has no length here, and what failed at the start is not moved.
    """
    clocks, field = tape.clocks, tape.field
    z = torch.where(tape.per_clock(clocks.failed & (clocks.tries == 0)) > 0, 0, z0)
    k, rows = field(tape.times()[0], z), []
    for t, h, error, _ in clocks.tape:
        h = np.where(error <= 1, h, 0)
        share, stages = tape.tableau * tape.per_clock(h), [k]
        for i, now in enumerate(tape.times(t, h)[1:]):
            point = z
            for j, stage in enumerate(stages):
                point = torch.addcmul(point, share[i, j], stage)
            stages.append(field(now, point))
        rows.append(torch.stack([z, *stages]))
        z, k = point, stages[-1]
    out = field.by_clock(z0).expand(len(clocks.times), -1, -1)
    if not rows:
        return out
    some, due, which, weights = tape.due(0)
    found = interpolate(field.by_clock(torch.stack(rows)), which, weights)
    found = torch.where(due, found, out[some])
    return torch.cat([out[: some.start], found, out[some.stop :]])


class Solve(torch.autograd.Function):
    """A solve on a tape, and the exact gradient of the steps it took.

    z0: (member, batch, feature) -> (time, member, batch, feature)
    parameters: those of the field, for autograd to see.
    """

    @staticmethod
    def forward(ctx, lease, options, z0, *parameters):
        ctx.lease = lease
        ctx.save_for_backward(*parameters)
        return lease.tape.field.read(lease.tape.solve(z0, *options))

    @staticmethod
    def backward(ctx, grad):
        first_derivatives_only()
        _ = ctx.saved_tensors  # raises if a parameter was changed, or the graph was freed
        tape = ctx.lease.tape
        field = tape.field
        to_z, to_parameters = tape.go_back(field.by_clock(field.lay(grad)))
        return None, None, field.read(field.by_clock(to_z[None]))[0], *to_parameters


class Lease:
    """A tape while a graph needs it; then it goes back to those of the plan that are free."""

    def __init__(self, tape: Tape, plan: StepPlan | None, key: tuple = ()):
        self.tape, self.plan, self.key = tape, plan, key

    def __del__(self):
        if self.plan is not None and len(self.plan.tapes) < 2:
            self.plan.tapes.append((self.key, self.tape))


def rent(network: nn.Module, z0: Tensor, per_row: bool, plan, keep: bool) -> Lease:
    """A tape for this network and this layout: a free one, or a new one."""
    key = network, z0.shape, z0.dtype, z0.device, per_row, keep
    for free in plan.tapes if plan is not None else ():
        if free[0] == key:
            plan.tapes.remove(free)
            free[1].field.load()
            return Lease(free[1], plan, key)
    kind = RowMLP if z0.shape[1] == 1 else FusedMLP
    return Lease(Tape(kind(network, z0, per_row), z0, keep), plan, key)
