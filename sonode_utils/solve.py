"""Solving many members' ODEs in one call, and telling the model's error from the solver's.

torchdiffeq does the solving: any of its methods by name, and for `dopri5`, the book's
workhorse, the same method laid out for ensembles (`dopri5.py`).
"""

from typing import NamedTuple

import torch
from torchdiffeq import odeint

from sonode_utils.dopri5 import Solve, dopri5


class Plan(list):
    """The steps (length, error) that `dopri5` took last, for it to plan the next ones by."""

    def __deepcopy__(self, memo):
        return None  # the copy of a model in training is a model that starts anew


class Solution(NamedTuple):
    """z: (time, member, batch, feature), NaN for the members in `failed`: (member,)."""

    z: torch.Tensor
    nfe: int
    failed: torch.Tensor


def integrate(
    field, z0, times, *, method="dopri5", rtol=1e-3, atol=1e-3, alive=None, features=None,
    fused=None, plan=None, max_steps=5000, **options,
):  # fmt: skip
    """Solve z' = field(t, z) for all members at once.

    The adaptive step is small enough for the member that needs the smallest one: no
    member is solved less accurately than it would be alone. A member whose solution
    blows up or needs ever smaller steps is taken out, reported in `failed` and returned
    as NaN; the others go on. Times may run backwards.

    z0: (member, batch, feature); times: (time,); alive: (member,), False = do not move;
    features: (member,), how many features are real where members are padded; fused: () ->
    the same field as an `ensemble.Fused`, to be solved without a graph, or None;
    plan: a `Plan`, from earlier solutions of much the same field; without one `dopri5` begins
    as the library does, with steps that are shorter than they need be.
    """
    _check(z0, times)
    times = times.to(z0)
    if times[0] > times[-1]:
        field, times, fused = _reversed(field), -times, None
    guard = Guard(field, z0, alive, features, plan)
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


def reversal_error(field, z0, times, **solver):
    """Largest relative error of integrating z0 forward over `times` and back again.

    A flow is invertible, so whatever does not come back was made by the solver, not by
    the model. z0: (member, batch, feature) -> (member,)
    """
    with torch.no_grad():
        end = integrate(field, z0, times, **solver).z[-1]
        back = integrate(field, end, times.flip(0), **solver).z[-1]
    size = z0.square().mean((1, 2)).sqrt()
    return (back - z0).square().mean((1, 2)).sqrt() / size


class Guard:
    """Counts evaluations, holds still the members that are out, and norms the rest."""

    def __init__(self, field, z0, alive, features, plan=None):
        self.field, self.nfe, self.plan = field, 0, plan
        everyone = torch.ones(z0.shape[0], dtype=torch.bool, device=z0.device)
        self.alive = everyone if alive is None else alive.to(z0.device, copy=True)
        self.failed = torch.zeros_like(everyone)
        self.mask = self._mask()
        width = z0.shape[-1] * everyone if features is None else features.to(z0.device)
        self.size = (z0.shape[1] * width).to(z0.dtype)
        self.errors = self.size * 0  # of the last step tried

    def __call__(self, t, z, perturb=None):
        self.nfe += 1
        dz = self.field(t, z)
        if dz.shape != z.shape:
            raise ValueError(f"field returns {tuple(dz.shape)} where z is {tuple(z.shape)}")
        return dz if self.mask is None else torch.where(self.mask, dz, 0)

    def into(self, out, t, z):
        """The same, written to `out`: directly, where the field can do that."""
        if not hasattr(self.field, "into") or self.mask is not None:
            return out.copy_(self(t, z))
        self.nfe += 1
        return self.field.into(out, t, z)

    def _mask(self):
        """(member, 1, 1), True where a member may move; None if all may."""
        return None if self.alive.all() else self.alive[:, None, None]

    def per_member(self, z):
        """Root mean square over what each member really has: (member,)."""
        ratio = (z.square().sum((1, 2)) / self.size).sqrt()
        return torch.where(self.alive, ratio, 0).nan_to_num(torch.inf, torch.inf)

    def norm(self, z):
        errors = self.per_member(z)
        self.errors = errors.detach()
        return errors.max()

    def drop(self, members):
        """Take members out (never in place: the graph remembers the old masks)."""
        if members.any():
            self.alive = self.alive & ~members
            self.failed = self.failed | members
            self.mask = self._mask()
