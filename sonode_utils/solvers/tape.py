"""A solve written down, step by step (`step.py`), and the way back along it, exactly.

A clock that is done stands still with a step of zero.
"""

import numpy as np
import torch
from torch import Tensor

from sonode_utils.solvers.clocks import ALPHA, BETA, QUARTIC, Clocks, minus_fifth_power
from sonode_utils.solvers.step import Pass

CHUNK = 16  # passes that lie together in memory, for outputs to be one gather over them
PATIENCE = 2 * CHUNK  # passes after which a few members that still move go on alone


class Tape:
    """A solve, and what is needed to walk it back where `keep` says so.

    field: as in `fields.py`; without `keep` one chunk of passes is used over and over.
    """

    def __init__(self, field, z0: Tensor, keep: bool):
        self.field, self.keep = field, keep
        self.tableau = torch.tensor(BETA).to(z0).view(7, 7, *[1] * len(field.shape))
        self.quartic = torch.tensor(QUARTIC).to(z0).view(4, 1, 7, 1, 1)
        self.chunks: list[tuple] = []  # rows, to_rows and passes
        self.reads: list[tuple] = []  # how the outputs were read from each of them
        self.rest: Tape | None = None  # on which a few members went on
        self.z0, self.k0, self.to_k0, self.room = self.tableau.new_zeros(4, *field.shape)
        self.first = field.evaluation(self.z0, self.k0, self.to_k0, self.room)

    @torch.no_grad()
    def solve(self, z0: Tensor, clocks: Clocks, size, begin, rtol, atol) -> Tensor:
        """z0: (member, batch, feature) at time `begin` -> (time, clock, number)

        size: (clock,), how many numbers each clock's error is a mean of.
        """
        self.clocks, self.size, self.begin, self.rtol = clocks, size, begin, rtol
        self.atol = max(atol, torch.finfo(z0.dtype).tiny)
        z, k = self.z0.copy_(self.field.lay(z0)), self.k0
        self.first.value(self.times()[0])
        clocks.drop(self.sums(0 * (z + k)) != 0)
        if clocks.failed.any():
            for state in (z, k):
                state.masked_fill_(self.per_clock(clocks.failed) > 0, 0)
        if clocks.cold.any():
            clocks.begin(self.first_step(z, k))
        return self.run(z, k, self.field.by_clock(z).expand(len(clocks.times), -1, -1).clone())

    def run(self, z: Tensor, k: Tensor, out: Tensor) -> Tensor:
        """From this state and slope until all clocks are done. out: (time, clock, number)"""
        clocks, self.reads, self.rest = self.clocks, [], None
        while clocks.h.any():
            z, k = self.advance(z, k)
            full = len(clocks.tape) % CHUNK == 0
            if full or not clocks.h.any():
                self.read(out)
            if full and len(clocks.tape) >= PATIENCE:
                self.go_on_with_few(z, k, out)
        return out

    def go_on_with_few(self, z: Tensor, k: Tensor, out: Tensor) -> None:
        """If at most half of the members still move, they go on on a tape of their own.

        A long tape of all members would be slow, and fill the memory.
        """
        field, clocks = self.field, self.clocks
        if field.axis is None:
            return
        by_member = np.arange(len(clocks.h)).reshape(field.shape[field.axis], -1)
        going = (clocks.h[by_member] > 0).any(1)
        count = -(-going.sum() // field.least) * field.least
        if not 0 < 2 * count <= len(by_member):
            return
        few = np.argsort(~going, kind="stable")[:count]
        self.which, self.members = by_member[few].ravel(), torch.from_numpy(few).to(z.device)
        self.rest = rest = Tape(field.few(self.members), z, self.keep)
        rest.clocks, rest.size = clocks.few(self.which), self.size[self.which]
        rest.begin, rest.rtol, rest.atol = self.begin, self.rtol, self.atol
        z, k = (state.index_select(field.axis, self.members) for state in (z, k))
        out[:, self.which] = rest.run(z, k, out[:, self.which])
        clocks.join(rest.clocks, self.which)

    def per_clock(self, values) -> Tensor:
        """(..., clock) -> a tensor that goes with the state."""
        values = torch.from_numpy(np.asarray(values)).to(self.tableau.dtype)
        return values.to(self.tableau.device).view(*values.shape[:-1], *self.field.clock)

    def times(self, t=0.0, h=0.0) -> list:
        """The times of the stages of a step h from t, for fields that look at the clock."""
        if not self.field.timed:
            return [None] * 7
        return list(self.per_clock(self.begin + t + ALPHA[:, None] * (h + 0 * self.clocks.t)))

    def sums(self, z: Tensor) -> np.ndarray:
        """Sums over what belongs to each clock: (clock,)."""
        own = z[:, self.field.rows].sum_to_size(self.field.clock)
        return own.double().flatten().cpu().numpy()

    def norm(self, z: Tensor) -> np.ndarray:
        """Root mean square over what each clock really has: (clock,), perhaps not finite."""
        return np.sqrt(self.sums(z * z) / self.size)

    def first_step(self, z, k) -> np.ndarray:
        """As Hairer, Norsett and Wanner choose it (and torchdiffeq): (clock,)."""
        scale = self.atol + self.rtol * z.abs()
        d0, d1 = self.norm(z / scale), self.norm(k / scale)
        small = (d0 < 1e-5) | (d1 < 1e-5)
        h = np.where(small, 1e-6, 0.01 * d0 / np.where(small, 1, d1))
        ahead = torch.zeros_like(z)
        self.field.evaluation(z + self.per_clock(h) * k, ahead).value(self.times(0.0, h)[-1])
        most = np.maximum(d1, self.norm((ahead - k) / scale) / h)
        flat = most <= 1e-15
        other = minus_fifth_power(np.where(flat, 1, most) / 0.01)
        return np.minimum(100 * h, np.where(flat, np.maximum(1e-6, h * 1e-3), other))

    def advance(self, z: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """One step of every clock: state and slope after it."""
        clocks = self.clocks
        now = self._pass(len(clocks.tape))
        now.z.copy_(z)
        now.k[0].copy_(k)
        errors = self._try(now, clocks.h)
        if not np.isfinite(errors).all():  # those stand still: what is infinite leaves no trace
            errors = np.where(np.isfinite(errors), errors, np.inf)
            self._try(now, np.where(np.isfinite(errors), clocks.h, 0))
        rejected, now.back = clocks.advance(errors), None
        if rejected is None:
            return now.at[5], now.k[6]
        now.back = back = self.per_clock(rejected) > 0
        return torch.where(back, now.z, now.at[5]), torch.where(back, now.k[0], now.k[6])

    def _try(self, now, h):
        """One pass -> each clock's error, as a multiple of what is allowed: (clock,)."""
        now.run(self.times(self.clocks.t, h), self.per_clock(h), self.tableau)
        scale = torch.maximum(now.z.abs(), now.at[5].abs()).mul_(self.rtol).add_(self.atol)
        return self.norm(torch.div(now.error, scale, out=scale))

    def _pass(self, n):
        index, n = n // CHUNK if self.keep else 0, n % CHUNK
        if index == len(self.chunks):  # zeros take no memory until they are written to
            rows = self.tableau.new_zeros(CHUNK, 8, *self.field.shape)
            self.chunks.append((rows, torch.zeros_like(rows), []))
        rows, to_rows, passes = self.chunks[index]
        if n == len(passes):
            passes.append(Pass(self.field, rows[n], to_rows[n], self.room))
        return passes[n]

    def due(self, first: int) -> tuple:
        """Of the outputs that fell due since pass `first`: which times, if due, rows, weights.

        -> slice; (time, clock, 1); (time * 8 * clock,), of a table (pass * 8 * clock, number);
        (time, 8, clock, 1), of z and the stages, 0 where not due.
        """
        some, due, which, theta, h = self.clocks.due(first)
        n, like = which.shape[1], self.tableau
        due, theta, h = (
            torch.from_numpy(v).to(like)[:, None, :, None] for v in (due, theta, h)
        )
        a, b, c, d = self.quartic
        weights = h * theta * (a + theta * (b + theta * (c + theta * d)))
        rows = (8 * which[:, None] + np.arange(8)[:, None]) * n + np.arange(n)
        rows = torch.from_numpy(rows.ravel()).to(like.device)
        return some, due[:, 0] > 0, rows, torch.cat([due, weights], 1)

    def read(self, out: Tensor) -> None:
        """Write the outputs that fell due in the last chunk of passes."""
        first = (len(self.clocks.tape) - 1) // CHUNK * CHUNK
        some, due, rows, weights = self.due(first)
        table = self.chunks[first // CHUNK if self.keep else 0][0]
        table = self.field.by_clock(table[: len(self.clocks.tape) - first])
        out[some] = torch.where(due, interpolate(table, rows, weights), out[some])
        self.reads.append((some, rows, weights, table.shape))

    def go_back(self, grad: Tensor) -> tuple[Tensor, list[Tensor]]:
        """grad: (time, clock, number), to the outputs -> to z0, to the parameters."""
        field = self.field
        to_z, to_k = self.walk_back(grad)
        self.to_k0.copy_(to_k)
        self.first.pull()
        to_z = to_z + field.from_clock(grad[0]) + self.room
        if not self.clocks.moves.all():  # their outputs are where they began
            stand = self.per_clock(~self.clocks.moves) > 0
            to_z = torch.where(stand, field.from_clock(grad.sum(0)), to_z)
        return to_z, field.finish_pull()

    def walk_back(self, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients with respect to the state and slope at the start of the tape."""
        field = self.field
        to_z, to_k = to = grad.new_zeros(2, *field.shape)
        field.begin_pull()
        if self.rest is not None:
            late = self.rest.walk_back(grad[:, self.which])
            to.index_copy_(field.axis, self.members, torch.stack(late))
            for mine, theirs in zip(field.grads, self.rest.field.grads):
                mine.index_copy_(field.axis, self.members, theirs)
        for (_, to_rows, passes), read in list(zip(self.chunks, self.reads))[::-1]:
            some, rows, weights, shape = read
            table, parts = grad.new_zeros(shape), weights * grad[some, None]
            table.flatten(0, 2).index_add_(0, rows, parts.flatten(0, 2))
            to_rows[: len(table)] = field.from_clock(table)
            for now in reversed(passes[: len(table)]):
                to_z, to_k = now.go_back(to_z, to_k)
        return to_z, to_k


def interpolate(table: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """table: (pass, 8, clock, number); rows, weights: as `Tape.due` has them -> outputs."""
    found = table.flatten(0, 2).index_select(0, rows).view(*weights.shape[:3], table.shape[-1])
    value = found[:, 0]
    for j in range(1, 8):
        value = torch.addcmul(value, weights[:, j], found[:, j])
    return value
