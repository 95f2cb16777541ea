"""Solving many members' ODEs in one call, and telling the model's error from the solver's."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sonode_utils.ensemble import check_input, exactly_known
from sonode_utils.solvers.clocks import StepPlan
from sonode_utils.solvers.dopri5 import dopri5
from sonode_utils.solvers.library import solve_by_library

TIGHT = {"rtol": 1e-8, "atol": 1e-8}  # tolerances at which headline values are quoted


class Solution(NamedTuple):
    """z: (time, member, batch, feature), NaN for the members in `failed`: (member,);
    nfe: (member,), evaluations of the field that each member needed."""

    z: Tensor
    nfe: Tensor
    failed: Tensor


def integrate(
    field: Callable, z0: Tensor, times: Tensor, *, method: str = "dopri5",
    rtol: float = 1e-3, atol: float = 1e-3, alive: Tensor | None = None,
    features: Tensor | None = None, network=None, plan: StepPlan | None = None,
    max_steps: int = 5000, **options,
) -> Solution:  # fmt: skip
    """Solve z' = field(t, z) for all members at once, each with steps of its own.

    With `dopri5` (solvers/dopri5.py) every member has its own clock: it is solved with the
    steps, and to the bits, that it would have alone. field gets its time as t: (member, 1, 1).
    Other methods are torchdiffeq's, by name, with one step and one scalar t for all. A member
    whose solution blows up or needs too many or too small steps is taken out, reported in
    `failed` and returned as NaN; the others go on. Times may run backwards.

    z0: (member, batch, feature), in single or double precision; times: (time,), or (time,
    member) where members are observed at times of their own, or (time, member, batch): then
    each row has its own clock, field gets t: (member, batch, 1), and runs of different
    length share one solve (repeat the last time of the shorter ones). All begin together.
    alive: (member,), False = do not move; features: (member,), how many features are real
    where members are padded; network: the `EnsembleMLP` that field is made of (the state
    without its first d features, then the d outputs), to be solved without a graph;
    plan: a `StepPlan`, from earlier solutions of much the same field; without one `dopri5`
    begins as the library does, with steps that are shorter than they need be.
    """
    _check(z0, times, rtol, atol)
    if network is not None:
        check_input(z0, network.layers[0].weight)
    alive = _per_member("alive", alive, True, len(z0))
    features = _per_member("features", features, z0.shape[-1], len(z0))
    clocks = times.detach().double().cpu().reshape(*times.shape, *[1] * (3 - times.dim()))
    if clocks[-1, 0, 0] < clocks[0, 0, 0]:
        field, clocks, network = (lambda t, z, f=field: -f(-t, z)), -clocks, None
    if method == "dopri5":
        if options:
            raise TypeError(f"dopri5 accepts rtol, atol, max_steps, not {', '.join(options)}")
        z, counts, out = dopri5(
            field, z0, (clocks - clocks[0]).expand(-1, len(z0), -1).numpy(),
            begin=clocks[0, 0, 0].item(), rtol=rtol, atol=atol, moves=alive.numpy(),
            size=(features * (z0.shape[1] // clocks.shape[2])).numpy(),
            network=network if exactly_known(network) else None, plan=plan, max_steps=max_steps,
        )  # fmt: skip
        nfe, failed = torch.from_numpy(counts.max(1)), torch.from_numpy(out.any(1))
    else:
        if times.dim() > 1:
            raise ValueError(f"times must be (time,) for {method}: only dopri5 has own clocks")
        z, count, failed = solve_by_library(
            field, z0, clocks[:, 0, 0], alive, features,
            method=method, rtol=rtol, atol=atol, options=options,
        )  # fmt: skip
        nfe = torch.full((len(z0),), count)
    failed = failed.to(z.device) | ~z.detach().isfinite().all(-1).all(-1).all(0)
    if failed.any():
        z = torch.where(failed[:, None, None], torch.nan, z)
    return Solution(z, nfe, failed)


def _check(z0, times, rtol, atol):
    if z0.dim() != 3:
        raise ValueError(f"z0 must be (member, batch, feature), not {tuple(z0.shape)}")
    if z0.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"z0 must be float32 or float64, not {z0.dtype}")
    if times.requires_grad:
        raise ValueError("times must not require a gradient: none is computed for them")
    if times.shape[1:] != z0.shape[:2][: times.dim() - 1] or len(times) < 2:
        raise ValueError(
            f"times must be (time,), (time, {len(z0)}) or (time, {len(z0)}, {z0.shape[1]}), "
            f"two or more, not {tuple(times.shape)}"
        )
    steps = times.diff(dim=0)
    if times.dim() == 1 and not ((steps > 0).all() or (steps < 0).all()):
        raise ValueError("times must strictly increase, or strictly decrease")
    if times.dim() > 1 and not (steps.isfinite().all() and (steps >= 0).all()):
        raise ValueError("times of members and rows must not decrease")
    if times.dim() > 1 and not (times[0] == times[0].flatten()[0]).all():
        raise ValueError("times must begin together: shift each row by its own start")
    if not (rtol >= 0 and atol >= 0 and 0 < rtol + atol < torch.inf):
        raise ValueError(f"rtol, atol must be finite, >= 0, not both 0; not {rtol}, {atol}")


def _per_member(name, values, default, members):
    if values is None:
        return torch.full((members,), default)
    if values.shape != (members,):
        raise ValueError(f"{name} must be (member,) = ({members},), not {tuple(values.shape)}")
    return values.detach().cpu()


@torch.no_grad()
def reversal_error(field: Callable, z0: Tensor, times: Tensor, **solver) -> Tensor:
    """Largest relative error of integrating z0 forward over `times` and back again.

    A flow is invertible, so whatever does not come back was made by the solver, not by
    the model. z0: (member, batch, feature) -> (member,)
    """
    end = integrate(field, z0, times, **solver).z[-1]
    back = integrate(field, end, times.flip(0), **solver).z[-1]
    size = z0.square().mean((1, 2)).sqrt()
    return (back - z0).square().mean((1, 2)).sqrt() / size
