"""Training a whole ensemble: every member its own loss, its own fate."""

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
    shape, given = tuple(prediction.shape), tuple(target.shape)
    if len(given) != len(shape) or any(n not in (1, m) for n, m in zip(given, shape)):
        raise ValueError(f"target must have the shape {shape}, or 1 along an axis, not {given}")
    # Each member's own numbers in one row: their sum does not depend on the other rows.
    error = (prediction - target).square().movedim(-3, 0).contiguous().flatten(1)
    d = shape[-1] if features is None else features.to(error.device)
    return error.sum(1) / (error.shape[1] // shape[-1] * d)


def fit(
    model: nn.Module, loss: Callable, *, iterations: int, lr: float | Tensor = 0.01,
    beta2: float = 0.999, clip: float | None = None, label: str | None = "training",
    callback: Callable[[int, nn.Module], None] | None = None,
) -> History:  # fmt: skip
    """Minimise the loss of every member at once with Adam.

    loss: model -> (member,). The sum is differentiated, and since no parameter is shared
    each member descends its own loss. A member whose loss or gradient is not finite is
    put back to its last good weights and stays there, the others go on.
    lr: a number, or one for each member, (member,); beta2: of Adam, how long it remembers the
    size of gradients; clip: the largest norm that a member's gradient may have.
    callback(iteration, model) is called before every iteration, the first being 0.
    label: what stands before the progress bar, None for no bar.

    What `fit` asks of a model: parameters that have the member axis first. What it tells it:
    `alive`, (member,), False for members that are out, now and in every later `fit`; and
    `plan`, a `StepPlan` by which the solver plans its steps from those of the last iteration,
    whose field was nearly the same. What it reads: `nfe`, evaluations of the last solve.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser, alive = Adam(parameters, lr, beta2), _alive(model, parameters)
    losses, evaluations = [], []
    bar = tqdm(range(iterations), desc=label, unit="it", mininterval=1.0, disable=label is None)
    with bar, planning(model):
        for count in bar:
            if callback is not None:
                with planning(model):  # what it solves is no part of the plan
                    callback(count, model)
            value = loss(model)
            if value.shape != alive.shape:
                raise ValueError(f"loss must give ({len(alive)},), not {tuple(value.shape)}")
            total = torch.where(alive, value, 0).sum()
            gradients = torch.autograd.grad(total, parameters, materialize_grads=True)
            # Zero times a number is zero unless the number is infinite or undefined.
            rows = torch.cat([g.flatten(1) for g in gradients], 1)
            finite = (0 * rows).sum(1) == 0
            ok = alive & value.detach().isfinite() & finite
            if (ok != alive).any():
                optimiser.put_back(~ok)
                alive = model.alive = ok
            losses.append(torch.where(alive, value.detach(), torch.nan))
            evaluations.append(torch.as_tensor(getattr(model, "nfe", 0)).expand(len(alive)))
            if clip is not None:
                scale = (clip / rows.square().sum(1).sqrt()).clamp(max=1)
                gradients = tuple(g * _rows(scale, g) for g in gradients)
            optimiser.step(gradients)
            optimiser.put_back(~alive)
            if count % 10 == 0:
                out = f", {(~alive).sum()} diverged" if not alive.all() else ""
                bar.set_postfix_str(f"median {losses[-1].nanmedian():.2e}{out}", refresh=False)
            if not alive.any():
                break
    return History(torch.stack(losses), torch.stack(evaluations), ~alive)


def _alive(model, parameters):
    """(member,): the members that no earlier training has put out."""
    members = {len(p) for p in parameters}
    if len(members) != 1:
        raise ValueError(f"parameters must have one member axis first, not lengths {members}")
    everyone = torch.ones(members.pop(), dtype=torch.bool, device=parameters[0].device)
    alive = getattr(model, "alive", None)
    return everyone if alive is None else everyone & alive.to(everyone)


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

    def __init__(self, parameters, lr, beta2=0.999):
        self.parameters, self.lr, self.beta2 = parameters, lr, beta2
        self.before = [p.detach().clone() for p in parameters]
        self.mean, self.square = ([torch.zeros_like(p) for p in self.before] for _ in range(2))
        self.counts = [torch.tensor(0.0) for _ in parameters]

    @torch.no_grad()
    def step(self, gradients):
        torch._foreach_copy_(self.before, self.parameters)
        gradients, each = [g.contiguous() for g in gradients], isinstance(self.lr, Tensor)
        adam(
            self.parameters, gradients, self.mean, self.square, [], self.counts, foreach=True,
            amsgrad=False, beta1=0.9, beta2=self.beta2, lr=1.0 if each else self.lr,
            weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip
        if each:  # a step is proportional to its rate
            for p, before in zip(self.parameters, self.before):
                p.copy_(torch.lerp(before, p, _rows(self.lr, p).to(p)))

    @torch.no_grad()
    def put_back(self, members):
        """Undo the last step of these members: (member,), True where it is undone."""
        if members.any():
            for p, before in zip(self.parameters, self.before):
                p.copy_(torch.where(_rows(members, p), before, p))


@contextmanager
def planning(model: nn.Module) -> Iterator[None]:
    """Inside, each of the model's solves plans its steps by those of the last one inside."""
    outside, model.plan = getattr(model, "plan", None), StepPlan()  # type: ignore[assignment]
    try:
        yield
    finally:
        model.plan = outside  # type: ignore[assignment]


def _rows(values, p):
    """values: (member,), to go with the rows of p."""
    return values.view(-1, *[1] * (p.dim() - 1))
