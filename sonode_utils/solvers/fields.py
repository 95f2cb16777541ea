"""Fields as the batched `dopri5` sees them: a layout of the state, values, and derivatives.

A field has a `shape` for the state, a shape `clock` in which one number per clock goes with it,
`lay`s out (member, batch, feature), shows it clock by clock (`by_clock`: (clock, number), and
`from_clock`), and `read`s that back. An `evaluation` of it is bound to the tensors that it
reads and writes, so that every view of them is made once: `value` computes, `pull` takes a
gradient back through it (only for the networks that are known).

What a member computes must not depend on who stands beside it, to the last bit. Libraries
compute thin products and the tails of vector loops in another way than the rest, so there are
none: columns come in multiples of 64, matrices have two rows and batched products two members.
"""

import math

import torch
from torch import Tensor, nn


class PlainField:
    """Any field(t, z), in the layout of `integrate`: values, and autograd for derivatives."""

    timed, rows, axis = True, slice(None), None

    def __init__(self, field, z0: Tensor, per_row: bool):
        self.field, self.shape = field, z0.shape
        self.clock = (*z0.shape[: 1 + per_row], *[1] * (2 - per_row))

    def lay(self, z):
        return z

    def by_clock(self, z):
        return z.reshape(*z.shape[:-3], math.prod(self.clock), -1)

    def read(self, path):
        return path.reshape(len(path), *self.shape)

    def evaluation(self, *bound):
        return PlainEvaluation(self, *bound)

    def __call__(self, t, z):
        dz = self.field(t, z)
        if dz.shape != z.shape:
            raise ValueError(f"field returns {tuple(dz.shape)} where z is {tuple(z.shape)}")
        return dz


class PlainEvaluation:
    """out = field(t, z)."""

    def __init__(self, field, z, out, grad=None, to_z=None):
        self.field, self.z, self.out = field, z, out

    def value(self, t):
        self.out.copy_(self.field(t, self.z))


def activate(activation, h: Tensor, scratch: Tensor | None) -> None:
    """activation(h) in place, each number the same wherever it stands.

    scratch: as h; None where h has no tail, so that torch's own ELU will do.
    """
    kind = type(activation)
    if kind is nn.ELU and scratch is None:
        nn.functional.elu_(h)
    elif kind is nn.ELU:  # e^h - 1 is never below h, and exp takes a third of the time of expm1
        below = torch.clamp(h, max=0, out=scratch)
        torch.maximum(h, below.exp_().sub_(1), out=h)
    elif kind is nn.Tanh:
        h.tanh_()
    elif kind is nn.Hardtanh:
        h.clamp_(activation.min_val, activation.max_val)


def through(activation, y: Tensor, grad: Tensor, scratch: Tensor) -> None:
    """grad times the activation's slope, which its result y tells, in place."""
    kind = type(activation)
    if kind is nn.ELU:  # y + 1 below 0
        torch.ops.aten.elu_backward.grad_input(grad, 1, 1, 1, True, y, grad_input=grad)
    elif kind is nn.Tanh:
        grad.addcmul_(grad, torch.mul(y, y, out=scratch), value=-1)
    elif kind is nn.Hardtanh:
        grad.mul_((y > activation.min_val) & (y < activation.max_val))
