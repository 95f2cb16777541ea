"""Dormand and Prince's method for an ensemble: one step size, one error for each member.

The method is torchdiffeq's `dopri5` to the letter: its tableau, first step, step-size
rule and interpolant (a test holds the two together, evaluation for evaluation). Two things
differ, and both only matter for ensembles. The error is measured member by member and
the worst one rules, so nobody is solved less accurately than alone. And the seven
stages of a step lie one after the other in memory, so that every combination of them,
output times included, is one matrix product forwards and one backwards.

A field that knows its own derivative (`FusedMLP`) needs no graph: `Solve` goes back
over the accepted steps with the transposed tableau, and finds the gradient that
backpropagation through them finds.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch.autograd.function import once_differentiable
from torchdiffeq._impl.dopri5 import _DORMAND_PRINCE_SHAMPINE_TABLEAU as TABLEAU
from torchdiffeq._impl.dopri5 import DPS_C_MID
from torchdiffeq._impl.misc import _select_initial_step

SMALLEST_STEP = 1e-9  # as a share of the interval: below it, a member has blown up

ALPHA = torch.cat([torch.zeros(1, dtype=torch.float64), TABLEAU.alpha])
BETA = torch.zeros(7, 7, dtype=torch.float64)  # stage i is f at z + h BETA[i] @ stages
for i, row in enumerate(TABLEAU.beta, start=1):
    BETA[i, :i] = row
FROM_HERE = torch.eye(8, dtype=torch.float64)[:1]
BETA_Z = torch.nn.functional.pad(BETA, (1, 0))  # and z before the stages

FIRST, LAST = torch.eye(7, dtype=torch.float64)[[0, -1]]
END, MIDDLE = TABLEAU.c_sol, DPS_C_MID
QUARTIC = torch.stack([
    FIRST,
    LAST - 4 * FIRST - 5 * END + 16 * MIDDLE,
    5 * FIRST - 3 * LAST + 14 * END - 32 * MIDDLE,
    2 * (LAST - FIRST) - 8 * END + 16 * MIDDLE,
])  # fmt: skip


class Step(NamedTuple):
    """An accepted step, as `Solve` goes back over it."""

    h: float
    mask: torch.Tensor | None  # as `fields.MemberField` had it
    weights: torch.Tensor | None  # of the stages in the outputs that fell due: (time, 7)
    kept: list  # what the field kept of the evaluations for stages 1 to 6


def dopri5(guard, z0, times, rtol, atol, max_steps, tape=None) -> torch.Tensor:
    """z0: (member, batch, feature); times: (time,), increasing -> (time, *z0.shape).

    guard: the field, as `fields.MemberField`: it holds still the members that are out, and may
    have a plan from solves like this one.
    tape: a list to write the accepted steps on, where `Solve` is to go back over them.
    """
    z, t = z0, float(times[0])
    f = guard(times[0], z)
    if tape is not None:
        tape.append(Step(0.0, guard.mask, None, guard.field.kept[-1:]))
    guard.drop(~(z + f).detach().isfinite().all(-1).all(-1))
    whole = float(times[-1] - times[0])
    lengths, taken = plan_steps(guard.plan, whole), []
    h = lengths.pop() if lengths else _first_step(guard, times[0], z, rtol, atol, f)
    trajectory, steps, k = [z[None]], 0, z.new_empty(8, *z.shape)
    clock, smallest = times.tolist(), SMALLEST_STEP * whole
    while len(clock) > 1:
        h, steps = max(h, smallest), steps + 1
        z_next, stages = _step(guard, t, z, f, h, k)
        errors = _errors(guard, z, z_next, k[1:], h, rtol, atol)
        worst = float(errors.max())
        if worst > 1:
            lengths = []
            if h <= smallest or steps > max_steps:
                guard.drop(errors == worst)
                f, steps, worst = torch.where(guard.alive[:, None, None], f, 0), 0, 0.0
        else:
            due = [s for s in clock[1:] if s <= t + h]
            weights = _interpolant([(s - t) / h for s in due], h).to(z)
            if due:
                trajectory.append(stage_sum(z, k[1:], weights, stages))
                clock = clock[len(due) :]
            if tape is not None:
                tape.append(Step(h, guard.mask, weights, guard.field.kept[-6:]))
                guard.field.kept.clear()
            taken.append((h, worst))
            t, z, f = t + h, z_next, stages[-1].clone()
        h = lengths.pop() if lengths else h * _growth(worst)
    if guard.plan is not None:
        guard.plan[:] = taken
    return torch.cat(trajectory)


def plan_steps(steps, whole: float) -> list[float]:
    """The lengths of the fewest steps that should do, the last one first.

    steps: the accepted (length, error) of a solve of much the same field, or nothing. Each
    says how long a step may be there; the new ones have equal shares of what is allowed.
    """
    if not steps:
        return []
    lengths, errors = zip(*steps)
    ends = np.cumsum([0, *lengths])
    needed = np.cumsum([0, *(1 / _growth(error) for error in errors)])  # steps, up to there
    total = np.interp(whole, ends, needed)
    marks = np.interp(np.linspace(0, total, math.ceil(total) + 1), needed, ends)
    return (np.diff(marks) * (1 + 1e-9)).tolist()[::-1]  # not short of the end by a rounding


def _first_step(guard, t, z, rtol, atol, f):
    with torch.no_grad():
        return float(_select_initial_step(guard, t, z, 4, rtol, atol, guard.norm, f0=f))


def _step(guard, t, z, f, h, k):
    """One step of size h: its end point and seven stages; k has z and them as one tensor."""
    stages, without_graph = [f], not torch.is_grad_enabled()
    k[0], k[1] = z.detach(), f.detach()
    flat, (_, _, *later) = k.flatten(1), k.unbind(0)
    _, *rows = (FROM_HERE + h * BETA_Z).to(z).split(1)
    _, *at = (t + h * ALPHA).to(z).unbind(0)
    for i, (row, now, k_i) in enumerate(zip(rows, at, later), start=2):
        if without_graph:  # z is one more row of k: no copy of it to add the product to
            z_i = torch.mm(row[:, :i], flat[:i]).view_as(z)
            stages.append(guard.into(k_i, now, z_i))
        else:
            z_i = stage_sum(z, k[1:], row[:, 1:i], stages)[0]
            stages.append(guard(now, z_i))
            k_i.copy_(stages[-1].detach())
    return z_i, stages  # the last stage is evaluated at the end point


@torch.no_grad()
def _errors(guard, z, z_next, k, h, rtol, atol):
    """Each member's error, as a multiple of what the tolerances allow: (member,)."""
    error = ((h * TABLEAU.c_error).to(z) @ k.flatten(1)).view_as(z)
    return guard.per_member(error / (atol + rtol * torch.maximum(z.abs(), z_next.abs())))


