"""Solving an ODE with a sampled input over all samples at once.

A Runge-Kutta step takes the state at one sample to the next, z[n+1] = F(z[n], u[n]). Stepping
through N samples means N small operations that wait for each other. Here all N are unknowns
of one system of equations, z[n+1] - F(z[n], u[n]) = 0, solved by Newton's method: with the
Jacobians A[n] = dF/dz at the last guess, the next guess obeys

    z[n+1] = A[n] z[n] + b[n],    b[n] = F(z[n], u[n]) - A[n] z[n] at the last guess,

a *linear* recurrence. Two steps of it make one step of the same kind,

    z[n+2] = (A[n+1] A[n]) z[n] + (A[n+1] b[n] + b[n+1]),

so pairs are merged, and pairs of pairs: an associative scan, log2(N) long operations in
place of N short ones. Convergence is quadratic, a linear field is solved by one step, and in
training the last iteration's solution is a good guess. The gradient is exact for the
discrete problem: the adjoint of a linear recurrence is the same recurrence run backwards
with A transposed.

How to use it:

    u = input_at_stages(signal, substeps=2)       # signal: (channel, sample)
    z = solve_parallel(field, z0, u).z            # -> (feature, sample, member)
    z = solve_parallel(field, z0, u, guess=z).z   # next iteration: from the last solution

`field(z, u)` gives dz/dt and knows nothing of time or of neighbours: it is called once per
Runge-Kutta stage for all samples together, with z: (feature, time, member) and u: (channel,
time, member or 1), and must treat every (time, member) on its own. It may be any code that
autograd understands: rows times weights, cubes, or a network (`by_member`); if it also
has `push(z, tangents)`, its Jacobian times given columns, that is faster. Time is counted
in samples unless `dt` says otherwise. Features come first, members last: every operation
is then a long contiguous one.

Where the field is affine in z, A is one matrix for all samples and there is nothing to
guess: `affine` finds the same by a single, cheaper scan.

A member that Newton does not solve within `most` steps is stepped through sample by sample,
which is slow and always works (`stepped`). If its solution is not finite it has blown up: it
comes back as NaN (`failed`), and the others never notice. `fallback="drop"` calls such members
failed at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from sonode_utils.solvers.scan import ConstantRecurrence, Recurrence


class SampledSolution(NamedTuple):
    """z: (feature, sample, member), NaN where `failed`; newton: steps it took; nfe:
    evaluations of the field, for all samples each; stepped, failed: (member,)."""

    z: Tensor
    newton: int
    nfe: int
    stepped: Tensor
    failed: Tensor


def input_at_stages(u: Tensor, substeps: int = 2, slope: bool = False) -> Tensor:
    """A sampled input at the times a Runge-Kutta step looks at, linear between samples.

    u: (channel, sample) or (channel, sample, member); slope: append du/dt (for dt = 1) as
    further channels -> (2 substeps + 1, channel, sample - 1, member or 1), of which
    entry j is the time j / (2 substeps) into each interval.
    """
    u = u if u.dim() == 3 else u[..., None]
    share = torch.linspace(0, 1, 2 * substeps + 1, dtype=u.dtype)[:, None, None, None]
    inside = u[:, :-1] + share * u.diff(dim=1)
    if not slope:
        return inside
    return torch.cat([inside, u.diff(dim=1).expand(len(share), -1, -1, -1)], 1)


def input_from_fine_grid(u: Tensor, substeps: int = 2) -> Tensor:
    """Stage values of an input that is already known at every stage time.

    u: (channel, 2 substeps (samples - 1) + 1[, member]) -> as `input_at_stages`.
    """
    u = u if u.dim() == 3 else u[..., None]
    if (u.shape[1] - 1) % (2 * substeps):
        raise ValueError(f"{u.shape[1]} times are not {2 * substeps} per sample and one more")
    return u.unfold(1, 2 * substeps + 1, 2 * substeps).permute(3, 0, 1, 2).contiguous()


def _finite(z):
    return z.detach().isfinite().all(0).all(0)  # (member,)


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
    (feature, sample, member); alive: (member,), False = not solved, held at z0; tol: the
    size of the last Newton step, relative to the member's largest state (1e-4, or 1e-9 in
    double precision; that step still counts, so the error left is about its square).
    """
    if fallback not in ("step", "drop"):
        raise ValueError(f"fallback accepts 'step' or 'drop', not {fallback!r}")
    tol = tol or (1e-9 if z0.dtype == torch.float64 else 1e-4)
    alive = torch.ones(z0.shape[1], dtype=torch.bool) if alive is None else alive
    begin = z0.detach()[:, None].expand(-1, u.shape[2] + 1, -1)
    z = begin if guess is None else _usable(guess.detach(), begin, alive)
    for count in range(1, most + 1):
        new, size = _newton(field, z0, z, u, dt, alive)
        unsolved = alive & ~(size <= tol)
        if count == most or not (unsolved & size.isfinite()).any():
            break
        z = new.detach()
    failed = torch.zeros_like(unsolved)
    if unsolved.any():
        if fallback == "step":
            z = _step_through(field, begin, z, u, dt, unsolved)
        failed = unsolved if fallback == "drop" else unsolved & ~_finite(z)
        z = torch.where(failed, begin, z)
        new = _newton(field, z0, z, u, dt, alive & ~failed)[0]
        failed = failed | unsolved & ~_finite(new)
        new = torch.where(failed, torch.nan, new)
    return SampledSolution(new, count, 2 * (len(u) - 1) * count, unsolved, failed)


