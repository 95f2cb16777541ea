"""Solving an ODE with a sampled input over all samples at once.

A Runge-Kutta step takes the state at one sample to the next, z[n+1] = F(z[n], u[n]). These N
equations are solved together by Newton's method: with A[n] = dF/dz at the last guess, the next
one obeys

    z[n+1] = F(guess[n], u[n]) + A[n] (z[n] - guess[n]),

a *linear* recurrence, which `scan.py` solves in log2(N) long operations in place of N short
ones. The gradient is exact for the discrete problem; second derivatives are refused.

`field(z, u)` gives dz/dt for all samples together, of z: (feature, time, member) and
u: (channel, time, member or 1), and must treat every (time, member) on its own. If it has
`push(z, tangents)` too, its Jacobian times given columns, that is faster.

Every member decides for itself: once its Newton step is small it stands still. A member that
is not solved within `most` steps is stepped through sample by sample, which is slow and always
works (`stepped`). If its solution is not finite it comes back as NaN (`failed`), and the others
never notice. `fallback="drop"` calls such members failed at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sonode_utils.solvers.scan import ConstantRecurrence, Recurrence


class SampledSolution(NamedTuple):
    """z: (feature, sample, member), NaN where `failed`; newton: its own steps; nfe: its
    evaluations of the field, for all samples each; stepped, failed: all (member,)."""

    z: Tensor
    newton: Tensor
    nfe: Tensor
    stepped: Tensor
    failed: Tensor


def input_at_stages(u: Tensor, substeps: int = 2, slope: bool = False) -> Tensor:
    """A sampled input at the times a Runge-Kutta step looks at, linear between samples.

    u: (channel, sample) or (channel, sample, member); slope: append du/dt (for dt = 1) as
    further channels -> (2 substeps + 1, channel, sample - 1, member or 1), of which
    entry j is the time j / (2 substeps) into each interval.
    """
    u = torch.atleast_3d(u)
    share, du = torch.linspace(0, 1, 2 * substeps + 1, dtype=u.dtype), u.diff(dim=1)
    inside = u[:, :-1] + share[:, None, None, None] * du
    return torch.cat([inside, du.expand_as(inside)], 1) if slope else inside


def input_from_fine_grid(u: Tensor, substeps: int = 2) -> Tensor:
    """Stage values of an input that is already known at every stage time.

    u: (channel, 2 substeps (samples - 1) + 1[, member]) -> as `input_at_stages`.
    """
    u = torch.atleast_3d(u)
    if (u.shape[1] - 1) % (2 * substeps):
        raise ValueError(f"{u.shape[1]} times are not {2 * substeps} per sample and one more")
    return u.unfold(1, 2 * substeps + 1, 2 * substeps).permute(3, 0, 1, 2).contiguous()


def by_member(f: Callable) -> Callable:
    """A field from networks f: (member, batch, d + channels) -> (member, batch, d)."""

    def field(z, u):
        inputs = torch.cat([z, u.expand(-1, -1, z.shape[-1])])
        return f(inputs.permute(2, 1, 0)).permute(2, 1, 0)

    return field


def solve_parallel(
    field: Callable, z0: Tensor, u: Tensor, *, dt: float = 1.0, guess: Tensor | None = None,
    alive: Tensor | None = None, tol: float | None = None, most: int = 20,
    fallback: str = "step",
) -> SampledSolution:  # fmt: skip
    """Solve z' = field(z, u) from z0 at every sample, as the text above explains.

    z0: (feature, member); u: from `input_at_stages` or `input_from_fine_grid`; guess:
    (feature, sample, member), in training the last solution; alive: (member,), False = held
    at z0; tol: the last Newton step's size, relative to the member's largest state (1e-4, or
    1e-9 in double precision; that step still counts, so the error left is about its square).
    """
    if fallback not in ("step", "drop"):
        raise ValueError(f"fallback accepts 'step' or 'drop', not {fallback!r}")
    tol = (1e-9 if z0.dtype == torch.float64 else 1e-4) if tol is None else tol
    if not (tol > 0 and most >= 1):
        raise ValueError(f"tol accepts numbers above 0, most from 1; not {tol} and {most}")
    going = alive = _check(z0, u, alive, guess)
    z = begin = z0.detach()[:, None].expand(-1, u.shape[2] + 1, -1)
    if guess is not None:
        z = torch.where(alive & _finite(guess), guess.detach(), begin)
    newton, unsolved, failed = 0 * alive, alive, alive & False
    for _ in range(most):
        new, size = _newton(field, z0, z, u, dt, alive)
        newton += going
        unsolved = unsolved & ~(going & (size <= tol))
        going = going & (size > tol) & size.isfinite()
        if not going.any():
            break
        z = torch.where(going, new.detach(), z)  # whoever is done repeats its last step
    if unsolved.any():
        path = _stepped(field, begin, u, dt, unsolved) if fallback == "step" else torch.nan
        z = torch.where(unsolved, path, z)
        failed = unsolved & ~_finite(z)
        new, _ = _newton(field, z0, torch.where(failed, begin, z), u, dt, alive & ~failed)
        failed = failed | unsolved & ~_finite(new)
        new = torch.where(failed, torch.nan, new)
    return SampledSolution(new, newton, 2 * (len(u) - 1) * newton, unsolved, failed)


def affine(
    field: Callable, z0: Tensor, u: Tensor, *, dt: float = 1.0, alive: Tensor | None = None
) -> SampledSolution:
    """`solve_parallel` for a field that is affine in z: z[n+1] = A z[n] + b[n], A for all n.

    Nothing to guess, and a cheaper scan. A field that is not affine, or whose A changes with
    u, is refused.
    """
    (d, members), alive = z0.shape, _check(z0, u, alive)
    probes = torch.eye(d, d + 3, dtype=z0.dtype)  # unit vectors and the origin at u = 0, then
    probes[:, -1] = 2  # the origin and a point away from it at u = 1, which A must take there
    driven = (torch.arange(d + 3) > d).to(u)[:, None] * torch.ones_like(u[:, :, :1])
    at = step(field, probes[..., None].expand(-1, -1, members), driven, dt)
    A = at[:, :d] - at[:, d, None]
    gap = (at[:, -1] - at[:, -2] - 2 * A.sum(1)).detach().abs()
    if (gap > torch.finfo(at.dtype).eps ** 0.5 * at.detach().abs().sum((0, 1))).any():
        raise ValueError("field is not affine in z with one A for all u: use solve_parallel")
    b = step(field, z0.new_zeros(d, u.shape[2], members), u, dt)
    A = torch.where(alive, A, torch.eye(d, dtype=z0.dtype)[..., None])
    z = ConstantRecurrence.apply(A, torch.where(alive, b, 0), z0)
    failed = ~_finite(z)
    z = torch.where(failed, torch.nan, z) if failed.any() else z
    return SampledSolution(z, 1 * alive, 2 * (len(u) - 1) * alive, alive & False, failed)


def _check(z0, u, alive, guess=None):
    """Say which argument is wrong; alive: (member,), all if None."""
    members, whole = z0.shape[-1], (len(z0), u.shape[-2] + 1, z0.shape[-1])
    alive = torch.ones(members, dtype=torch.bool) if alive is None else alive
    staged = u.dim() == 4 and u.shape[3] in (1, members) and len(u) > 2 and len(u) % 2
    flags = alive.shape == (members,) and alive.dtype == torch.bool
    fits = guess is None or (guess.shape == whole and guess.dtype == z0.dtype)
    for name, given, right, wanted in (
        ("z0", z0, z0.dim() == 2 and z0.is_floating_point(), "floats (feature, member)"),
        ("u", u, staged, f"(2 substeps + 1, channel, interval, 1 or {members})"),
        ("u", u, u.dtype == z0.dtype, f"{z0.dtype}, as z0 is"),
        ("alive", alive, flags, f"({members},) of bool"),
        ("guess", guess, fits, f"{z0.dtype} {whole}"),
    ):
        if not right:
            raise ValueError(f"{name} accepts {wanted}, not {given.dtype} {(*given.shape,)}")
    return alive


def step(field: Callable, z: Tensor, u: Tensor, dt: float = 1.0) -> Tensor:
    """One sample ahead by Runge-Kutta 4, in (len(u) - 1) / 2 substeps; z as for `field`."""
    h = dt / ((len(u) - 1) // 2)
    for s in range(0, len(u) - 1, 2):
        k1 = field(z, u[s])
        k2 = field(torch.add(z, k1, alpha=h / 2), u[s + 1])
        k3 = field(torch.add(z, k2, alpha=h / 2), u[s + 1])
        k4 = field(torch.add(z, k3, alpha=h), u[s + 2])
        z = torch.add(z, torch.add(k1 + k4, k2 + k3, alpha=2), alpha=h / 6)
    return z


def _newton(field, z0, z, u, dt, alive):
    """One Newton step from the guess z, and each member's relative change: (member,)."""
    F, A = linearise(field, z[:, :-1], u, dt)
    if not alive.all():
        F, A = torch.where(alive, F, z0[:, None]), torch.where(alive, A, 0)
    new = Recurrence.apply(A, F, z[:, :-1], z0)
    with torch.no_grad():
        change, largest = (v.abs().amax(0).amax(0) for v in (new - z, new))
        return new, change / largest.clamp_min(torch.finfo(z.dtype).tiny)


