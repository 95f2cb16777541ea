"""Solving many members' ODEs in one call, and telling the model's error from the solver's.

torchdiffeq does the solving: any of its methods by name, and for `dopri5`, the book's
workhorse, the same method laid out for ensembles (`solvers/dopri5.py`).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torchdiffeq import odeint

from sonode_utils.solvers.dopri5 import Solve, dopri5
from sonode_utils.solvers.fields import MemberField, StepPlan

TIGHT = {"rtol": 1e-8, "atol": 1e-8}  # tolerances at which headline values are quoted


class Solution(NamedTuple):
    """z: (time, member, batch, feature), NaN for the members in `failed`: (member,)."""

    z: Tensor
    nfe: int
    failed: Tensor


def integrate(
    field: Callable, z0: Tensor, times: Tensor, *, method: str = "dopri5",
    rtol: float = 1e-3, atol: float = 1e-3, alive: Tensor | None = None,
    features: Tensor | None = None, fused: Callable | None = None,
    plan: StepPlan | None = None, max_steps: int = 5000, **options,
) -> Solution:  # fmt: skip
    """Solve z' = field(t, z) for all members at once.

    The adaptive step is small enough for the member that needs the smallest one: no
    member is solved less accurately than it would be alone. A member whose solution
    blows up or needs ever smaller steps is taken out, reported in `failed` and returned
    as NaN; the others go on. Times may run backwards.

    z0: (member, batch, feature); times: (time,); alive: (member,), False = do not move;
    features: (member,), how many features are real where members are padded; fused: () ->
    the same field as a `FusedMLP`, to be solved without a graph, or None;
    plan: a `StepPlan`, from earlier solutions of much the same field; without one `dopri5`
    begins as the library does, with steps that are shorter than they need be.
    """
    _check(z0, times)
    times = times.to(z0)
    if times[0] > times[-1]:
        field, times, fused = _reversed(field), -times, None
    guard = MemberField(field, z0, alive, features, plan)
    without_graph = fused() if fused and method == "dopri5" else None
    if without_graph is not None:
        z = _without_graph(guard, without_graph, z0, times, rtol, atol, max_steps)
    elif method == "dopri5":
        z = dopri5(guard, z0, times, rtol, atol, max_steps)
    else:
        options = {"norm": guard.norm, **options}
        z = _library(guard, z0, times, rtol=rtol, atol=atol, method=method, options=options)
    failed = ~z.isfinite().all(-1).all(-1).all(0) | guard.failed
    if failed.any():
        z = torch.where(failed[:, None, None], torch.nan, z)
    return Solution(z, guard.nfe, failed)


def _without_graph(guard, fused, z0, times, *options):
    guard.field = fused
    if torch.is_grad_enabled():
        return Solve.apply(guard, z0, times, *options, *fused.parameters)
    return dopri5(guard, z0.transpose(1, 2).contiguous(), times, *options).transpose(2, 3)


def _library(guard, z0, times, **solver):
    """torchdiffeq's own solve, begun again without the member that broke it off."""
    while True:
        try:
            begin = torch.where(guard.failed[:, None, None], 0, z0)
            return odeint(guard, begin, times, **solver)
        except AssertionError:  # a step size that underflows, or a state that is not finite
            worst = guard.alive & (guard.errors == guard.errors.max())
            if guard.errors.max() <= 1 or not worst.any():
                raise
            guard.drop(worst)


def _check(z0, times):
    if z0.dim() != 3:
        raise ValueError(f"z0 must be (member, batch, feature), not {tuple(z0.shape)}")
    if times.dim() != 1 or len(times) < 2:
        raise ValueError(f"times must be (time,) with two or more, not {tuple(times.shape)}")
    steps = times.diff()
    if not ((steps > 0).all() or (steps < 0).all()):
        raise ValueError("times must strictly increase, or strictly decrease")


def _reversed(field):
    return lambda t, z: -field(-t, z)


def reversal_error(field: Callable, z0: Tensor, times: Tensor, **solver) -> Tensor:
    """Largest relative error of integrating z0 forward over `times` and back again.

    A flow is invertible, so whatever does not come back was made by the solver, not by
    the model. z0: (member, batch, feature) -> (member,)
    """
    with torch.no_grad():
        end = integrate(field, z0, times, **solver).z[-1]
        back = integrate(field, end, times.flip(0), **solver).z[-1]
    size = z0.square().mean((1, 2)).sqrt()
    return (back - z0).square().mean((1, 2)).sqrt() / size