def affine(
    field: Callable, z0: Tensor, u: Tensor, *, dt: float = 1.0, alive: Tensor | None = None
) -> SampledSolution:
    """`solve_parallel` for a field that is affine in z: z[n+1] = A z[n] + b[n], A for all n.

    A member whose solution is not finite has blown up: it is `failed`, and NaN.
    """
    d, members = z0.shape
    alive = torch.ones(members, dtype=torch.bool) if alive is None else alive
    probes = torch.eye(d, d + 1, dtype=z0.dtype)[..., None].expand(-1, -1, members)
    at = step(field, probes, torch.zeros_like(u[:, :, :1]), dt)  # unit vectors, the origin
    b = step(field, z0.new_zeros(d, u.shape[2], members), u, dt)
    A = torch.where(alive, at[:, :-1] - at[:, -1:], torch.eye(d, dtype=z0.dtype)[..., None])
    z = ConstantRecurrence.apply(A, torch.where(alive, b, 0), z0)
    failed = ~_finite(z)
    if failed.any():
        z = torch.where(failed, torch.nan, z)
    return SampledSolution(z, 1, 2 * (len(u) - 1), torch.zeros_like(failed), failed)


def step(field: Callable, z: Tensor, u: Tensor, dt: float = 1.0) -> Tensor:
    """One sample ahead by Runge-Kutta 4, in (len(u) - 1) / 2 substeps.

    z: (feature, time, member) -> the same
    """
    return _runge_kutta(lambda state, u: [field(state[0], u)], [z], u, dt)[0]


def _runge_kutta(rates, state, u, dt):
    """`step` for several tensors at once; rates(state, u) gives the derivative of each."""
    h = dt / ((len(u) - 1) // 2)
    for s in range(0, len(u) - 1, 2):
        k1 = rates(state, u[s])
        k2 = rates(_ahead(state, k1, h / 2), u[s + 1])
        k3 = rates(_ahead(state, k2, h / 2), u[s + 1])
        k4 = rates(_ahead(state, k3, h), u[s + 2])
        mean = [torch.add(a + d, b + c, alpha=2) for a, b, c, d in zip(k1, k2, k3, k4)]
        state = _ahead(state, mean, h / 6)
    return state


def _ahead(state, rates, h):
    return [torch.add(x, rate, alpha=h) for x, rate in zip(state, rates)]


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

    That is a reverse pass for each row, unless the field can `push` tangents itself.
    """
    if hasattr(field, "push"):
        return _step_with_tangents(field, z.detach(), u, dt)
    record = torch.is_grad_enabled()
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        F = step(field, z, u, dt)
        rows = torch.eye(len(z), dtype=z.dtype)[:, :, None, None].expand(-1, *F.shape)
        A = [torch.autograd.grad(F, z, row, retain_graph=True)[0] for row in rows]
    return F if record else F.detach(), torch.stack(A)


def _step_with_tangents(field, z, u, dt):
    """`step`, and its Jacobian: (feature, feature, time, member)."""
    unit = torch.eye(len(z), dtype=z.dtype)[:, :, None, None].expand(-1, -1, *z.shape[1:])

    def rates(state, u):
        z, tangents = state
        return [field(z, u), field.push(z.detach(), tangents)]

    return _runge_kutta(rates, [z, unit], u, dt)


def _usable(guess, begin, alive):
    """The guess where it is finite and wanted, else the initial state throughout."""
    if guess.shape != begin.shape:
        raise ValueError(f"guess is {tuple(guess.shape)}, not {tuple(begin.shape)}")
    return torch.where(alive & _finite(guess), guess, begin)


@torch.no_grad()
def _step_through(field, begin, z, u, dt, members):
    """The trajectories of these members sample by sample; z for the others."""
    path = begin.clone()
    for n in range(u.shape[2]):
        path[:, n + 1] = step(field, path[:, n : n + 1], u[:, :, n : n + 1], dt)[:, 0]
        if n % 50 == 0 and not path[:, n + 1].isfinite().all(0)[members].any():
            path[:, n + 1 :] = torch.nan
            break
    return torch.where(members, path, z)
