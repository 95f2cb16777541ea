"""E independent networks as one batched tensor program.

Every parameter carries a leading member axis, so one product trains all seeds at once
and no gradient ever crosses from one member to another.
"""

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from numbers import Integral

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

Streams = Sequence[np.random.Generator]

ACTIVATIONS: dict[str | None, Callable[[], nn.Module]] = {
    "elu": nn.ELU,
    "tanh": nn.Tanh,
    "hardtanh5": partial(nn.Hardtanh, -5, 5),  # the authors' initial velocity nets
    "hardtanh10": partial(nn.Hardtanh, -10, 10),
    None: nn.Identity,
}


def stream(purpose: str, seed: int, *indices: int | str) -> np.random.Generator:
    """The random stream of this name: its state is a hash of purpose, seed and indices.

    It is numpy's: torch keeps 32 bits of a seed, so that hashes would collide, and draws normal
    numbers by other formulas on other processors.
    """
    if not isinstance(purpose, str):
        raise TypeError(f"purpose accepts a string, not {purpose!r}")
    if not isinstance(seed, Integral):
        raise TypeError(f"seed accepts a whole number, not {seed!r}")
    if not all(isinstance(index, str | Integral) for index in indices):
        raise TypeError(f"indices accepts whole numbers and strings, not {indices}")
    name = json.dumps([purpose, seed, *indices], default=int)
    state = int.from_bytes(sha256(name.encode()).digest(), "big")
    return np.random.Generator(np.random.PCG64(state))


def streams(purpose: str, seeds: Iterable[int], *indices: int | str) -> Streams:
    """One stream per member: a member draws the same whatever stands beside it."""
    return [stream(purpose, seed, *indices) for seed in seeds]


def uniform(shape, stream: np.random.Generator) -> Tensor:
    """Numbers in [0, 1): the same ones in single precision and in double."""
    return torch.as_tensor(stream.random(shape, np.float32), dtype=torch.get_default_dtype())


def normal(shape, stream: np.random.Generator) -> Tensor:
    """Normal numbers, rounded to single: the same ones in single precision and in double."""
    numbers = np.float32(stream.standard_normal(shape))
    return torch.as_tensor(numbers, dtype=torch.get_default_dtype())


def symmetric_uniform(shape, bound: float, stream: np.random.Generator) -> Tensor:
    """Numbers in [-bound, bound)."""
    return (2 * uniform(shape, stream) - 1) * bound


class EnsembleLinear(nn.Module):
    """E affine maps, each drawn as `torch.nn.Linear` draws its own: U(-b, b), b = n_in^-1/2.

    in_mask, out_mask: (member, n_in), (member, n_out), True where that member really has
    the feature. Rows and columns of absent features start at zero, and their gradient is
    zero as long as their inputs are: systems of different dimension share one tensor.

    x: (member, batch, n_in) -> (member, batch, n_out)
    """

    def __init__(
        self, n_in: int, n_out: int, rng: Streams,
        in_mask: Tensor | None = None, out_mask: Tensor | None = None,
    ):  # fmt: skip
        super().__init__()
        weight = torch.zeros(len(rng), n_in, n_out)
        bias = torch.zeros(len(rng), 1, n_out)
        for k, stream in enumerate(rng):
            rows, columns = _real(in_mask, k, n_in), _real(out_mask, k, n_out)
            bound = len(rows) ** -0.5
            shape = len(rows), len(columns)
            weight[k, rows[:, None], columns] = symmetric_uniform(shape, bound, stream)
            bias[k, 0, columns] = symmetric_uniform(len(columns), bound, stream)
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        check_input(x, self.weight)
        if len(x) > 1:
            y = torch.baddbmm(self.bias, x, self.weight)
        else:  # a lone product is computed in another way than one of several: add a second
            y = torch.baddbmm(*(v.repeat(2, 1, 1) for v in (self.bias, x, self.weight)))[:1]
        # Back through a view a gradient lies in memory in one way only: sums depend on that.
        return y.flatten().view(y.shape)


