"""E independent networks as one batched tensor program.

Every parameter carries a leading member axis, so one product trains all seeds at once
and no gradient ever crosses from one member to another.
"""

from functools import partial

import torch
from torch import nn

ACTIVATIONS = {
    "elu": nn.ELU,
    "tanh": nn.Tanh,
    "hardtanh5": partial(nn.Hardtanh, -5, 5),  # the authors' initial velocity nets
    "hardtanh10": partial(nn.Hardtanh, -10, 10),
    None: nn.Identity,
}


def generators(seeds):
    """One random stream a member: member k draws the same whatever stands beside it."""
    return [torch.Generator().manual_seed(int(seed)) for seed in seeds]


def uniform(shape, stream):
    """Numbers in [0, 1): the same ones in single precision and in double."""
    return _as_default(torch.rand(shape, generator=stream, dtype=torch.float32))


def normal(shape, stream):
    """Normal numbers: the same ones in single precision and in double."""
    return _as_default(torch.randn(shape, generator=stream, dtype=torch.float32))


def _as_default(numbers):
    return numbers.to(torch.get_default_dtype())


class EnsembleLinear(nn.Module):
    """E affine maps, each drawn as `torch.nn.Linear` draws its own: U(-b, b), b = n_in^-1/2.

    in_mask, out_mask: (member, n_in), (member, n_out), True where that member really has
    the feature. Rows and columns of absent features start at zero, and their gradient is
    zero as long as their inputs are: systems of different dimension share one tensor.

    x: (member, batch, n_in) -> (member, batch, n_out)
    """

    def __init__(self, n_in, n_out, rng, in_mask=None, out_mask=None):
        super().__init__()
        weight = torch.zeros(len(rng), n_in, n_out)
        bias = torch.zeros(len(rng), 1, n_out)
        for k, stream in enumerate(rng):
            rows, columns = _real(in_mask, k, n_in), _real(out_mask, k, n_out)
            bound = len(rows) ** -0.5
            shape = len(rows), len(columns)
            weight[k, rows[:, None], columns] = within(shape, bound, stream)
            bias[k, 0, columns] = within(len(columns), bound, stream)
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x):
        return torch.baddbmm(self.bias, x, self.weight)


def within(shape, bound, stream):
    """Numbers in [-bound, bound)."""
    return (2 * uniform(shape, stream) - 1) * bound


def _real(mask, k, width):
    """The indices of the features that member k really has."""
    return torch.arange(width) if mask is None else mask[k].nonzero()[:, 0]


class EnsembleMLP(nn.Module):
    """E multilayer perceptrons: the paper's is two hidden layers of 20, ELU, no time input.

    `output` names an activation after the last layer (the authors' code has some).
    The call accepts a time and ignores it, so that a network can stand wherever a
    field f(z, t) is expected.

    z: (member, batch, n_in) -> (member, batch, n_out)
    """

    def __init__(
        self, n_in, n_out, rng, hidden=(20, 20), activation="elu", output=None,
        in_mask=None, out_mask=None,
    ):  # fmt: skip
        super().__init__()
        sizes = [n_in, *hidden, n_out]
        layers = []
        for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
            first, last = i == 0, i == len(hidden)
            masks = (in_mask if first else None, out_mask if last else None)
            layers += [EnsembleLinear(a, b, rng, *masks)]
            layers += [ACTIVATIONS[output if last else activation]()]
        self.layers = nn.Sequential(*layers)
        # How many features each member really has: the solver's error norm divides by it.
        self.in_features = None if in_mask is None else in_mask.sum(-1)

    def forward(self, z, t=None):
        return self.layers(z)


