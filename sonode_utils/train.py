"""Training a whole ensemble: every member its own loss, its own fate."""

import math
from contextlib import contextmanager
from typing import NamedTuple

import torch
from tqdm import tqdm

from sonode_utils.solve import Plan


class History(NamedTuple):
    """loss: (iteration, member), before that iteration's step, NaN once a member is out;
    nfe: (iteration,), evaluations of the shared solve; diverged: (member,)."""

    loss: torch.Tensor
    nfe: torch.Tensor
    diverged: torch.Tensor


def mse(prediction, target, features=None):
    """Mean square error of each member over all but its own axis.

    (..., member, batch, d) -> (member,); features: (member,), real d of padded members.
    """
    error = (prediction - target).square().sum(-1)
    d = prediction.shape[-1] if features is None else features[:, None]
    error = (error / d).mean(-1)
    return error.reshape(-1, error.shape[-1]).mean(0)


def fit(model, loss, *, iterations, lr=0.01, label="training"):
    """Minimise the loss of every member at once with Adam.

    loss: () -> (member,). The sum is differentiated, and since no parameter is shared
    each member descends its own loss. A member whose loss or gradient is not finite is
    put back to its last good weights and stays there, the others go on. The solver plans
    its steps by those of the last iteration, whose field was nearly the same.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=lr, fused=True)
    losses, evaluations, alive, last_good = [], [], None, None
    bar = tqdm(range(iterations), desc=label, unit="it", mininterval=1.0)
    with bar, planning(model):
        for _ in bar:
            optimiser.zero_grad()
            value = loss()
            alive = torch.ones_like(value, dtype=torch.bool) if alive is None else alive
            torch.where(alive, value, 0).sum().backward()
            ok = alive & value.detach().isfinite() & _finite_gradients(parameters)
            if (ok != alive).any():
                _restore(parameters, last_good, ok)
                alive = model.alive = ok
            losses.append(torch.where(alive, value.detach(), math.nan))
            evaluations.append(model.nfe)
            last_good = [p.detach().clone() for p in parameters]
            optimiser.step()
            _restore(parameters, last_good, alive)
            _describe(bar, losses[-1], alive)
            if not alive.any():
                break
    return History(torch.stack(losses), torch.tensor(evaluations), ~alive)


@contextmanager
def planning(model):
    """Inside, each of the model's solves plans its steps by those of the last."""
    model.plan = Plan()
    try:
        yield
    finally:
        model.plan = None


def _finite_gradients(parameters):
    """(member,): True where no gradient of that member is infinite or undefined."""
    # Zero times a number is zero unless the number is infinite or undefined.
    none = [(0 * p.grad.flatten(1)).sum(1) for p in parameters if p.grad is not None]
    return torch.stack(none).sum(0) == 0


@torch.no_grad()
def _restore(parameters, good, keep):
    """Put the members outside `keep` back to the given weights, gradients cleared."""
    if keep.all():
        return
    for p, before in zip(parameters, good or parameters):
        shape = (-1,) + (1,) * (p.dim() - 1)
        p.copy_(torch.where(keep.view(shape), p, before))
        if p.grad is not None:
            p.grad.copy_(torch.where(keep.view(shape), p.grad, 0))


def _describe(bar, loss, alive):
    text = f"median {loss[alive].median():.2e}" if alive.any() else "none left"
    out = int((~alive).sum())
    bar.set_postfix_str(text + (f", {out} diverged" if out else ""), refresh=False)