def _growth(error, safety=0.9, most=10.0, least=0.2, order=5):
    """The next step as a multiple of this one."""
    if error == 0:
        return most
    return min(most, max(safety * error ** (-1 / order), 1.0 if error < 1 else least))


def _interpolant(theta, h):
    """Weights of the stages in z(t + theta h) - z(t): (time, 7).

    torchdiffeq fits a quartic to both end points, both slopes and the mid point. All five
    are linear in the stages, so the fit is a fixed 4 x 7 matrix.
    """
    theta = torch.tensor(theta, dtype=torch.float64)[:, None]
    return h * (theta ** torch.arange(1, 5)) @ QUARTIC


def stage_sum(z, k, weights, stages) -> torch.Tensor:
    """z + weights @ stages, once for each row of weights.

    z: (*shape); k: (7, *shape), filled with the stages; weights: (m, n); stages: n of
    (*shape), the same numbers, for autograd to see -> (m, *shape)
    """
    if torch.is_grad_enabled():
        return Combine.apply(z, k, weights, *stages)
    return _combine(z, k, weights)


def _combine(z, k, weights):
    k = k[: weights.shape[1]].flatten(1)
    return torch.addmm(z.reshape(1, -1), weights, k).view(-1, *z.shape)


class Combine(torch.autograd.Function):
    """`stage_sum`, for autograd."""

    @staticmethod
    def forward(ctx, z, k, weights, *stages):
        ctx.weights = weights
        return _combine(z, k, weights)

    @staticmethod
    def backward(ctx, grad):
        to_stages = (ctx.weights.t() @ grad.flatten(1)).view(-1, *grad.shape[1:])
        return grad.sum(0), None, None, *to_stages.unbind(0)


class Solve(torch.autograd.Function):
    """`dopri5` for a `FusedMLP` field, and the exact gradient of the steps it took.

    z0: (member, batch, feature) -> (time, member, batch, feature); inside, feature first.
    parameters: those of the field, for autograd to see.
    """

    @staticmethod
    def forward(ctx, guard, z0, times, rtol, atol, max_steps, *parameters):
        ctx.field, ctx.tape = guard.field, []
        ctx.field.kept = []
        z0 = z0.transpose(1, 2).contiguous()
        z = dopri5(guard, z0, times, rtol, atol, max_steps, ctx.tape)
        return z.transpose(2, 3)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        grad = grad.transpose(2, 3).contiguous()
        to_z = to_f = torch.zeros_like(grad[0])
        ctx.field.zero_grad()
        begin, *steps = ctx.tape
        for step in reversed(steps):
            grad, due = grad.tensor_split([len(grad) - len(step.weights)])
            to_z, to_f = _back(ctx.field, step, due, to_z, to_f)
        to_z = to_z + grad[0] + _pull(ctx.field, begin, 0, to_f, torch.empty_like(to_f))
        return None, to_z.transpose(1, 2), None, None, None, None, *ctx.field.finish()


def _back(field, step, due, to_z, to_f):
    """From the gradients with respect to state and slope after a step to those before it.

    due: (time, *shape), the gradients with respect to the outputs that fell due in it.
    """
    m, n = len(due), len(due) + 6
    rows = due.new_empty(n, *to_z.shape)  # of the outputs, then of the points z_6, ..., z_1
    rows[:m] = due
    flat, points = rows.flatten(1), rows[m:].unbind(0)
    weights = torch.cat([step.weights, (step.h * BETA).to(due).flip(0)]).t().contiguous()
    first, *later = weights.split(1)  # a row for each stage, which the later points see
    for i in range(6, 0, -1):
        to_stage = torch.mm(later[i - 1][:, : n - i], flat[: n - i]).view_as(to_z)
        if i == 6:  # the next step begins with this stage, and its point
            _pull(field, step, 5, to_stage + to_f, points[0]).add_(to_z)
        else:
            _pull(field, step, i - 1, to_stage, points[6 - i])
    to_f = torch.mm(first[:, :n], flat).view_as(to_z)
    return rows.sum(0), _masked(step.mask, to_f)


def _pull(field, step, i, grad, out):
    """Back through evaluation i of a step, in which the members that are out stood still."""
    return field.pull(step.kept[i], _masked(step.mask, grad), out)


def _masked(mask, grad):
    return grad if mask is None else torch.where(mask, grad, 0)
