"""Linear recurrences z[n] = A[n] z[n-1] + b[n] over all n at once, with exact gradients.

Two steps make one of the same kind, z[n+1] = (A[n+1] A[n]) z[n-1] + (A[n+1] b[n] + b[n+1]), so
pairs are merged, and pairs of pairs: an associative scan, in log2(n) rounds.
"""

import torch
from torch import Tensor


class Recurrence(torch.autograd.Function):
    """z[n+1] = F[n] + A[n] (z[n] - guess[n]) from z0, with gradients for F and z0 alone.

    A: (feature, feature, n, member); F, guess: (feature, n, member) -> (feature, n + 1, member)
    """

    @staticmethod
    def forward(ctx, A, F, guess, z0):
        ctx.save_for_backward(A)
        shift = guess.clone()  # b = F - A guess, and the first step starts from z0
        shift[:, 0] -= z0
        return torch.cat([z0[:, None], scan(A, _plus(F, A, shift, -1))], 1)

    @staticmethod
    def backward(ctx, grad):
        """r[n] = grad[n] + A[n]^T r[n+1], from the last sample to the first."""
        first_derivatives_only()
        (A,) = ctx.saved_tensors
        back = torch.cat([torch.zeros_like(A[:, :, :1]), A.transpose(0, 1).flip(2)], 2)
        r = scan(back, grad.flip(1)).flip(1)
        return None, r[:, 1:], None, r[:, 0]


class ConstantRecurrence(torch.autograd.Function):
    """z[n+1] = A z[n] + b[n] from z0, with A: (feature, feature, member) the same for all n."""

    @staticmethod
    def forward(ctx, A, b, z0):
        z = scan_constant(A, torch.cat([z0[:, None], b], 1))
        ctx.save_for_backward(A, z)
        return z

    @staticmethod
    def backward(ctx, grad):
        """r[n] = grad[n] + A^T r[n+1]; A has a share in every step."""
        first_derivatives_only()
        A, z = ctx.saved_tensors
        r = scan_constant(A.transpose(0, 1), grad.flip(1)).flip(1)
        to_A = (r[:, None, 1:] * z[:, :-1]).mT.contiguous().sum(-1)  # members apart
        return to_A, r[:, 1:], r[:, 0]


def first_derivatives_only() -> None:
    """Refuse, in a backward pass, a second one; `once_differentiable` can be passed by."""
    if torch.is_grad_enabled():
        raise RuntimeError("this solve has first derivatives only: create_graph accepts False")


def scan(A: Tensor, b: Tensor) -> Tensor:
    """z[n] = A[n] z[n-1] + b[n] for all n, with z[-1] = 0.

    A: (feature, feature, n, member), b: (feature, n, member) -> z as b
    """
    return _scan(torch.cat([A, b[:, None]], 1))


def _scan(steps):
    """`scan` of steps [A | b]: (feature, feature + 1, n, member)."""
    if steps.shape[2] == 1:
        return steps[:, -1]
    first, (*columns, b) = steps[:, :, :-1:2], steps[:, :, 1::2].unbind(1)
    pair = columns[0][:, None] * first[0]  # [A1 A0 | A1 b0 + b1], over the inner index
    for column, row in zip(columns[1:], first[1:]):
        pair = torch.addcmul(pair, column[:, None], row)
    pair[:, -1] += b
    return _between(_scan(pair), steps[:, :-1], steps[:, -1])


def scan_constant(A: Tensor, b: Tensor) -> Tensor:
    """`scan` with one A for all n, (feature, feature, member): a pair's is its square."""
    if b.shape[1] == 1:
        return b
    wide = A[:, :, None].expand(-1, -1, b.shape[1], -1)
    pair = _plus(b[:, 1::2], wide[:, :, 1::2], b[:, :-1:2])
    return _between(scan_constant((A[:, :, None] * A).sum(1), pair), wide, b)


def _between(odd, A, b):
    """z[n] at all n, of which `odd` has every second one from n = 1 on."""
    z = torch.empty_like(b)
    z[:, 0], z[:, 1::2] = b[:, 0], odd
    z[:, 2::2] = _plus(b[:, 2::2], A[:, :, 2::2], odd[:, : (b.shape[1] - 1) // 2])
    return z


def _plus(b, A, z, sign=1):
    """b + sign A z at each (n, member)."""
    for column, row in zip(A.unbind(1), z):
        b = torch.addcmul(b, column, row, value=sign)
    return b
