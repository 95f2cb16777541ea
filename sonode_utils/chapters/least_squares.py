"""Least squares by Levenberg and Marquardt: tens of iterations to a model's optimum.

Training by Adam tells what Adam finds; how good a model *can* be needs its optimum. For models
of `driven.py` the derivative of the whole trajectory in every learnt number is the linear
recurrence of the parallel solve once more, with another right side (`least_squares`). For a
few parameters with a wild gradient simulations alone will do (`levenberg_marquardt`).
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sonode_utils.chapters.driven import DrivenModel
from sonode_utils.solvers.parallel import linearise, step
from sonode_utils.solvers.scan import Recurrence

LADDER = 10.0 ** np.arange(-2, 4)  # dampings tried in one step, as multiples of the last


@torch.no_grad()
def least_squares(model: DrivenModel, x: Tensor, u: Tensor, iterations: int = 60) -> Tensor:
    """Minimise each member's mean square error of x, for a model in double precision.

    Each member has its own damping; a step that does not lower its loss is taken back. Ends
    when ten iterations have moved no loss by a millionth. -> (iteration, member), the losses
    """
    theta, losses = numbers(model), []
    z = model(x[0], u).z
    loss = (z[0] - x[:, None]).square().mean(0)
    dampings = torch.full_like(loss, 1e-3)
    for _ in range(iterations):
        J = sensitivities(model, x[0], u, z)[:, 0]  # (number, sample, member)
        H = torch.einsum("ptm,qtm->mpq", J, J)
        gradient = torch.einsum("ptm,tm->mp", J, z[0] - x[:, None])
        scale = H.diagonal(dim1=1, dim2=2)
        scale = scale + 1e-12 * scale.amax(1, keepdim=True)
        change = torch.linalg.solve(H + torch.diag_embed(dampings[:, None] * scale), gradient)
        assign(model, theta - change)
        new = model(x[0], u, guess=z, fallback="drop").z
        value = (new[0] - x[:, None]).square().mean(0)
        good = value < loss  # False where it blew up
        theta = torch.where(good[:, None], theta - change, theta)
        assign(model, theta)
        z, loss = torch.where(good, new, z), torch.where(good, value, loss)
        dampings = torch.where(good, dampings / 3, dampings * 4).clamp(1e-12, 1e12)
        losses.append(loss)
        if len(losses) > 10 and (losses[-11] - loss <= 1e-6 * loss).all():
            break
    return torch.stack(losses)


@torch.no_grad()
def sensitivities(model: DrivenModel, x0: Tensor, u: Tensor, z: Tensor, h=1e-7) -> Tensor:
    """dz / d(each learnt number) along a solution z: (number, feature, sample, member).

    Again a linear recurrence, dz[n+1] = A[n] dz[n] + dF/dtheta, with the Jacobians A of the
    solve; dF/dtheta is a difference quotient of one step (in double precision).
    """
    theta = numbers(model)
    F0, A = linearise(model.field(), z[:, :-1], u, model.dt)
    slopes = []
    for j in range(theta.shape[1]):
        shifted = theta.clone()
        shifted[:, j] += h
        assign(model, shifted)
        F, start = step(model.field(), z[:, :-1], u, model.dt), model.initial_state(x0)
        slopes.append(((F - F0) / h, (start - z[:, 0]) / h))
    assign(model, theta)
    F, z0 = (torch.cat(parts, -1) for parts in zip(*slopes))
    A = A.repeat(1, 1, 1, theta.shape[1])
    dz = Recurrence.apply(A, F, torch.zeros_like(F), z0)
    return dz.unflatten(-1, (theta.shape[1], -1)).permute(2, 0, 1, 3)


def numbers(model: DrivenModel) -> Tensor:
    """All learnt numbers: (member, number), in the order of `parameters()`."""
    return torch.cat([p.detach().flatten(1) for p in model.parameters()], 1)


@torch.no_grad()
def assign(model: DrivenModel, theta: Tensor) -> None:
    """Write learnt numbers, (member, number) as `numbers` gives them, into the model."""
    sizes = [p[0].numel() for p in model.parameters()]
    for p, part in zip(model.parameters(), theta.split(sizes, 1)):
        p.copy_(part.reshape(p.shape))


def levenberg_marquardt(
    simulate: Callable, theta: np.ndarray, data: np.ndarray, *, iterations: int,
    damping: float = 0.1, probe: float = 1e-6,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Minimise each member's mean square error; no member ever gets worse.

    simulate: (parameter, column) -> (time, column), any number of columns at once, NaN or
    infinite where a path is lost; theta: (parameter, member); data: (time, member)
    -> theta, error (member,), infinite where the start was lost and stayed so.
    """
    dampings = np.full(theta.shape[1], damping)
    for _ in range(iterations):
        path, jacobian = _path_and_slopes(simulate, theta, probe)
        error = _mean_square(path - data)
        normal = np.einsum("tpm,tqm->mpq", jacobian, jacobian)
        residual = np.nan_to_num(path - data, posinf=0, neginf=0)
        slope = np.einsum("tpm,tm->mp", jacobian, residual)
        tried = dampings * LADDER[:, None]  # (rung, member)
        scale = (np.einsum("mpp->mp", normal)[:, None] + 1e-12) * np.eye(len(theta))
        step = np.linalg.solve(normal + tried[..., None, None] * scale, -slope[..., None])
        rungs = np.moveaxis(theta.T + step[..., 0], -1, 0)  # (parameter, rung, member)
        paths = simulate(rungs.reshape(len(theta), -1)).reshape(-1, *rungs.shape[1:])
        errors = _mean_square(paths - data[:, None])
        best = errors.argmin(0), np.arange(theta.shape[1])
        better = errors[best] < error
        theta = np.where(better, rungs[:, *best], theta)
        dampings = np.clip(np.where(better, tried[best], 100 * dampings), 1e-8, 1e8)
        error = np.where(better, errors[best], error)
    return theta, error


def _path_and_slopes(simulate, theta, probe):
    """The path and its derivatives by forward differences, lost ones as zero.

    (parameter, member) -> (time, member), (time, parameter, member)
    """
    size = probe * np.maximum(1, np.abs(theta))
    moved = theta[:, None] + size[:, None] * np.eye(len(theta), len(theta) + 1, 1)[..., None]
    paths = simulate(moved.reshape(len(theta), -1)).reshape(-1, *moved.shape[1:])
    with np.errstate(all="ignore"):
        jacobian = (paths[:, 1:] - paths[:, :1]) / size
    return paths[:, 0], np.nan_to_num(jacobian, posinf=0, neginf=0).clip(-1e8, 1e8)


def _mean_square(residual):
    """Over the first axis; infinite where anything is not finite."""
    with np.errstate(all="ignore"):
        return np.nan_to_num((residual**2).mean(0), nan=np.inf)
