"""Steps written down in buffers, and the exact gradient that walks them back.

A pass of `dopri5` computes six points and stages for all clocks. Its buffers and every view of
them are made once and used in each iteration of a training (`Lease`).
"""

import numpy as np
import torch
from torch import Tensor, nn

from sonode_utils.solvers.networks import FusedMLP, RowMLP
from sonode_utils.solvers.scan import first_derivatives_only
from sonode_utils.solvers.stepping import CHUNK, Solver, interpolate


class Pass:
    """The buffers of one pass, and the views of them that it works on, made once.

    rows: (8, *shape), the state z and the stages k0 to k6; points: (7, *shape), the six points
    at which k1 to k6 are the field's values, the last of them the end of the step, then the
    error; share: (7, 8, *clock), what each row gives to each point: h times the tableau.
    to_rows: (8, *shape), for the gradients with respect to the rows; room: (*shape), for that
    with respect to a point.
    """

    def __init__(self, field, rows: Tensor, to_rows: Tensor, room: Tensor):
        self.rows, self.to_rows, self.room, self.back = rows, to_rows, room, None
        self.z, *self.k = rows.unbind(0)
        self.points = rows.new_empty(7, *field.shape)
        *self.at, self.error = self.points.unbind(0)
        share = rows.new_ones(7, 8, *field.clock)
        self.by_h = share[:, 1:]
        self.first = self.points[:6], share[:6, 1], share[6, 1]
        self.later = [(self.points[j:], share[j:, j + 1], self.k[j]) for j in range(1, 7)]
        self.shares = [(to_rows[: i + 2], share[i, : i + 2]) for i in range(6)]
        ends = zip(self.at, self.k[1:], to_rows[2:], [room] * 6)
        self.evaluations = [field.evaluation(*bound) for bound in ends]

    def run(self, t: list, h: Tensor, tableau: Tensor) -> None:
        """One step from self.z with slope self.k[0]. h: (*clock)"""
        torch.mul(tableau, h, out=self.by_h)
        points, to_points, to_error = self.first
        torch.addcmul(self.z, to_points, self.k[0], out=points)
        torch.mul(to_error, self.k[0], out=self.error)
        for evaluation, now, (points, share, k) in zip(self.evaluations, t[1:], self.later):
            evaluation.value(now)
            points.addcmul_(share, k)

    def go_back(self, to_z: Tensor, to_k: Tensor) -> tuple:
        """From the gradients with respect to state and slope after the step to those before."""
        if self.back is not None:  # these clocks went on from where they had been
            for gathered, grad in zip(self.to_rows, (to_z, to_k)):
                gathered.add_(torch.where(self.back, grad, 0))
            to_z, to_k = (torch.where(self.back, 0, grad) for grad in (to_z, to_k))
        self.to_rows[7].add_(to_k)
        for i in range(5, -1, -1):
            self.evaluations[i].pull()
            if i == 5:
                self.room.add_(to_z)
            to_rows, share = self.shares[i]
            to_rows.addcmul_(share, self.room)
        return self.to_rows[0], self.to_rows[1]


