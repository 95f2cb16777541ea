"""The forced Van der Pol oscillator (App. E), and linear models driven as it is."""

import math

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import nn

from sonode_utils.ensemble import EnsembleLinear

MU, OMEGA = 8.53, 0.2 * math.pi  # Eq. 115: x'' = MU (1 - x^2) x' - x + A cos(OMEGA t)
START = (0.1, 0.0)


def van_der_pol(times, amplitude, method="LSODA", tol=1e-11, start=START):
    """Position and velocity at `times` by scipy's solver: its result, y: (2, time)."""

    def field(t, z):
        x, v = z
        return v, MU * (1 - x * x) * v - x + amplitude * math.cos(OMEGA * t)

    def jacobian(t, z):
        x, v = z
        return ((0, 1), (-2 * MU * x * v - 1, MU * (1 - x * x)))

    implicit = {"jac": jacobian} if method in ("LSODA", "Radau", "BDF") else {}
    return solve_ivp(
        field, (times[0], times[-1]), start, method, times, rtol=tol, atol=tol, **implicit
    )


def van_der_pol_tangent(amplitude):
    """The field and its derivative along a displacement, as `lyapunov.growth` takes them.

    amplitude: a number, or one for each start. y: (2, feature, start), state, displacement
    """

    def tangent(t, y):
        (x, v), (dx, dv) = y
        damping = MU * (1 - x * x)
        dy = np.empty_like(y)
        dy[:, 0] = y[:, 1]
        dy[0, 1] = damping * v - x + amplitude * math.cos(OMEGA * t)
        dy[1, 1] = damping * dv - (2 * MU * x * v + 1) * dx
        return dy

    return tangent


class ForcedLinear(nn.Module):
    """f([z, cos(OMEGA t)]): the paper's linear architecture, one weight matrix and a bias.

    z: (member, batch, 2) -> (member, batch, n_out)
    """

    def __init__(self, n_out, rng):
        super().__init__()
        self.linear = EnsembleLinear(3, n_out, rng)

    def forward(self, z, t):
        u = torch.cos(OMEGA * torch.as_tensor(t, dtype=z.dtype))
        return self.linear(torch.cat([z, u.expand(*z.shape[:-1], 1)], -1))


def generator(model, members):
    """K of the closed linear system s' = K s, s = [z, cos, sin, 1]: (member, 5, 5).

    Read off the model's own field, which is affine in z and in the forcing: its values at
    the origin and at two unit vectors, with the forcing on (t = 0) and off (a quarter turn).
    """
    probes = torch.eye(3, 2, dtype=torch.float64).expand(members, 3, 2)
    on, off = (model.field(t, probes) for t in (0.0, math.pi / 2 / OMEGA))
    constant, forcing = off[:, 2:].mT, (on - off)[:, 2:].mT
    matrix = off[:, :2].mT - constant
    top = torch.cat([matrix, forcing, torch.zeros_like(constant), constant], -1)
    clock = torch.zeros(3, 5, dtype=torch.float64)
    clock[0, 3], clock[1, 2] = -OMEGA, OMEGA
    return torch.cat([top, clock.expand(members, 3, 5)], 1)


def exact_path(model, x0, step, count):
    """The states of an affine model in double precision without a solver's error.

    Over one step of the grid s goes to expm(K step) s, so the path is a product with one
    5 x 5 matrix a point. x0: (member, 1, 1) -> (time, member, 1, 2), as `model(...).z`
    """
    propagate = torch.matrix_exp(step * generator(model, len(x0)))
    clock = x0.new_tensor([1.0, 0.0, 1.0]).expand(len(x0), 1, 3)
    s = [torch.cat([model.initial_state(x0), clock], -1).mT]
    for _ in range(count - 1):
        s.append(propagate @ s[-1])
    return torch.stack(s)[..., :2, :].mT


def linear_floor(times, x, growth, square, feedthrough):
    """Least mean square error of the linear models with a given free motion.

    The free motion is e^(growth t) times cos and sin of nu t, nu^2 = square (below zero:
    two real rates). All else about a linear model enters x(t) linearly, the start x[0]
    being given: the initial slope, a constant, and the answer to the forcing. SONODE can
    only scale that answer; with a `feedthrough` (ANODE(1), the forcing in both rows) its
    cosine and sine are free. times, x: (time,); growth, square: (grid,) -> (grid,)
    """
    sigma, nu = growth[:, None], np.sqrt(square.astype(complex))[:, None]
    swell = np.exp(sigma * times)
    cosine = swell * np.cos(nu * times).real
    sine = swell * (times * np.sinc(nu * times / math.pi)).real
    turn = np.exp(1j * OMEGA * times)
    if feedthrough:
        answers = [np.broadcast_to(part, cosine.shape) for part in (turn.real, turn.imag)]
    else:  # 1 / (s^2 - 2 growth s + growth^2 + nu^2) at s = i OMEGA, up to scale
        answers = [(turn / ((1j * OMEGA - sigma) ** 2 + nu**2)).real]
    columns = [sine, 1 - cosine] + [a - a[:, :1] * cosine for a in answers]
    q, _ = np.linalg.qr(np.stack(columns, -1))
    rest = x - x[0] * cosine
    along = np.einsum("gtk,gt->gk", q, rest)
    return ((rest**2).sum(1) - (along**2).sum(1)) / len(times)