def check_input(x: Tensor, weight: Tensor) -> None:
    """Say what is wrong with x: (member, batch, n_in), for weights (member, n_in, n_out)."""
    members, n_in, _ = weight.shape
    if x.dim() != 3 or len(x) != members or x.shape[-1] != n_in:
        raise ValueError(f"x must be ({members}, batch, {n_in}), not {tuple(x.shape)}")
    if (x.dtype, x.device) != (weight.dtype, weight.device):
        kind = f"{weight.dtype} on {weight.device}, as the weights are"
        raise TypeError(f"x must be {kind}, not {x.dtype} on {x.device}")


def _real(mask, k, width):
    """The indices of the features that member k really has."""
    return torch.arange(width) if mask is None else mask[k].nonzero()[:, 0]


class EnsembleMLP(nn.Module):
    """E multilayer perceptrons: the paper's is two hidden layers of 20, ELU, no time input.

    `output` names an activation after the last layer (the authors' code has some). The call
    accepts a time and ignores it, so that a network can stand wherever a field f(z, t) can.

    z: (member, batch, n_in) -> (member, batch, n_out)
    """

    def __init__(
        self, n_in: int, n_out: int, rng: Streams, hidden: Sequence[int] = (20, 20),
        activation: str | None = "elu", output: str | None = None,
        in_mask: Tensor | None = None, out_mask: Tensor | None = None,
    ):  # fmt: skip
        super().__init__()
        for name in {activation, output} - ACTIVATIONS.keys():
            known = ", ".join(map(repr, ACTIVATIONS))
            raise ValueError(f"activation and output accept {known}, not {name!r}")
        self.n_in, self.n_out, sizes = n_in, n_out, [n_in, *hidden, n_out]
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
            first, last = i == 0, i == len(hidden)
            masks = (in_mask if first else None, out_mask if last else None)
            active = ACTIVATIONS[output if last else activation]()
            layers += [EnsembleLinear(a, b, rng, *masks), active]
        self.layers = nn.Sequential(*layers)
        # How many features each member really has: the solver's error norm divides by it.
        self.in_features = None if in_mask is None else in_mask.sum(-1)

    def forward(self, z: Tensor, t=None) -> Tensor:
        return self.layers(z)


def exactly_known(mlp: nn.Module | None) -> bool:
    """Whether a network computes what an EnsembleMLP does, and nothing besides."""
    if type(mlp) is not EnsembleMLP or _has_any_global_hook():
        return False
    layers = list(mlp.layers)
    kinds = {EnsembleLinear}, {nn.ELU, nn.Tanh, nn.Hardtanh, nn.Identity}
    return (
        all(type(layer) in kinds[i % 2] for i, layer in enumerate(layers))
        and len(layers) % 2 == 0
        and all(_untouched(part) for part in (mlp, mlp.layers, *layers))
    )


def _untouched(part):
    hooks = part._forward_hooks, part._forward_pre_hooks, part._backward_hooks
    changed = any(hooks) or part._backward_pre_hooks or "forward" in vars(part)
    return not changed and getattr(part, "alpha", 1.0) == 1.0


def pad_mask(dims, width: int) -> Tensor:
    """True where a member of dimension dims[k] really has the feature: (member, width)."""
    return torch.arange(width) < torch.as_tensor(dims)[:, None]


def pick(model: nn.Module, members) -> nn.Module:
    """A copy of a model with these members only, all alive: a slice, list or mask (member,)."""
    few = copy.deepcopy(model)
    for module in few.modules():
        if isinstance(module, EnsembleMLP) and module.in_features is not None:
            module.in_features = module.in_features[members]
    for p in few.parameters():
        p.data = p.data[members].clone()
    few.alive = None  # type: ignore[assignment]
    return few
