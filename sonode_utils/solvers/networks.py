"""The fields of networks whose derivative is known, in two layouts (see `fields.py`)."""

import copy
import math

import torch
from torch import Tensor, nn

from sonode_utils.solvers.fields import activate, through

COLUMNS = 64  # four of the widest vectors: no tail in any loop over them


class Network:
    """What both layouts of a network's field share.

    The field is the state without its first d features, then the network's d outputs:
    [v, f(x, v)], or f alone where d is the whole state. `rows` are those of a state or layer
    that are features; the members lie along `axis`, in multiples of `least`.
    """

    timed, rows = False, slice(None)

    def __init__(self, mlp: nn.Module, z0: Tensor):
        layers = list(mlp.layers)  # type: ignore[arg-type]
        self.linear, self.activations = layers[0::2], layers[1::2]
        self.parameters = [p for layer in self.linear for p in (layer.weight, layer.bias)]
        self.members, self.batch, self.features = z0.shape
        self.d = self.linear[-1].bias.shape[-1]
        self.shift = self.features - self.d

    def load(self):
        """Take over the network's weights as they are now."""
        for mine, parameter in zip(self.like_parameters(self.weights), self.parameters):
            mine.copy_(parameter.detach())

    def lay(self, z):
        state = z.new_zeros(*z.shape[:-3], *self.shape)
        self.show(state).copy_(z)
        return state

    def read(self, path):
        return self.show(self.from_clock(path))

    def by_clock(self, z):
        z = z[..., self.rows, :]
        z = z.transpose(-1, -2) if self.clock[2] > 1 else z
        return z.reshape(*z.shape[:-3], math.prod(self.clock), -1)

    def from_clock(self, z):
        if self.clock[2] == 1:
            return z.view(*z.shape[:-2], *self.shape)
        return z.view(*z.shape[:-2], *self.shape[::2], -1).transpose(-1, -2)

    def few(self, which):
        """The field of a few members, numbered as they stand in the layout."""
        few, axis = copy.copy(self), self.axis % 3
        for name in ("weights", "grads", "scratch", "errors", self.other):
            tensors = getattr(self, name)
            setattr(few, name, [v.index_select(self.axis, which) for v in tensors])
        few.shape, few.clock = (
            (*sizes[:axis], len(which), *sizes[axis + 1 :])
            for sizes in (self.shape, self.clock)
        )
        return few

    def begin_pull(self):
        """Begin with gradients of zero."""
        torch._foreach_zero_(self.grads)

    def finish_pull(self):
        """The gradients of the network's parameters."""
        grads = self.like_parameters(self.grads)
        return [grad.clone(memory_format=torch.contiguous_format) for grad in grads]

    def evaluation(self, *bound):
        return Evaluation(self, *bound)


class Evaluation:
    """out = field(z); grad, with respect to out, is spent on to_z and the field's grads."""

    def __init__(self, field, z, out, grad=None, to_z=None):
        own, shift, d = slice(field.shift, field.features), field.shift, field.d
        *hidden, last = (torch.ones_like(room) for room in field.errors)
        end, last = out[:, own], last[:, field.rows]
        plain = type(field.activations[-1]) is nn.Identity and end.is_contiguous()
        direct = plain and end.shape == last.shape
        inputs, results = [z, *hidden], [*(y[:, field.rows] for y in hidden), last]
        self.field, self.ends = field, [] if direct else [(end, last[:, :d])]
        if direct:
            results[-1] = end
        if shift:
            self.ends += [(out[:, :shift], z[:, d : field.features])]
        self.layers = list(enumerate(zip(inputs, results)))
        if grad is None:
            return
        *errors, to_end = (error[:, field.rows] for error in field.errors)
        self.to_ends = [] if direct else [(to_end[:, :d], grad[:, own])]
        self.to_shift = [(to_z[:, d : field.features], grad[:, :shift])] if shift else []
        errors += [grad[:, own] if direct else to_end]
        views = [field.views(*pair) for pair in zip(inputs, errors)]
        to = [to_z, *field.errors]
        self.back = list(enumerate(zip(results, errors, views, to)))[::-1]

    def value(self, t) -> None:
        for i, (x, y) in self.layers:
            self.field.layer(i, x, y)
        for to, result in self.ends:
            to.copy_(result)

    def pull(self) -> None:
        field = self.field
        for to, grad in self.to_ends:
            to.copy_(grad)
        for i, (y, error, views, to) in self.back:
            through(field.activations[i], y, error, field.scratch[i])
            field.pull(i, *views, to)
        for to, grad in self.to_shift:
            to.add_(grad)


