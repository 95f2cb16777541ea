"""The fields of networks whose derivative is known, in two layouts (see `fields.py`)."""

import math

import torch
from torch import Tensor, nn

from sonode_utils.solvers.fields import activate, through

COLUMNS = 64  # four of the widest vectors: no tail in any loop over them


class Network:
    """What both layouts of a network's field share.

    The field is the state without its first d features, then the network's d outputs:
    [v, f(x, v)], or f alone where d is the whole state.
    """

    timed = False

    def __init__(self, mlp: nn.Module, z0: Tensor):
        layers = list(mlp.layers)  # type: ignore[arg-type]
        self.linear, self.activations = layers[0::2], layers[1::2]
        self.parameters = [p for layer in self.linear for p in (layer.weight, layer.bias)]
        self.members, self.batch, self.features = z0.shape
        self.d = self.linear[-1].bias.shape[-1]
        self.shift = self.features - self.d

    def begin_pull(self):
        """Begin with gradients of zero."""
        torch._foreach_zero_(self.grads)


class FusedMLP(Network):
    """A network's field by batched products, feature before batch: (member, feature, batch).

    A lone member or a lone feature has an idle one beside it.
    """

    real = ...

    def __init__(self, mlp: nn.Module, z0: Tensor, per_row: bool):
        super().__init__(mlp, z0)
        members, width = max(2, self.members), max(2, self.features)
        self.shape = members, width, self.batch
        self.clock = members, 1, self.batch if per_row else 1
        hidden = [layer.bias.shape[-1] for layer in self.linear[:-1]]
        sizes = [width, *hidden, max(2, self.d)]
        pairs = list(zip(sizes[1:], sizes))
        self.weights = [z0.new_zeros(members, *pair) for pair in pairs]  # (member, out, in)
        self.biases = [z0.new_zeros(members, n, 1) for n in sizes[1:]]
        self.back = [z0.new_zeros(members, *pair[::-1]) for pair in pairs]
        self.scratch, self.errors = (
            [z0.new_zeros(members, n, self.batch) for n in sizes[1:]] for _ in "ab"
        )
        self.grads = [torch.empty_like(w) for w in (*self.weights, *self.biases)]
        self.load()

    def load(self) -> None:
        """Take over the network's weights as they are now."""
        for i, layer in enumerate(self.linear):
            weight, bias = self._own(i, self.weights[i], self.biases[i])
            weight.copy_(layer.weight.detach().transpose(1, 2))
            bias.copy_(layer.bias.detach().transpose(1, 2))
            self.back[i].copy_(self.weights[i].transpose(1, 2))

    def _own(self, i, weight, bias):
        """What of the padded layer i is the network's own."""
        n_in, n_out = self.linear[i].weight.shape[1:]
        return weight[: self.members, :n_out, :n_in], bias[: self.members, :n_out]

    def lay(self, z):
        state = z.new_zeros(*z.shape[:-3], *self.shape)
        state[..., : self.members, : self.features, :] = z.transpose(-1, -2)
        return state

    def by_clock(self, z):
        z = z.transpose(-1, -2) if self.clock[2] > 1 else z
        return z.reshape(*z.shape[:-3], math.prod(self.clock), -1)

    def from_clock(self, z):
        if self.clock[2] > 1:
            members, width, batch = self.shape
            return z.view(*z.shape[:-2], members, batch, width).transpose(-1, -2)
        return z.view(*z.shape[:-2], *self.shape)

    def read(self, path):
        return self.from_clock(path).transpose(2, 3)[:, : self.members, :, : self.features]

    def evaluation(self, *bound):
        return FusedEvaluation(self, *bound)

    def finish_pull(self):
        """The gradients of the network's parameters."""
        n, whole = len(self.linear), torch.contiguous_format
        pairs = (self._own(i, self.grads[i], self.grads[n + i]) for i in range(n))
        return [g.transpose(1, 2).clone(memory_format=whole) for pair in pairs for g in pair]


class FusedEvaluation:
    """out = field(z); grad, with respect to out, is spent on to_z and the field's grads."""

    def __init__(self, field, z, out, grad=None, to_z=None):
        n, d, own = len(field.linear), field.d, slice(field.shift, field.features)
        inside = [torch.empty_like(room) for room in field.scratch]
        plain = type(field.activations[-1]) is nn.Identity and not field.shift
        self.direct = plain and out.shape == inside[-1].shape
        if self.direct:
            inside[-1] = out
        inputs = [z, *inside[:-1]]
        self.layers = list(zip(
            field.activations, field.biases, field.weights, inputs, inside, field.scratch
        ))  # fmt: skip
        self.end = out[:, own], inside[-1][:, :d]
        self.shift = (out[:, : field.shift], z[:, d : field.features]) if field.shift else None
        if grad is None:
            return
        last = grad if self.direct else field.errors[-1]
        self.to_end, self.grad = (last[:, :d], grad[:, own]), last
        self.back = list(zip(
            field.activations, inside, field.grads[:n], field.grads[n:],
            [x.transpose(1, 2) for x in inputs], field.back, [to_z, *field.errors],
            field.scratch,
        ))[::-1]  # fmt: skip
        self.to_shift = to_z[:, d : field.features], grad[:, : field.shift]

    def value(self, t):
        for activation, bias, weight, x, y, scratch in self.layers:
            torch.baddbmm(bias, weight, x, out=y)
            activate(activation, y, scratch)
        if not self.direct:
            self.end[0].copy_(self.end[1])
        if self.shift:
            self.shift[0].copy_(self.shift[1])

    def pull(self):
        grad = self.grad
        if not self.direct:
            self.to_end[0].copy_(self.to_end[1])
        for activation, y, weight, bias, x, back, to, scratch in self.back:
            through(activation, y, grad, scratch)
            weight.baddbmm_(grad, x)
            bias.add_(grad.sum(2, keepdim=True))
            grad = torch.bmm(back, grad, out=to)
        if self.shift:
            self.to_shift[0].add_(self.to_shift[1])


