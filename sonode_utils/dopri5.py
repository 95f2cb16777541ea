"""Dormand and Prince's method for an ensemble: one step size, one error for each member.

The method is torchdiffeq's `dopri5` to the letter: its tableau, first step, step-size
rule and interpolant (a test holds the two together, evaluation for evaluation). Two things
differ, and both only matter for ensembles. The error is measured member by member and
the worst one rules, so nobody is solved less accurately than alone. And the seven
stages of a step lie one after the other in memory, so that every combination of them,
output times included, is one matrix product forwards and one backwards.
"""

import torch
from torchdiffeq._impl.dopri5 import _DORMAND_PRINCE_SHAMPINE_TABLEAU as TABLEAU
from torchdiffeq._impl.dopri5 import DPS_C_MID
from torchdiffeq._impl.misc import _select_initial_step

SMALLEST_STEP = 1e-9  # as a share of the interval: below it, a member has blown up


FIRST, LAST = torch.eye(7, dtype=torch.float64)[[0, -1]]
END, MIDDLE = TABLEAU.c_sol, DPS_C_MID
QUARTIC = torch.stack([
    FIRST,
    LAST - 4 * FIRST - 5 * END + 16 * MIDDLE,
    5 * FIRST - 3 * LAST + 14 * END - 32 * MIDDLE,
    2 * (LAST - FIRST) - 8 * END + 16 * MIDDLE,
])  # fmt: skip


def dopri5(guard, z0, times, rtol, atol, max_steps):
    """z0: (member, batch, feature); times: (time,), increasing -> (time, *z0.shape).

    guard: the field, as `solve.Guard`: it holds still the members that are out.
    """
    z, t = z0, float(times[0])
    f = guard(times[0], z)
    guard.drop(~(z + f).detach().isfinite().all(-1).all(-1))
    smallest = SMALLEST_STEP * float(times[-1] - times[0])
    h = _first_step(guard, times[0], z, rtol, atol, f)
    trajectory, steps = [z[None]], 0
    clock = times.tolist()
    while len(clock) > 1:
        h, steps = max(h, smallest), steps + 1
        z_next, stages, k = _step(guard, t, z, f, h)
        errors = _errors(guard, z, z_next, k, h, rtol, atol)
        worst = float(errors.max())
        if worst > 1 and (h <= smallest or steps > max_steps):
            guard.drop(errors == worst)
            f, steps, worst = torch.where(guard.alive[:, None, None], f, 0), 0, 0.0
        elif worst <= 1:
            due = [s for s in clock[1:] if s <= t + h]
            if due:
                weights = _interpolant([(s - t) / h for s in due], h).to(z)
                trajectory.append(Combine.apply(z, k, weights, *stages))
                clock = clock[len(due) :]
            t, z, f = t + h, z_next, stages[-1]
        h *= _growth(worst)
    return torch.cat(trajectory)


def _first_step(guard, t, z, rtol, atol, f):
    with torch.no_grad():
        return float(_select_initial_step(guard, t, z, 4, rtol, atol, guard.norm, f0=f))


def _step(guard, t, z, f, h):
    """One step of size h: the end point, its seven stages, and the same as one tensor."""
    stages, k = [f], z.new_empty(7, *z.shape)
    k[0] = f.detach()
    for i, (alpha, beta) in enumerate(zip(TABLEAU.alpha.tolist(), TABLEAU.beta)):
        z_i = Combine.apply(z, k, (h * beta).to(z)[None], *stages)[0]
        stages.append(guard(z.new_tensor(t + alpha * h), z_i))
        k[i + 1] = stages[-1].detach()
    return z_i, stages, k  # the last stage is evaluated at the end point


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


class Combine(torch.autograd.Function):
    """z + weights @ stages, once for each row of weights.

    z: (*shape); k: (7, *shape), filled with the stages; weights: (m, n); stages: n of
    (*shape), the same numbers, for autograd to see -> (m, *shape)
    """

    @staticmethod
    def forward(ctx, z, k, weights, *stages):
        ctx.weights = weights
        n = len(stages)
        return z + (weights @ k[:n].flatten(1)).view(-1, *z.shape)

    @staticmethod
    def backward(ctx, grad):
        to_stages = (ctx.weights.t() @ grad.flatten(1)).view(-1, *grad.shape[1:])
        return grad.sum(0), None, None, *to_stages.unbind(0)
