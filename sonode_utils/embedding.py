"""One model inside another: NODE in SONODE, SONODE in ANODE (App. E), as functions.

f and g take what the book's networks take, z: (member, batch, feature) and a time t: (),
and treat every point on its own, so that one product J v serves all points at once.
"""

import torch
from torch.autograd.functional import jvp


def node_in_sonode(f, pull=0.0):
    """The acceleration that moves x as the NODE x' = f(x, t) does, from v(t0) = f(x0, t0).

    Along x' = v the derivative of f is f_x v + f_t (Eqs. 117 and 118). Any multiple of
    f - v may be added, since it is zero on that motion: `pull` > 0 draws v to f when it
    is not there, and the paper's form is `pull` = 0.
    """

    def acceleration(z, t):
        x, v = z.chunk(2, -1)
        velocity, change = jvp(f, (x, t), (v, torch.ones_like(t)))
        return change + pull * (velocity - v)

    return acceleration


def sonode_in_anode(f, g=None):
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