class Tape(Solver):
    """Steps written down in buffers: for values alone, or for fields that know their `pull`."""

    def __init__(self, field, z0: Tensor, keep: bool = False):
        super().__init__(field, z0)
        self.keep = keep
        self.key: tuple = ()
        self.chunks: list[tuple] = []  # rows, to_rows and passes
        self.reads: list[tuple] = []  # how the outputs were read from each of them
        self.z0, self.k0, self.to_k0, self.room = self.tableau.new_zeros(4, *field.shape)
        self.first = field.evaluation(self.z0, self.k0, self.to_k0, self.room)

    def start(self, z0):
        field, self.reads = self.field, []
        self.z0.copy_(field.lay(z0))
        self.first.value(self.at(0 * self.clocks.t)[0])
        return self.z0, self.k0

    def value(self, t, z):
        out = torch.zeros_like(z)
        self.field.evaluation(z, out).value(t)
        return out

    def advance(self, z, k):
        clocks = self.clocks
        now = self._pass(len(clocks.tape))
        now.z.copy_(z)
        now.k[0].copy_(k)
        now.run(self.at(clocks.h), self.per_clock(clocks.h), self.tableau)
        errors = self.errors(now.z, now.at[5], now.error)
        if not np.isfinite(errors).all():  # those stand still: what is infinite leaves no trace
            errors = np.where(np.isfinite(errors), errors, np.inf)
            h = np.where(np.isfinite(errors), clocks.h, 0)
            now.run(self.at(h), self.per_clock(h), self.tableau)
        rejected, now.back = clocks.advance(errors), None
        if rejected is None:
            return now.at[5], now.k[6]
        now.back = back = self.per_clock(rejected) > 0
        return torch.where(back, now.z, now.at[5]), torch.where(back, now.k[0], now.k[6])

    def _pass(self, n):
        index = n // CHUNK if self.keep else 0
        if index == len(self.chunks):  # zeros take no memory until they are written to
            rows = self.tableau.new_zeros(CHUNK, 8, *self.field.shape)
            self.chunks.append((rows, torch.zeros_like(rows), []))
        rows, to_rows, passes = self.chunks[index]
        n = n % CHUNK
        if n == len(passes):
            passes.append(Pass(self.field, rows[n], to_rows[n], self.room))
        return passes[n]

    def read(self, out, first):
        some, due, rows, weights = self.due(first)
        table = self.chunks[first // CHUNK if self.keep else 0][0]
        table = self.field.by_clock(table[: len(self.clocks.tape) - first])
        out[some] = torch.where(due, interpolate(table, rows, weights), out[some])
        if self.keep:
            self.reads.append((some, rows, weights, table.shape))
        return out

    def go_back(self, grad: Tensor) -> tuple[Tensor, list[Tensor]]:
        """grad: (time, clock, number), to the outputs -> to z0, to the parameters."""
        field = self.field
        field.begin_pull()
        to_z, to_k = grad.new_zeros(2, *field.shape)
        for (_, to_rows, passes), read in list(zip(self.chunks, self.reads))[::-1]:
            some, rows, weights, shape = read
            table, parts = grad.new_zeros(shape), weights * grad[some, None]
            table.flatten(0, 2).index_add_(0, rows, parts.flatten(0, 2))
            to_rows[: len(table)] = field.from_clock(table)
            for now in reversed(passes[: len(table)]):
                to_z, to_k = now.go_back(to_z, to_k)
        self.to_k0.copy_(to_k)
        self.first.pull()
        to_z = to_z + field.from_clock(grad[0]) + self.room
        if not self.clocks.moves.all():  # their outputs are where they began
            stand = self.per_clock(~self.clocks.moves) > 0
            to_z = torch.where(stand, field.from_clock(grad.sum(0)), to_z)
        return to_z, field.finish_pull()


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
    """A tape while a graph needs it; then it goes back to those that are free."""

    def __init__(self, tape, plan):
        self.tape, self.plan = tape, plan

    def __del__(self):
        if self.plan is not None and len(self.plan.tapes) < 2:
            self.plan.tapes.append(self.tape)


def lease(network: nn.Module, z0: Tensor, per_row: bool, plan, keep: bool) -> Lease:
    """A tape for this network and this layout: a free one, or a new one.

    keep: whether a gradient will walk it back; otherwise its few buffers go round and round.
    """
    key = network, z0.shape, z0.dtype, z0.device, per_row, keep
    for tape in plan.tapes if plan is not None else ():
        if tape.key == key:
            plan.tapes.remove(tape)
            tape.field.load()
            return Lease(tape, plan)
    kind = RowMLP if z0.shape[1] == 1 else FusedMLP
    tape = Tape(kind(network, z0, per_row), z0, keep)
    tape.key = key
    return Lease(tape, plan)
