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
    alive, size, nfe = alive.to(z0.device), (features * z0.shape[1]).to(z0), 0
    failed, errors = torch.zeros_like(alive), 0 * size

    def counted(t, z):
        nonlocal nfe
        nfe += 1
        return torch.where(alive[:, None, None], field(t, z), 0)

    def norm(z):  # the worst member's, so that nobody is solved less accurately than alone
        nonlocal errors
        own = (z.square().sum((1, 2)) / size).sqrt()
        own = torch.where(alive, own, 0).nan_to_num(torch.inf, torch.inf)
        errors = own.detach()
        return own.max()

    known = {"method": method, "rtol": rtol, "atol": atol, "options": {"norm": norm, **options}}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*[Uu]nexpected arg")
        while True:
            try:
                begin = torch.where(failed[:, None, None], 0, z0)
                return odeint(counted, begin, times.to(z0), **known), nfe, failed
            except UserWarning as unknown:
                raise TypeError(f"{method} does not know an option: {unknown}") from None
            except AssertionError:  # a step size that underflows, or a state not finite
                worst = alive & (errors == errors.max())
                if errors.max() <= 1 or not worst.any():
                    raise
                alive, failed = alive & ~worst, failed | worst
