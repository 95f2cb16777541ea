"""The clocks of a batched solve: for each its time, step, decisions and plan.

All of it is small arithmetic in double precision, (clock,) at a time, in operations that give
the same bits on every processor.
"""

import copy

import numpy as np
import torch

SMALLEST_STEP = 1e-9  # as a share of the interval: below it, a clock has blown up

# Dormand and Prince (1980), with Shampine's fourth order error and mid point.
ALPHA = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
BETA = np.zeros((7, 7))  # of stages in six points, the last of them the end, and in the error
BETA[0, :1] = 1 / 5
BETA[1, :2] = 3 / 40, 9 / 40
BETA[2, :3] = 44 / 45, -56 / 15, 32 / 9
BETA[3, :4] = 19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729
BETA[4, :5] = 9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656
BETA[5, :6] = END = 35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84
FOURTH = 1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60
BETA[6] = np.array([*END, 0]) - FOURTH
MIDDLE = np.array([
    6025192743 / 30085553152 / 2, 0, 51252292925 / 65400821598 / 2,
    -2691868925 / 45128329728 / 2, 187940372067 / 1594534317056 / 2,
    -1776094331 / 19743644256 / 2, 11237099 / 235043384 / 2,
])  # fmt: skip
FIRST, LAST = np.eye(7)[[0, -1]]
QUARTIC = np.stack([  # through both ends, both slopes and the middle: powers 1 to 4 of theta
    FIRST,
    LAST - 4 * FIRST - 5 * BETA[5] + 16 * MIDDLE,
    5 * FIRST - 3 * LAST + 14 * BETA[5] - 32 * MIDDLE,
    2 * (LAST - FIRST) - 8 * BETA[5] + 16 * MIDDLE,
])  # fmt: skip


class StepPlan:
    """What is left of the last solve for the next one, of much the same field, to plan by.

    taken: lengths, errors: (pass, clock), of its accepted steps, 0 where there is none.
    tapes: buffers that are free to be used again.
    """

    def __init__(self):
        self.taken, self.tapes = None, []

    def __deepcopy__(self, memo):
        return None  # the copy of a model in training is a model that starts anew


def minus_fifth_power(x: np.ndarray) -> np.ndarray:
    """x^(-1/5), the same bits wherever in the array a number stands (numpy's are not)."""
    return torch.from_numpy(x).log().mul_(-0.2).exp_().numpy()


def step_factor(error: np.ndarray) -> np.ndarray:
    """The next step as a multiple of this one."""
    return np.minimum(
        np.maximum(0.9 * minus_fifth_power(error), np.where(error < 1, 1, 0.2)), 10
    )


def plan_steps(taken, whole: np.ndarray) -> np.ndarray:
    """The lengths of the fewest steps that should do: (step, clock), 0 after the last.

    taken: as in `StepPlan`. Each step says how long a step may be there; the new ones have
    equal shares of what is allowed. whole: (clock,), how far to go.
    """
    if taken is None or taken[0].shape[1] != len(whole):
        return np.zeros((0, len(whole)))
    lengths, errors = (np.concatenate([0 * values[:1], values]) for values in taken)
    ends = lengths.cumsum(0)
    needed = np.where(lengths > 0, 1 / step_factor(errors), 0).cumsum(0)  # steps, up to there
    total = _interpolate(whole[None], ends, needed)[0]
    count = np.ceil(total)
    share = np.minimum(np.arange(count.max() + 1)[:, None], count) * (
        total / np.maximum(count, 1)
    )
    marks = _interpolate(share, needed, ends)
    return np.diff(marks, axis=0) * (1 + 1e-9)  # not short of the end by a rounding


def _interpolate(x, xs, ys):
    """np.interp, column by column: x: (m, clock); xs, ys: (n, clock), xs not decreasing."""
    if len(x) * xs.size < 1e6:
        below = (xs[:, None] < x).sum(0)
    else:  # a table of all pairs would be large
        below = np.stack([np.searchsorted(*column) for column in zip(xs.T, x.T)], 1)
    left = np.clip(below - 1, 0, len(xs) - 2)
    x0, x1, y0, y1 = (
        np.take_along_axis(values, left + i, 0) for values in (xs, ys) for i in (0, 1)
    )
    share = (x1 - np.minimum(x, x1)) / np.where(x1 > x0, x1 - x0, 1)
    return y1 - share * (y1 - y0)


