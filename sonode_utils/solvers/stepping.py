"""What the two ways of stepping share: layout, error norm, first step, outputs."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sonode_utils.solvers.clocks import ALPHA, BETA, QUARTIC, Clocks, fifth_root

CHUNK = 16  # passes that lie together in memory, for outputs to be one gather over them


class Solver:
    """What the two ways of stepping share: layout, error norm, first step, outputs.

    field: as in `fields.py`. `start` gives state and slope, `value` the field, `advance` the
    state and slope after a step, `read` the outputs that fell due since a pass.
    """

    start: Callable
    value: Callable
    advance: Callable
    read: Callable

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
