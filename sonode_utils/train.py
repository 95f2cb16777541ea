"""Training a whole ensemble: every member its own loss, its own fate."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from tqdm import tqdm

from sonode_utils.solvers.clocks import StepPlan


class History(NamedTuple):
    """loss: (iteration, member), before that iteration's step, NaN once a member is out;
    nfe: (iteration, member), evaluations of the field in its solve; diverged: (member,)."""

    loss: Tensor
    nfe: Tensor
    diverged: Tensor


def mse(prediction: Tensor, target: Tensor, features: Tensor | None = None) -> Tensor:
    """Mean square error of each member over all but its own axis.

    prediction: (..., member, batch, d); target: the same, or 1 along an axis -> (member,);
    features: (member,), real d of padded members.
    """
    shape = prediction.shape
    if target.dim() != len(shape) or any(n not in (1, m) for n, m in zip(target.shape, shape)):
        raise ValueError(
            f"target must have the shape {tuple(shape)} of the prediction, or 1 along an axis, "
            f"not {tuple(target.shape)}"
        )
    # Each member's own numbers in one row: their sum does not depend on the other rows.
    error = (prediction - target).square().movedim(-3, 0).contiguous().flatten(1)
    d = shape[-1] if features is None else features.to(error.device)
    return error.sum(1) / (error.shape[1] // shape[-1] * d)


def fit(
    model: nn.Module, loss: Callable, *, iterations: int, lr: float | Tensor = 0.01,
    label: str = "training", callback: Callable[[int, nn.Module], None] | None = None,
) -> History:  # fmt: skip
    """Minimise the loss of every member at once with Adam.

    loss: model -> (member,). The sum is differentiated, and since no parameter is shared
    each member descends its own loss. A member whose loss or gradient is not finite is
    put back to its last good weights and stays there, the others go on.
    lr: a number, or one for each member, (member,).
    callback(iteration, model) is called before every iteration, the first being 0.

    What `fit` asks of a model: parameters that have the member axis first. What it tells it:
    `alive`, (member,), False for members that are out, now and in every later `fit`; and
    `plan`, a `StepPlan` by which the solver plans its steps from those of the last iteration,
    whose field was nearly the same. What it reads: `nfe`, evaluations of the last solve.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser, alive = Adam(parameters, lr), _alive(model, parameters)
    losses, evaluations = [], []
    bar = tqdm(range(iterations), desc=label, unit="it", mininterval=1.0)
    with bar, planning(model):
        for count in bar:
            if callback is not None:
                with planning(model):  # what it solves is no part of the plan
                    callback(count, model)
            for p in parameters:
                p.grad = None
            value = loss(model)
            if value.shape != alive.shape:
                raise ValueError(
                    f"loss must give ({len(alive)},), one per member, not {tuple(value.shape)}"
                )
            torch.where(alive, value, 0).sum().backward()
            ok = alive & value.detach().isfinite() & _finite_gradients(parameters)
            if (ok != alive).any():
                _restore(parameters, optimiser.before, ok)
                alive = model.alive = ok
            losses.append(torch.where(alive, value.detach(), math.nan))
            evaluations.append(torch.as_tensor(getattr(model, "nfe", 0)).expand(len(alive)))
            optimiser.step()
            _restore(parameters, optimiser.before, alive)
            if count % 10 == 0:
                _describe(bar, losses[-1], alive)
            if not alive.any():
                break
    return History(torch.stack(losses), torch.stack(evaluations), ~alive)


def _alive(model, parameters):
    """(member,): the members that no earlier training has put out."""
    members = {len(p) for p in parameters}
    if len(members) != 1:
        raise ValueError(f"parameters must have one member axis first, not lengths {members}")
    alive, device = getattr(model, "alive", None), parameters[0].device
    everyone = torch.ones(members.pop(), dtype=torch.bool, device=device)
    return everyone if alive is None else everyone & alive.to(device)


@torch.no_grad()
def score(loss: Callable, solve: Callable) -> np.ndarray:
    """Each member's loss with the given solve, infinite where it cannot be solved.

    loss: the one that `fit` was given, which calls its argument as solve(x0, times);
    solve: `model.solve_tight` for the value without the solver's error, or the model itself.
    -> (member,), in double precision
    """
    return np.nan_to_num(loss(solve).double().numpy(), nan=np.inf)


def iterations_to(loss: Tensor, tau: float) -> np.ndarray:
    """Iterations until the loss is below tau, one past the last if it never is.

    loss: (iteration, member), as in `History` -> (member,)
    """
    count = torch.arange(1, len(loss) + 1)[:, None]
    return torch.where(loss < tau, count, len(loss) + 1).amin(0).double().numpy()


class Adam:
    """Adam by torch's function for one step: its class loads the compiler first (seconds).

    lr: a number, or (member,), one for each row of every parameter.
    before: the parameters as they were before the last step.
    """

    def __init__(self, parameters, lr):
        self.parameters, self.lr = parameters, lr
        self.before = [p.detach().clone() for p in parameters]
        self.mean, self.square = ([torch.zeros_like(p) for p in self.before] for _ in range(2))
        self.counts = [torch.tensor(0.0) for _ in parameters]

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_(self.before, self.parameters)
        lists = self.parameters, self.mean, self.square, self.counts
        taught = [row for row in zip(*lists) if row[0].grad is not None]
        parameters, mean, square, counts = map(list, zip(*taught))
        gradients, each = [p.grad for p in parameters], isinstance(self.lr, torch.Tensor)
        adam(
            parameters, gradients, mean, square, [], counts, foreach=True, amsgrad=False,
            beta1=0.9, beta2=0.999, lr=1.0 if each else self.lr, weight_decay=0.0, eps=1e-8,
            maximize=False,
        )  # fmt: skip
        if each:  # a step is proportional to its rate
            for p, before in zip(self.parameters, self.before):
                p.copy_(torch.lerp(before, p, _rows(self.lr, p).to(p)))


@contextmanager
def planning(model: nn.Module) -> Iterator[None]:
    """Inside, each of the model's solves plans its steps by those of the last one inside."""
    outside, model.plan = getattr(model, "plan", None), StepPlan()  # type: ignore[assignment]
    try:
        yield
    finally:
        model.plan = outside  # type: ignore[assignment]


def _finite_gradients(parameters):
    """(member,): True where no gradient of that member is infinite or undefined."""
    # Zero times a number is zero unless the number is infinite or undefined.
    all_of_them = torch.cat([p.grad.flatten(1) for p in parameters if p.grad is not None], 1)
    return (0 * all_of_them).sum(1) == 0


@torch.no_grad()
def _restore(parameters, good, keep):
    """Put the members outside `keep` back to the given weights, gradients cleared."""
    if keep.all():
        return
    for p, before in zip(parameters, good):
        p.copy_(torch.where(_rows(keep, p), p, before))
        if p.grad is not None:
            p.grad.copy_(torch.where(_rows(keep, p), p.grad, 0))


def _rows(values, p):
    """values: (member,), to go with the rows of p."""
    return values.view(-1, *[1] * (p.dim() - 1))


def _describe(bar, loss, alive):
    text = f"median {loss[alive].median():.2e}" if alive.any() else "none left"
    out = int((~alive).sum())
    bar.set_postfix_str(text + (f", {out} diverged" if out else ""), refresh=False)