def linearise(field: Callable, z: Tensor, u: Tensor, dt: float) -> tuple[Tensor, Tensor]:
    """F(z) (with its graph) and the Jacobian dF/dz at each sample.

    z: (feature, time, member) -> the same, (feature, feature, time, member). That is a
    reverse pass for each row, unless the field can `push` tangents itself.
    """
    z, record, stages = z.detach(), torch.is_grad_enabled(), []
    unit = torch.eye(len(z), dtype=z.dtype)[:, :, None, None].expand(-1, -1, *z.shape[1:])
    if hasattr(field, "push"):

        def noted(z, u):
            stages.append(z.detach())
            return field(z, u)

        F, at = step(noted, z, u, dt), iter(stages)
        return F, step(lambda tangents, u: field.push(next(at), tangents), unit, u, dt)
    with torch.enable_grad():
        F = step(field, z.requires_grad_(), u, dt)
        A = [torch.autograd.grad(F, z, row, retain_graph=True)[0] for row in unit]
    return F if record else F.detach(), torch.stack(A)


@torch.no_grad()
def _stepped(field, begin, u, dt, members):
    """The trajectories sample by sample, until none of these members is finite."""
    path = torch.full_like(begin, torch.nan)
    path[:, 0] = begin[:, 0]
    for n in range(u.shape[2]):
        path[:, n + 1] = step(field, path[:, n : n + 1], u[:, :, n : n + 1], dt)[:, 0]
        if n % 50 == 0 and not path[:, n + 1, members].isfinite().all(0).any():
            break
    return path


def _finite(z):
    return z.detach().isfinite().all(0).all(0)  # (member,)