class FusedMLP(Network):
    """A network's field by batched products, feature before batch: (member, feature, batch).

    A lone member or a lone feature has an idle one beside it.
    """

    axis, least, other = -3, 2, "back"

    def __init__(self, mlp: nn.Module, z0: Tensor, per_row: bool):
        super().__init__(mlp, z0)
        members, width = max(2, self.members), max(2, self.features)
        self.shape = members, width, self.batch
        self.clock = members, 1, self.batch if per_row else 1
        hidden = [layer.bias.shape[-1] for layer in self.linear[:-1]]
        sizes = [width, *hidden, max(2, self.d)]
        pairs = list(zip(sizes[1:], sizes))
        self.weights = [  # (member, out, in), then the biases: (member, out, 1)
            z0.new_zeros(members, *shape) for shape in [*pairs, *((n, 1) for n in sizes[1:])]
        ]
        self.back = [z0.new_zeros(members, *pair[::-1]) for pair in pairs]
        self.scratch, self.errors = (
            [z0.new_zeros(members, n, self.batch) for n in sizes[1:]] for _ in "ab"
        )
        self.grads = [torch.empty_like(w) for w in self.weights]
        self.load()

    def like_parameters(self, tensors):
        """Of tensors like the weights, what is the network's own, in its order and shapes."""
        n = len(self.linear)
        both = [
            tensor.mT[: self.members] for pair in zip(tensors, tensors[n:]) for tensor in pair
        ]
        return [v[:, : p.shape[1], : p.shape[2]] for v, p in zip(both, self.parameters)]

    def load(self):
        super().load()
        for back, weight in zip(self.back, self.weights):
            back.copy_(weight.mT)

    def show(self, state):
        """The network's own part of a state: (..., member, batch, feature)."""
        return state.mT[..., : self.members, :, : self.features]

    def layer(self, i, x, y):
        """y = activation(weight x + bias)"""
        torch.baddbmm(self.weights[len(self.linear) + i], self.weights[i], x, out=y)
        activate(self.activations[i], y, self.scratch[i])

    def views(self, x, error):
        return error, x.mT

    def pull(self, i, error, x, to):
        """Gather the gradients of layer i, and take the error to its input."""
        self.grads[i].baddbmm_(error, x)
        self.grads[len(self.linear) + i].add_(error.sum(2, keepdim=True))
        torch.bmm(self.back[i], error, out=to)


class RowMLP(Network):
    """A network's field for a batch of one, member last: (1, feature + 1, member).

    A product is a multiplication and a sum over features: batched products of a matrix and a
    single column cost several times more. The last row of every layer is 1, for the biases.
    """

    rows, axis, least, other = slice(-1), -1, COLUMNS, "products"

    def __init__(self, mlp: nn.Module, z0: Tensor, per_row: bool = False):
        super().__init__(mlp, z0)
        columns = -(-self.members // COLUMNS) * COLUMNS
        self.shape, self.clock = (1, self.features + 1, columns), (1, 1, columns)
        sizes = [(w.shape[2], w.shape[1] + 1) for w in self.parameters[::2]]
        self.weights = [
            z0.new_zeros(1, *size, columns) for size in sizes
        ]  # (1, out, in + 1, member)
        self.products, self.grads = ([torch.empty_like(w) for w in self.weights] for _ in "ab")
        self.errors = [z0.new_empty(1, n + 1, columns) for n, _ in sizes]
        self.scratch = [torch.empty_like(error[:, :-1]) for error in self.errors]
        self.load()

    def like_parameters(self, tensors):
        """Tensors like the weights in the order and shapes of the network's parameters."""
        both = [tensor[0].permute(2, 1, 0)[: self.members] for tensor in tensors]
        return [part for tensor in both for part in (tensor[:, :-1], tensor[:, -1:])]

    def lay(self, z):
        state = super().lay(z)
        state[..., -1, :] = 1
        return state

    def from_clock(self, z):
        return nn.functional.pad(super().from_clock(z), (0, 0, 0, 1))

    def show(self, state):
        """The network's own part of a state: (..., member, batch, feature)."""
        return state.movedim(-1, -3)[..., : self.members, :, : self.features]

    def layer(self, i, x, y):
        """y = activation(weight x), the bias among the weights"""
        torch.mul(self.weights[i], x, out=self.products[i])
        torch.sum(self.products[i], 2, out=y)
        activate(self.activations[i], y, None)

    def views(self, x, error):
        return error[:, :, None], x

    def pull(self, i, error, x, to):
        """Gather the gradients of layer i, and take the error to its input."""
        self.grads[i].addcmul_(error, x)
        torch.mul(self.weights[i], error, out=self.products[i])
        torch.sum(self.products[i], 1, out=to)