class Fused:
    """A model's field, with its derivative, for a solver that keeps no graph.

    The field is the state without its first d features, then the network's d outputs:
    [v, f(x, v)], or f alone where d is the whole state. z and all else are feature first,
    (member, feature, batch), which batched products of thin matrices like better.

    second: (member,), where d is the whole state: True for the members whose first half
    has the second half for its derivative, whatever the network says of it.
    """

    def __init__(self, mlp, second=None):
        self.second = None if second is None else second.view(-1, 1, 1)
        self.parameters = list(mlp.parameters())
        self.linear, self.activations = list(mlp.layers[0::2]), list(mlp.layers[1::2])
        self.weights = [layer.weight.detach() for layer in self.linear]
        self.affine = [
            (layer.bias.detach().transpose(1, 2), weight.transpose(1, 2).contiguous())
            for layer, weight in zip(self.linear, self.weights)
        ]
        self.d = self.weights[-1].shape[-1]
        self.scratch = {}
        self.kept = None  # a list, to keep each evaluation's layers for `pull`

    def __call__(self, t, z):
        return self.into(None, t, z)

    def into(self, out, t, z):
        """The field's value, written to `out` if there is one."""
        layers = [z]
        for (bias, weight), activation in zip(self.affine, self.activations):
            h = torch.baddbmm(bias, weight, layers[-1])
            layers.append(_activate(activation, h, self.scratch))
        if self.kept is not None:
            self.kept.append(layers)
        y = layers[-1]
        if self.second is None:
            return torch.cat([z[:, self.d :], y], 1, out=out)
        first, half = z[:, self.d // 2 :], y[:, : self.d // 2]
        return torch.cat(
            [torch.where(self.second, first, half), y[:, self.d // 2 :]], 1, out=out
        )

    def zero_grad(self):
        """Begin anew with `grads`, which are those of mlp.parameters()."""
        self.grads = [torch.zeros_like(p) for layer in self.linear for p in layer.parameters()]
        self.waiting = [([], []) for _ in self.linear]

    def pull(self, layers, grad, out):
        """The gradient with respect to z from that with respect to the field's value, which
        may be overwritten."""
        if self.second is None:
            shifted, grad = grad.tensor_split([-self.d], 1)
        else:
            first, last = grad.tensor_split(2, 1)
            shifted = torch.where(self.second, first, 0)
            grad = torch.cat([first - shifted, last], 1)
        for i in reversed(range(len(self.weights))):
            grad = _through(self.activations[i], layers[i + 1], grad)
            self._gather(i, layers[i], grad)
            grad = torch.bmm(self.weights[i], grad, out=None if i else out)
        if shifted.shape[1]:
            out[:, -shifted.shape[1] :].add_(shifted)
        return out

    def _gather(self, i, below, grad, wide=64):
        """For the parameters of layer i: wait until the product is wide enough to be fast."""
        inputs, errors = self.waiting[i]
        inputs.append(below)
        errors.append(grad)
        if len(errors) * grad.shape[2] >= wide:
            self._add(i, *self.waiting[i])

    def _add(self, i, inputs, errors):
        x, error = (w[0] if len(w) == 1 else torch.cat(w, 2) for w in (inputs, errors))
        self.grads[2 * i].baddbmm_(x, error.transpose(1, 2))
        self.grads[2 * i + 1] += error.sum(2)[:, None]
        self.waiting[i] = [], []

    def finish(self):
        """`grads`, with what was still waiting."""
        for i, waiting in enumerate(self.waiting):
            if waiting[0]:
                self._add(i, *waiting)
        return self.grads


def _activate(activation, h, scratch, many=16_000):
    """activation(h), in place where most of the time goes; scratch: {shape: a tensor}."""
    if not isinstance(activation, nn.ELU):
        return activation(h)
    if h.numel() < many:
        return nn.functional.elu_(h)
    if h.shape not in scratch:
        scratch[h.shape] = torch.empty_like(h)
    # e^h - 1 is never below h, and exp takes a third of the time of ELU's expm1.
    below = torch.clamp(h, max=0, out=scratch[h.shape])
    return torch.maximum(h, below.exp_().sub_(1), out=h)


def _through(activation, y, grad):
    """grad times the activation's slope, which its result y tells, in place."""
    aten = torch.ops.aten
    if isinstance(activation, nn.ELU):
        return aten.elu_backward.grad_input(grad, 1, 1, 1, True, y, grad_input=grad)
    if isinstance(activation, nn.Tanh):
        return aten.tanh_backward.grad_input(grad, y, grad_input=grad)
    if isinstance(activation, nn.Hardtanh):
        low, high = activation.min_val, activation.max_val
        return aten.hardtanh_backward.grad_input(grad, y, low, high, grad_input=grad)
    return grad


def pad_mask(dims, width):
    """True where a member of dimension d really has the feature: (member, width)."""
    return torch.arange(width) < torch.as_tensor(dims)[:, None]
