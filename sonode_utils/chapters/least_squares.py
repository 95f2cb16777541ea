"""Least squares by Levenberg and Marquardt: tens of iterations to a model's optimum.

Adam tells what Adam finds; how good a model *can* be needs its optimum.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from sonode_utils.chapters.driven import DrivenModel, mean_square
from sonode_utils.solvers.parallel import linearise, step
from sonode_utils.solvers.scan import Recurrence


@torch.no_grad()
def least_squares(
    simulate: Callable, theta: Tensor, data: Tensor, *, iterations: int,
    jacobian: Callable | None = None, damping: float = 1e-3, probe: float = 1e-6,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Minimise the mean square error of every member, each by itself and never getting worse.

    Each member has its own damping and takes back a step that does not lower its loss. It
    stands still once ten iterations have not moved its loss by a millionth, so that its result
    is the same alone and in any company.
    simulate: (column, number) -> (column, sample), any number of columns at once, not finite
    where a path is lost; theta: (member, number); data: (member, sample). jacobian: called
    with what `simulate` was called with last, gives d path / d theta: (member, number, sample).
    -> theta, losses (iteration, member), infinite while a member's path is lost
    """

    def evaluate(theta):
        """Loss (member,), and the products of all columns of [d path / d theta, error]."""
        if jacobian is None:
            path, slopes = _differences(simulate, theta, probe)
        else:
            path, slopes = simulate(theta), jacobian(theta)
        loss = (path - data).square().mean(1).nan_to_num(torch.inf, torch.inf)
        rows = torch.cat([slopes, (path - data)[:, None]], 1)
        rows = rows.nan_to_num(0, 0, 0).clamp(-1e8, 1e8)
        return loss, rows @ rows.mT

    losses: list[Tensor] = []
    loss, products = evaluate(theta)
    dampings, going = torch.full_like(loss, damping), torch.ones_like(loss, dtype=torch.bool)
    while going.any() and len(losses) < iterations:
        H, gradient = products[:, :-1, :-1], products[:, :-1, -1:]
        scale = H.diagonal(dim1=1, dim2=2)
        scale = scale + 1e-12 * scale.amax(1, keepdim=True) + torch.finfo(H.dtype).tiny ** 0.5
        H = H + torch.diag_embed(dampings[:, None] * scale)
        trial = theta - torch.linalg.solve(H, gradient)[..., 0]
        value, new = evaluate(torch.where(going[:, None], trial, theta))
        good = going & (value < loss)
        theta = torch.where(good[:, None], trial, theta)
        loss = torch.where(good, value, loss)
        products = torch.where(good[:, None, None], new, products)
        dampings = torch.where(good, dampings / 3, dampings * 4).clamp(1e-12, 1e12)
        losses.append(loss)
        if len(losses) > 10:  # a low damping may still have to rise before a step succeeds
            going = going & ~((losses[-11] - loss <= 1e-6 * loss) & (good | (dampings > 1)))
    return theta, torch.stack(losses)


def _differences(simulate, theta, probe):
    """The path and its derivatives by forward differences: (member, [number,] sample)."""
    members, n = theta.shape
    size = probe * theta.abs().clamp_min(1)
    moved = theta[:, None] + size[:, None] * torch.eye(n + 1, n).to(theta).roll(1, 0)
    paths = simulate(moved.flatten(0, 1)).unflatten(0, (members, n + 1))
    return paths[:, 0], (paths[:, 1:] - paths[:, :1]) / size[..., None]


@torch.no_grad()
def fit_optimum(model: DrivenModel, x: Tensor, u: Tensor, iterations: int = 60) -> Tensor:
    """Bring each member to its least mean square error of x, for a model in double precision.

    x: (sample,); u: from `input_at_stages` -> (iteration, member), the losses
    """
    z, lowest = model(x[0], u).z, torch.full_like(x[:1], torch.inf)

    def simulate(theta):
        nonlocal z, lowest
        assign(model, theta)
        new = model(x[0], u, guess=z, fallback="drop").z
        loss = mean_square(new[0] - x[:, None])
        better = loss < lowest  # only then is it the next guess, and asked for slopes
        z, lowest = torch.where(better, new, z), torch.where(better, loss, lowest)
        return new[0].t().contiguous()

    def jacobian(theta):
        return sensitivities(model, x[0], u, z)[:, 0].permute(2, 0, 1).contiguous()

    known: dict = {"data": x.expand(len(model.weight), -1), "iterations": iterations}
    theta, losses = least_squares(simulate, numbers(model), jacobian=jacobian, **known)
    assign(model, theta)
    return losses


@torch.no_grad()
def sensitivities(model: DrivenModel, x0: Tensor, u: Tensor, z: Tensor, h=1e-7) -> Tensor:
    """dz / d(each learnt number) along a solution z: (number, feature, sample, member).

    Again a linear recurrence, dz[n+1] = A[n] dz[n] + dF/dtheta, with the Jacobians A of the
    solve; dF/dtheta is a difference quotient of one step (in double precision).
    """
    theta, slopes = numbers(model), []
    F0, A = linearise(model.field(), z[:, :-1], u, model.dt)
    for j in range(n := theta.shape[1]):
        shifted = theta.clone()
        shifted[:, j] += h
        assign(model, shifted)
        F, start = step(model.field(), z[:, :-1], u, model.dt), model.initial_state(x0)
        slopes.append(((F - F0) / h, (start - z[:, 0]) / h))
    assign(model, theta)
    F, z0 = (torch.cat(parts, -1) for parts in zip(*slopes))
    dz = Recurrence.apply(A.repeat(1, 1, 1, n), F, torch.zeros_like(F), z0)
    return dz.unflatten(-1, (n, -1)).permute(2, 0, 1, 3)


def numbers(model: DrivenModel) -> Tensor:
    """All learnt numbers: (member, number), in the order of `parameters()`."""
    return torch.cat([p.detach().flatten(1) for p in model.parameters()], 1)


@torch.no_grad()
def assign(model: DrivenModel, theta: Tensor) -> None:
    """Write learnt numbers, (member, number) as `numbers` gives them, into the model."""
    sizes = [p[0].numel() for p in model.parameters()]
    for p, part in zip(model.parameters(), theta.split(sizes, 1)):
        p.copy_(part.reshape(p.shape))
