"""Second order behaviour in other forms (Prop. 5.1, 5.2), and one model inside another.

Functions f and g take what the book's networks take, z: (member, batch, feature) and the time
t: (member, 1, 1), and treat every point on its own: one product J v serves all points.
"""

from collections.abc import Callable

import torch
from torch.autograd.functional import jvp
from torch.func import jacrev, vmap


def second_order_anode(F: Callable, f: Callable, d: int) -> Callable:
    """The field of the ANODE x' = F(x, a, t), a' = G(x, a, t) in which x'' = f(x, x', t).

    Differentiating x' = F along the flow gives F_x F + F_a G + F_t = f, and so
    G = F_a^+ (f - F_x F - F_t) with the pseudo-inverse of F_a = dF/da: the inverse where F_a
    is square, least squares where a is smaller than x, the smallest solution where larger.
    F, f: on single points, x: (d,), a: (n,), t: () -> (d,). Returns field(t, z) for
    z = [x, a]: (member, batch, d + n), as `integrate` takes it.
    """

    def one(z, t):
        x, a = z[:d], z[d:]
        F_x, F_a, F_t = jacrev(F, argnums=(0, 1, 2))(x, a, t)
        v = F(x, a, t)
        return torch.cat([v, torch.linalg.pinv(F_a) @ (f(x, v, t) - F_x @ v - F_t)])

    def field(t, z):
        times = torch.as_tensor(t).to(z).expand(*z.shape[:2], 1)[..., 0]
        return vmap(vmap(one))(z, times)

    return field


def with_gauge(F: Callable, phi: Callable) -> Callable:
    """F + phi(x): the same velocity seen through another augmented path (Prop. 5.2)."""
    return lambda x, a, t: F(x, a, t) + phi(x)


def node_in_sonode(f: Callable, pull: float = 0.0) -> Callable:
    """The acceleration that moves x as the NODE x' = f(x, t) does, from v(t0) = f(x0, t0).

    Along x' = v the derivative of f is f_x v + f_t (Eqs. 117 and 118). Any multiple of f - v
    may be added, since it is zero on that motion: `pull` > 0 draws v to f (the paper: 0).
    """

    def acceleration(z, t):
        x, v = z.chunk(2, -1)
        velocity, change = jvp(f, (x, t), (v, torch.ones_like(t)))
        return change + pull * (velocity - v)

    return acceleration


def sonode_in_anode(f: Callable, g: Callable | None = None) -> Callable:
    """The field of [x, a] in which x'' = f([x, x'], t), for ANODE(..., augment=d).

    Without g, a is the velocity and must start there: a(t0) = g(x0) is learnt. With g it
    starts at zero, the velocity is a + g(x), and a' makes up for the motion of g(x).
    """

    def field(z, t):
        x, a = z.chunk(2, -1)
        if g is None:
            return torch.cat([a, f(z, t)], -1)
        v = a + g(x)
        _, change = jvp(g, x, v)
        return torch.cat([v, f(torch.cat([x, v], -1), t) - change], -1)

    return field
