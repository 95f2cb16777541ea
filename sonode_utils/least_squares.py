"""Least squares by second order steps, for models of `sampled.py`: tens of iterations.

Training by Adam tells what Adam finds. How good a model *can* be needs its optimum, and the
parallel solve makes the classical way cheap: the derivative of the whole trajectory in
every learnt number is the linear recurrence of the solve once more, with another right side.
"""

import torch

from sonode_utils.parallel import Recurrence, linearise, step


@torch.no_grad()
def least_squares(model, x, u, iterations=60, damping=1e-3):
    """Levenberg-Marquardt on the same loss, for a model in double precision.

    Second order where Adam is first: tens of iterations to an optimum. Each member has its
    own damping; a step that does not lower its loss is taken back. It ends early when ten
    iterations have moved no loss by a millionth. -> (iteration, member), the loss after each
    """
    theta, losses = numbers(model), []
    z = model(x[0], u).z
    loss = (z[0] - x[:, None]).square().mean(0)
    damping = torch.full_like(loss, damping)
    for _ in range(iterations):
        J = sensitivities(model, x[0], u, z)[:, 0]  # (number, sample, member)
        H = torch.einsum("ptm,qtm->mpq", J, J)
        gradient = torch.einsum("ptm,tm->mp", J, z[0] - x[:, None])
        scale = H.diagonal(dim1=1, dim2=2)
        scale = scale + 1e-12 * scale.amax(1, keepdim=True)
        change = torch.linalg.solve(H + torch.diag_embed(damping[:, None] * scale), gradient)
        assign(model, theta - change)
        new = model(x[0], u, guess=z, fallback="drop").z
        value = (new[0] - x[:, None]).square().mean(0)
        good = value < loss  # False where it blew up
        theta = torch.where(good[:, None], theta - change, theta)
        assign(model, theta)
        z, loss = torch.where(good, new, z), torch.where(good, value, loss)
        damping = torch.where(good, damping / 3, damping * 4).clamp(1e-12, 1e12)
        losses.append(loss)
        if len(losses) > 10 and (losses[-11] - loss <= 1e-6 * loss).all():
            break
    return torch.stack(losses)


@torch.no_grad()
def sensitivities(model, x0, u, z, h=1e-7):
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


def numbers(model):
    """All learnt numbers: (member, number), in the order of `parameters()`."""
    return torch.cat([p.detach().flatten(1) for p in model.parameters()], 1)


@torch.no_grad()
def assign(model, theta):
    """Put them back."""
    sizes = [p[0].numel() for p in model.parameters()]
    for p, part in zip(model.parameters(), theta.split(sizes, 1)):
        p.copy_(part.reshape(p.shape))