class RowMLP(Network):
    """A network's field for a batch of one, member last: (feature + 1, member).

    A product is a multiplication and a sum over features: batched products of a matrix and a
    single column cost several times more. The last row of every layer is 1, for the biases.
    """

    real = slice(0, -1)

    def __init__(self, mlp: nn.Module, z0: Tensor, per_row: bool = False):
        super().__init__(mlp, z0)
        columns = -(-self.members // COLUMNS) * COLUMNS
        self.shape, self.clock = (self.features + 1, columns), (1, columns)
        sizes = [(w.shape[2], w.shape[1] + 1) for w in self.parameters[::2]]
        self.weights = [z0.new_zeros(*size, columns) for size in sizes]  # (out, in + 1, member)
        self.products, self.grads = ([torch.empty_like(w) for w in self.weights] for _ in "ab")
        self.scratch = [z0.new_empty(len(w), columns) for w in self.weights]
        self.load()

    def load(self) -> None:
        """Take over the network's weights as they are now."""
        for mine, layer in zip(self.weights, self.linear):
            both = torch.cat([layer.weight, layer.bias], 1).detach()
            mine[..., : self.members] = both.permute(2, 1, 0)

    def lay(self, z):
        state = z.new_zeros(*z.shape[:-3], *self.shape)
        state[..., : self.features, : self.members] = z[..., 0, :].transpose(-1, -2)
        state[..., -1, :] = 1
        return state

    def by_clock(self, z):
        return z[..., :-1, :].transpose(-1, -2).contiguous()

    def from_clock(self, z):
        return nn.functional.pad(z.transpose(-1, -2), (0, 0, 0, 1))

    def read(self, path):
        return path[:, : self.members, None]

    def evaluation(self, *bound):
        return RowEvaluation(self, *bound)

    def finish_pull(self):
        """The gradients of the network's parameters."""
        both = [grad[..., : self.members].permute(2, 1, 0) for grad in self.grads]
        parts = (part for grad in both for part in (grad[:, :-1], grad[:, -1:]))
        return [part.clone(memory_format=torch.contiguous_format) for part in parts]


class RowEvaluation:
    """out = field(z); grad, with respect to out, is spent on to_z and the field's grads."""

    def __init__(self, field, z, out, grad=None, to_z=None):
        inside = [z.new_ones(len(w) + 1, z.shape[1]) for w in field.weights[:-1]]
        plain = type(field.activations[-1]) is nn.Identity
        end = out[field.shift : -1]
        last = end if plain else torch.empty_like(end)
        results = [*(y[:-1] for y in inside), last]
        self.layers = list(zip(
            field.activations, field.weights, field.products, [z, *inside], results
        ))  # fmt: skip
        self.result = None if plain else (end, last)
        self.shift = (out[: field.shift], z[field.d : -1]) if field.shift else None
        if grad is None:
            return
        to = [to_z, *(torch.empty_like(y) for y in inside)]
        errors = [*(y[:-1] for y in to[1:]), grad[field.shift : -1]]
        self.back = list(zip(
            field.activations, results, errors, [e[:, None] for e in errors], field.grads,
            [z, *inside], field.weights, field.products, to, field.scratch,
        ))[::-1]  # fmt: skip
        if field.shift:
            self.shifted = to_z[field.d : -1], grad[: field.shift]

    def value(self, t):
        for activation, weight, product, x, y in self.layers:
            torch.mul(weight, x, out=product)
            torch.sum(product, 1, out=y)
            activate(activation, y, None)
        if self.result is not None:
            self.result[0].copy_(self.result[1])
        if self.shift is not None:
            self.shift[0].copy_(self.shift[1])

    def pull(self):
        for activation, y, error, column, grads, x, weight, product, to, scratch in self.back:
            through(activation, y, error, scratch)
            grads.addcmul_(column, x)
            torch.mul(weight, column, out=product)
            torch.sum(product, 0, out=to)
        if self.shift is not None:
            self.shifted[0].add_(self.shifted[1])
