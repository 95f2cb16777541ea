"""How a first order model behaves as a second order one: Propositions 5.1 and 5.2 as code."""

import torch
from torch.func import jacrev, vmap


def second_order_anode(F, f, d):
    """The field of the ANODE x' = F(x, a, t), a' = G(x, a, t) in which x'' = f(x, x', t).

    Differentiating x' = F along the flow gives F_x F + F_a G + F_t = f, and so
    G = F_a^+ (f - F_x F - F_t) with the pseudo-inverse of F_a = dF/da: the inverse where
    F_a is square, the least squares solution where a is smaller than x, and the smallest
    of many solutions where it is larger.

    F, f: on single points, x: (d,), a: (n,), t: () -> (d,). Returns field(t, z) for
    z = [x, a]: (member, batch, d + n), as `integrate` takes it.
    """

    def one(z, t):
        x, a = z[:d], z[d:]
        F_x, F_a, F_t = jacrev(F, argnums=(0, 1, 2))(x, a, t)
        v = F(x, a, t)
        return torch.cat([v, torch.linalg.pinv(F_a) @ (f(x, v, t) - F_x @ v - F_t)])

    return lambda t, z: vmap(vmap(one, (0, None)), (0, None))(z, t)


def with_gauge(F, phi):
    """The same velocity seen through another augmented path: F + phi(x) (Prop. 5.2)."""
    return lambda x, a, t: F(x, a, t) + phi(x)