class Clocks:
    """All clocks of a solve. times: (time, clock), from 0 on; moves: (clock,), False = stands.

    h: (clock,), the steps to try now, 0 for a clock that is done, stands or failed.
    """

    def __init__(self, times: np.ndarray, moves: np.ndarray, plan, max_steps: int):
        self.times, self.end, self.max_steps = times, times[-1], max_steps
        self.smallest = SMALLEST_STEP * self.end
        self.t, self.failed = np.zeros_like(self.end), np.zeros_like(moves)
        self.tries = np.zeros(len(moves), int)
        self.moves, self.plan = moves & (self.end > 0), plan
        self.lengths = plan_steps(plan and plan.taken, self.end)
        self.marks = self.lengths.cumsum(0)
        self.h = np.where(self.moves, self.lengths[0] if len(self.lengths) else 0, 0)
        self.cold = self.moves & (self.h == 0)
        self.careful = ~(self.moves & ~self.cold)  # clocks without a plan, or who left it
        self.tape: list[tuple] = []  # of every pass: t before, h, error, t after

    def begin(self, h) -> None:
        """Give the clocks that have no plan their first step."""
        self.h = np.where(self.cold, np.maximum(h, self.smallest), self.h)

    def drop(self, clocks) -> None:
        """Take clocks out: they failed."""
        if not clocks.any():
            return
        self.failed = self.failed | clocks & self.moves
        self.moves = self.moves & ~clocks
        self.cold, self.h = self.cold & self.moves, np.where(self.moves, self.h, 0)
        self.lengths = np.where(self.moves, self.lengths, 0)

    def advance(self, error: np.ndarray):
        """Accept or reject the steps tried, and choose the next -> rejected: (clock,), or None.

        error: (clock,), as a multiple of what the tolerances allow.
        """
        h, t, accepted = self.h, self.t, error <= 1
        everyone = accepted.all()
        self.t = t + h if everyone else np.where(accepted, t + h, t)
        self.tape.append((t, h, error, self.t))
        self.tries += h > 0
        n, rejected = len(self.tape), None if everyone else ~accepted
        planned = self.lengths[n] if n < len(self.lengths) else 0 * h
        going = self.moves & (self.t < self.end)
        if not everyone or n >= len(self.lengths):
            self.careful = self.careful | ~accepted | (planned == 0)
        if (self.careful & going).any() or n >= self.max_steps:
            planned = np.where(self.careful, self._allowed(h, error), planned)
            lost = going & (~accepted & (h <= self.smallest) | (n >= self.max_steps))
            self.drop(lost)
            going = going & ~lost
        self.h = np.where(going, planned, 0)
        return rejected

    def _allowed(self, h, error):
        """How far the last error lets a clock go, but not beyond the next mark of its plan."""
        allowed = np.maximum(h * step_factor(error), self.smallest)
        if not len(self.marks):
            return allowed
        reached = np.minimum((self.marks <= self.t * (1 + 1e-12)).sum(0), len(self.marks) - 1)
        left = self.marks[reached, np.arange(len(h))] - self.t
        return np.where(left > 0, np.minimum(allowed, left), allowed)

    def due(self, first: int) -> tuple:
        """The outputs that fell due in the passes from `first` on.

        -> (slice of times; due: (time, clock), in which pass, counted from first; the share
        theta of its step, and h)
        """
        t, h, _, after = (np.stack(column) for column in zip(*self.tape[first:]))
        rows = np.flatnonzero(((self.times > t[0]) & (self.times <= after[-1])).any(1))
        some = slice(rows[0], rows[-1] + 1) if len(rows) else slice(0, 0)
        times = self.times[some]
        due = (times > t[0]) & (times <= after[-1])
        which = np.where(due, (after[:, None] < times).sum(0), 0)
        t, h = (np.take_along_axis(values, which, 0) for values in (t, h))
        theta = np.where(due, times - t, 0) / np.where(h > 0, h, 1)
        return some, due, which, theta, h * due

    def few(self, which: np.ndarray) -> "Clocks":
        """These clocks from here on, on a tape of their own."""
        few, done = copy.copy(self), len(self.tape)
        few.lengths, few.max_steps, few.tape = self.lengths[done:], self.max_steps - done, []
        for name, values in vars(few).items():
            if isinstance(values, np.ndarray):
                setattr(few, name, values[..., which])
        return few

    def join(self, few: "Clocks", which: np.ndarray) -> None:
        """Take over what became of a few of the clocks, and their steps for the plan."""
        for name in ("t", "h", "tries", "moves", "cold", "failed"):
            values = getattr(self, name).copy()
            values[which] = getattr(few, name)
            setattr(self, name, values)
        for row in few.tape:
            wide = np.zeros((len(row), len(self.end)))
            wide[:, which] = row
            self.tape.append(tuple(wide))

    def close(self) -> np.ndarray:
        """Leave the plan for the next solve -> evaluations of each clock: (clock,)."""
        if self.plan is not None and self.tape:
            _, h, error, _ = (np.stack(column) for column in zip(*self.tape))
            good = (error <= 1) & (h > 0)
            self.plan.taken = np.where(good, h, 0), np.where(good, error, 0)
        return np.where(self.moves | self.failed, 1 + self.cold + 6 * self.tries, 0)
