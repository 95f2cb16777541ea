"""torchdiffeq's own methods for an ensemble: one step for all, as small as the worst needs."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torchdiffeq import odeint


def solve_by_library(
    field: Callable, z0: Tensor, times: Tensor, alive: Tensor, features: Tensor, *,
    method: str, rtol: float, atol: float, options: dict,
) -> tuple[Tensor, int, Tensor]:  # fmt: skip
    """The solution, evaluations, and the members that failed: (member,).

    A solve that one member breaks off is begun again without it.
    """
    guard = SharedStep(field, z0, alive.to(z0.device), features)
    known = {"rtol": rtol, "atol": atol, "method": method}
    known["options"] = {"norm": guard.norm, **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*[Uu]nexpected arg")
        while True:
            try:
                begin = torch.where(guard.failed[:, None, None], 0, z0)
                return odeint(guard, begin, times.to(z0), **known), guard.nfe, guard.failed
            except UserWarning as unknown:
                raise TypeError(f"{method} does not know an option: {unknown}") from None
            except AssertionError:  # a step size that underflows, or a state not finite
                worst = guard.alive & (guard.errors == guard.errors.max())
                if guard.errors.max() <= 1 or not worst.any():
                    raise
                guard.alive, guard.failed = guard.alive & ~worst, guard.failed | worst


class SharedStep:
    """A field for torchdiffeq: counted, with members that stand still, and the norm of the
    worst member, so that nobody is solved less accurately than alone."""

    def __init__(self, field, z0, alive, features):
        self.field, self.alive, self.nfe = field, alive, 0
        self.size = (features * z0.shape[1]).to(z0)
        self.failed, self.errors = torch.zeros_like(alive), 0 * self.size

    def __call__(self, t, z, perturb=None):
        self.nfe += 1
        return torch.where(self.alive[:, None, None], self.field(t, z), 0)

    def norm(self, z):
        errors = (z.square().sum((1, 2)) / self.size).sqrt()
        errors = torch.where(self.alive, errors, 0).nan_to_num(torch.inf, torch.inf)
        self.errors = errors.detach()
        return errors.max()
