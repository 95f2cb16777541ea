"""Dormand and Prince's method for an ensemble: every member its own clock.

The method is torchdiffeq's `dopri5`: its tableau, first step, step-size rule and interpolant
(tests hold each member's evaluations against a solve of it alone). Each clock has its own
time, step, error, decision to accept or reject, and plan (`clocks.py`); the loop makes as many
passes as the busiest clock needs, and a clock that is done stands still with a step of zero.
What a pass computes is elementwise over the clocks: no clock ever sees another.

Every pass is written on a tape. Outputs are interpolated from it by a gather, and where the
field knows its derivative (`fields.FusedMLP`, `fields.RowMLP`) the gradient walks it back with
the transposed tableau: that of the steps which were taken, exactly, and without a graph. For
any other field autograd does it (`Graph`).
"""

import numpy as np
import torch
from torch import Tensor

from sonode_utils.solvers.clocks import ALPHA, BETA, QUARTIC, Clocks, fifth_root
from sonode_utils.solvers.fields import FusedMLP, PlainField, RowMLP
from sonode_utils.solvers.scan import first_derivatives_only

CHUNK = 16  # passes that lie together in memory, for outputs to be one gather over them


class Solver:
    """What the two ways of stepping share: layout, error norm, first step, outputs.

    field: as in `fields.py`.
    """

    def __init__(self, field, z0: Tensor):
        self.field = field
        extra = [1] * len(field.shape)
        self.tableau = torch.tensor(BETA).to(z0).view(7, 7, *extra)
        self.quartic = torch.tensor(QUARTIC).to(z0).view(4, 1, 7, 1, 1)

    def solve(self, z0: Tensor, clocks: Clocks, size, begin, rtol, atol) -> Tensor:
        """z0: (member, batch, feature) at time `begin` -> (time, clock, number)

        size: (clock,), how many numbers each clock's error is a mean of.
        """
        self.clocks, self.size, self.begin, self.rtol = clocks, size, begin, rtol
        self.atol = max(atol, torch.finfo(z0.dtype).tiny)
        z, k = self.start(z0)
        clocks.drop(self.sums(0 * (z + k).detach()) != 0)
        z, k = self.hold(z), self.hold(k)
        if clocks.cold.any():
            clocks.begin(self.first_step(z.detach(), k.detach()))
        out = self.field.by_clock(z).expand(len(clocks.times), -1, -1).clone()
        read = 0
        while clocks.h.any():
            if len(clocks.tape) - read == CHUNK:
                out, read = self.read(out, read), len(clocks.tape)
            z, k = self.advance(z, k)
        return self.read(out, read) if len(clocks.tape) > read else out

    def hold(self, z):
        """z, and 0 for the clocks that failed at the start."""
        failed = self.clocks.failed
        return torch.where(self.per_clock(failed) > 0, 0, z) if failed.any() else z

    def per_clock(self, values) -> Tensor:
        """(..., clock) -> a tensor that goes with the state."""
        values = torch.from_numpy(np.asarray(values)).to(self.tableau.dtype)
        return values.to(self.tableau.device).view(*values.shape[:-1], *self.field.clock)

    def at(self, h) -> list:
        """The times of a step's stages, for fields that look at the clock."""
        if not self.field.timed:
            return [None] * 7
        return list(self.per_clock(self.begin + self.clocks.t + ALPHA[:, None] * h))

    def sums(self, z: Tensor) -> np.ndarray:
        """Sums over what belongs to each clock: (clock,)."""
        z = z[self.field.real]
        return z.sum_to_size(self.field.clock).double().flatten().cpu().numpy()

    def norm(self, z: Tensor) -> np.ndarray:
        """Root mean square over what each clock really has: (clock,), perhaps not finite."""
        return np.sqrt(self.sums(z * z) / self.size)

    @torch.no_grad()
    def errors(self, z, end, error) -> np.ndarray:
        """Each clock's error, as a multiple of what the tolerances allow: (clock,)."""
        scale = torch.maximum(z.abs(), end.abs()).mul_(self.rtol).add_(self.atol)
        return self.norm(torch.div(error, scale, out=scale))

    @torch.no_grad()
    def first_step(self, z, k) -> np.ndarray:
        """As Hairer, Norsett and Wanner choose it (and torchdiffeq): (clock,)."""
        scale = self.atol + self.rtol * z.abs()
        d0, d1 = self.norm(z / scale), self.norm(k / scale)
        small = (d0 < 1e-5) | (d1 < 1e-5)
        h = np.where(small, 1e-6, 0.01 * d0 / np.where(small, 1, d1))
        ahead = self.value(self.at(h)[-1], z + self.per_clock(h) * k)
        most = np.maximum(d1, self.norm((ahead - k) / scale) / h)
        flat = most <= 1e-15
        other = fifth_root(np.where(flat, 1, most) / 0.01)
        return np.minimum(100 * h, np.where(flat, np.maximum(1e-6, h * 1e-3), other))

    def due(self, first: int) -> tuple:
        """Of the outputs that fell due since pass `first`: which times, if due, rows, weights.

        -> slice; (time, clock, 1); (time * 8 * clock,), of a table (pass * 8 * clock, number);
        (time, 8, clock, 1), of z and the stages, 0 where not due.
        """
        some, due, which, theta, h = self.clocks.due(first)
        dtype, n = self.tableau, which.shape[1]
        due, theta, h = (
            torch.from_numpy(v).to(dtype)[:, None, :, None] for v in (due, theta, h)
        )
        a, b, c, d = self.quartic
        weights = h * theta * (a + theta * (b + theta * (c + theta * d)))
        rows = (8 * which[:, None] + np.arange(8)[:, None]) * n + np.arange(n)
        rows = torch.from_numpy(rows.ravel()).to(dtype.device)
        return some, due[:, 0] > 0, rows, torch.cat([due, weights], 1)


