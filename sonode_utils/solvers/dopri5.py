"""Dormand and Prince's method for an ensemble: every member its own clock.

The method is torchdiffeq's `dopri5`: its tableau, first step, step-size rule and interpolant
(tests hold each member's evaluations against a solve of it alone). Each clock has its own
time, step, error, decision to accept or reject, and plan (`clocks.py`); the loop makes as many
passes as the busiest clock needs, and a clock that is done stands still with a step of zero.
What a pass computes is elementwise over the clocks: no clock ever sees another.

Every pass is written on a tape (`tape.py`). Outputs are interpolated from it by a gather, and
where the field is that of a known network (`networks.py`) the gradient walks it back with the
transposed tableau: that of the steps which were taken, exactly, and without a graph. For any
other field autograd does it (`Graph`).
"""

import numpy as np
import torch
from torch import Tensor

from sonode_utils.solvers.clocks import Clocks
from sonode_utils.solvers.fields import PlainField
from sonode_utils.solvers.stepping import Solver, interpolate
from sonode_utils.solvers.tape import Lease, Solve, Tape, lease


class Graph(Solver):
    """Steps that autograd goes back over: for any field, any parameter, any derivative."""

    def start(self, z0):
        self.rows = []
        return z0, self.value(self.at(0 * self.clocks.t)[0], z0)

    def value(self, t, z):
        return self.field(t, z)

    def advance(self, z, k):
        """One step of every clock: state and slope after it."""
        h = self.clocks.h
        end, stages, error = self.step(z, k, h)
        errors = self.errors(z, end, error)
        if not np.isfinite(errors).all():  # those stand still: what is infinite leaves no trace
            errors = np.where(np.isfinite(errors), errors, np.inf)
            end, stages, _ = self.step(z, k, np.where(np.isfinite(errors), h, 0))
        rejected = self.clocks.advance(errors)
        self.rows.append(torch.stack([z, *stages]))
        if rejected is None:
            return end, stages[-1]
        back = self.per_clock(rejected) > 0
        return torch.where(back, z, end), torch.where(back, k, stages[-1])

    def step(self, z, k, h):
        t, share, stages = self.at(h), self.tableau * self.per_clock(h), [k]
        for i in range(6):
            point = z
            for j, stage in enumerate(stages):
                point = torch.addcmul(point, share[i, j], stage)
            stages.append(self.value(t[i + 1], point))
        error = sum(share[6, j] * stage.detach() for j, stage in enumerate(stages))
        return point, stages, error

    def read(self, out, first):
        some, due, rows, weights = self.due(first)
        table, self.rows = self.field.by_clock(torch.stack(self.rows)), []
        found = torch.where(due, interpolate(table, rows, weights), out[some])
        return torch.cat([out[: some.start], found, out[some.stop :]])


def dopri5(
    field, z0: Tensor, times: np.ndarray, *, begin: float, rtol: float, atol: float,
    moves: np.ndarray, size: np.ndarray, network=None, plan=None, max_steps: int = 5000,
) -> tuple[Tensor, np.ndarray, np.ndarray]:  # fmt: skip
    """Solve z' = field(t, z) -> (time, *z0.shape); evaluations and failed: (member, clock).

    z0: (member, batch, feature); times: (time, member, clock), from 0 on, in which clock is 1,
    or batch for a clock per row; begin: the time at 0; moves: (member,), False = stand still;
    size: (member,), how many numbers the error of each of its clocks is a mean of;
    network: the `EnsembleMLP` that the field is made of, if it is exactly known.
    """
    per_row, graph = times.shape[2] > 1, torch.is_grad_enabled()
    if network is not None:
        held = lease(network, z0, per_row, plan, keep=graph)
    else:
        held = Lease((Graph if graph else Tape)(PlainField(field, z0, per_row), z0), None)
    solver = held.tape
    members = int(np.prod(solver.field.clock)) // times.shape[2]

    def flat(values, fill):
        """(..., member, clock) -> (..., all clocks), those of idle members too."""
        idle = [(0, 0)] * (values.ndim - 2) + [(0, members - len(z0)), (0, 0)]
        return np.pad(values, idle, constant_values=fill).reshape(*values.shape[:-2], -1)

    each = np.ones(times.shape[1:], int)
    clocks = Clocks(flat(times, 0), flat(moves[:, None] & (each > 0), False), plan, max_steps)
    options = clocks, flat(size[:, None] * each, 1), begin, rtol, atol
    if isinstance(solver, Tape) and graph:
        z = Solve.apply(held, options, z0, *solver.field.parameters)
    else:
        z = solver.field.read(solver.solve(z0, *options))
    back = (members, times.shape[2])
    return z, clocks.close().reshape(back)[: len(z0)], clocks.failed.reshape(back)[: len(z0)]