def interpolate(table: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """table: (pass, 8, clock, number); rows, weights: as `Solver.due` has them -> outputs."""
    found = table.flatten(0, 2).index_select(0, rows).view(*weights.shape[:3], table.shape[-1])
    value = found[:, 0]
    for j in range(1, 8):
        value = torch.addcmul(value, weights[:, j], found[:, j])
    return value


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
        self.keep, self.chunks, self.reads = keep, [], []
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

    def __init__(self, tape: Tape, plan):
        self.tape, self.plan = tape, plan

    def __del__(self):
        if self.plan is not None and len(self.plan.tapes) < 2:
            self.plan.tapes.append(self.tape)


def _lease(network, z0, per_row, plan):
    """A tape for this network and this layout: a free one, or a new one."""
    key = network, z0.shape, z0.dtype, z0.device, per_row
    for tape in plan.tapes if plan is not None else ():
        if tape.key == key:
            plan.tapes.remove(tape)
            tape.field.load()
            return Lease(tape, plan)
    kind = RowMLP if z0.shape[1] == 1 else FusedMLP
    tape = Tape(kind(network, z0, per_row), z0, keep=True)
    tape.key = key
    return Lease(tape, plan)


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
        lease = _lease(network, z0, per_row, plan)
    else:
        lease = Lease((Graph if graph else Tape)(PlainField(field, z0, per_row), z0), None)
    solver = lease.tape
    members = int(np.prod(solver.field.clock)) // times.shape[2]

    def flat(values, fill):
        """(..., member, clock) -> (..., all clocks), those of idle members too."""
        idle = [(0, 0)] * (values.ndim - 2) + [(0, members - len(z0)), (0, 0)]
        return np.pad(values, idle, constant_values=fill).reshape(*values.shape[:-2], -1)

    each = np.ones(times.shape[1:], int)
    clocks = Clocks(flat(times, 0), flat(moves[:, None] & (each > 0), False), plan, max_steps)
    options = clocks, flat(size[:, None] * each, 1), begin, rtol, atol
    if isinstance(solver, Tape) and graph:
        z = Solve.apply(lease, options, z0, *solver.field.parameters)
    else:
        z = solver.field.read(solver.solve(z0, *options))
    back = (members, times.shape[2])
    return z, clocks.close().reshape(back)[: len(z0)], clocks.failed.reshape(back)[: len(z0)]
