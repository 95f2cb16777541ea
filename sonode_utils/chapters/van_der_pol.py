"""The forced Van der Pol oscillator (App. E), its Lyapunov exponent, linear models of it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor, nn

from sonode_utils.ensemble import EnsembleLinear, Streams, stream
from sonode_utils.models import NODE

Array = np.ndarray
MU, OMEGA = 8.53, 0.2 * math.pi  # Eq. 115: x'' = MU (1 - x^2) x' - x + A cos(OMEGA t)
START = (0.1, 0.0)


def _field(t, z, amplitude):
    x, v = z
    return v, MU * (1 - x * x) * v - x + amplitude * math.cos(OMEGA * t)


def _jacobian(t, z, amplitude):
    x, v = z
    return (0, 1), (-2 * MU * x * v - 1, MU * (1 - x * x))


def van_der_pol(times: Array, amplitude: float, method="LSODA", tol=1e-11, start=START) -> Any:
    """Position and velocity at `times` by scipy's solver: its result, y: (2, time)."""
    options: dict = {"args": (amplitude,), "rtol": tol, "atol": tol}
    options |= {"jac": _jacobian} if method in ("LSODA", "Radau", "BDF") else {}
    return solve_ivp(_field, times[[0, -1]], start, method, times, **options)


def van_der_pol_tangent(amplitude) -> Callable:
    """The field and its derivative along a displacement, as `growth` takes them."""

    def tangent(t, y):
        z, (dx, dv) = y
        _, (by_x, by_v) = _jacobian(t, z, amplitude)
        return np.array([_field(t, z, amplitude), (dv, by_v * dv + by_x * dx)])

    return tangent


class ForcedLinear(nn.Module):
    """f([z, cos(OMEGA t)]): the paper's linear architecture, one weight matrix and a bias.

    z: (member, batch, 2) -> (member, batch, n_out)
    """

    def __init__(self, n_out: int, rng: Streams):
        super().__init__()
        self.linear = EnsembleLinear(3, n_out, rng)

    def forward(self, z: Tensor, t) -> Tensor:
        u = torch.cos(OMEGA * torch.as_tensor(t, dtype=z.dtype))
        return self.linear(torch.cat([z, u.expand(*z.shape[:-1], 1)], -1))


def system_matrix(model: NODE, members: int) -> Tensor:
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


def exact_path(model: NODE, x0: Tensor, step: float, count: int) -> Tensor:
    """The states of an affine model in double precision without a solver's error.

    Over one step of the grid s goes to expm(K step) s, so the path is a product with one
    5 x 5 matrix per point. x0: (member, 1, 1) -> (time, member, 1, 2), as `model(...).z`
    """
    propagate = torch.matrix_exp(step * system_matrix(model, len(x0)))
    clock = x0.new_tensor([1.0, 0.0, 1.0]).expand(len(x0), 1, 3)
    s = [torch.cat([model.initial_state(x0), clock], -1).mT]
    for _ in range(count - 1):
        s.append(propagate @ s[-1])
    return torch.stack(s)[..., :2, :].mT


def linear_floor(times: Array, x: Array, rate: Array, square: Array, feedthrough) -> Array:
    """Least mean square error of the linear models with a given free motion.

    The free motion is e^(rate t) times cos and sin of nu t, nu^2 = square (below zero: two real
    rates). All else enters x(t) linearly, x[0] being given: the initial slope, a constant, the
    answer to the forcing. SONODE can only scale that; with a `feedthrough` (ANODE(1)) its
    cosine and sine are free. times, x: (time,); rate, square: (grid,) -> (grid,)
    """
    sigma, nu = rate[:, None], np.sqrt(square.astype(complex))[:, None]
    swell = np.exp(sigma * times)
    cosine = swell * np.cos(nu * times).real
    sine = swell * (times * np.sinc(nu * times / math.pi)).real
    turn = np.exp(1j * OMEGA * times)
    if feedthrough:
        answers = [np.broadcast_to(part, cosine.shape) for part in (turn.real, turn.imag)]
    else:  # 1 / (s^2 - 2 rate s + rate^2 + nu^2) at s = i OMEGA, up to scale
        answers = [(turn / ((1j * OMEGA - sigma) ** 2 + nu**2)).real]
    columns = [sine, 1 - cosine] + [a - a[:, :1] * cosine for a in answers]
    q, _ = np.linalg.qr(np.stack(columns, -1))
    rest = x - x[0] * cosine
    along = np.einsum("gtk,gt->gk", q, rest)
    return ((rest**2).sum(1) - (along**2).sum(1)) / len(times)


def growth(tangent: Callable, z: Array, *, spans: int, steps: int, h: float) -> tuple:
    """Log growth of a small displacement over each of `spans` stretches of `steps` steps.

    z: (feature, start), followed by the classical Runge-Kutta method with step h, together with
    a displacement that is scaled back to length 1 after each stretch. tangent(t, y): the rate
    of y: (2, feature, start), state and displacement. -> logs (span, start), states
    """
    displacement = np.ones_like(z) / np.sqrt(len(z))
    y, logs, states = np.stack([z, displacement]), [], []
    for n in range(spans):
        for i in range(n * steps, (n + 1) * steps):
            y = runge_kutta(tangent, i * h, y, h)
        length = np.linalg.norm(y[1], axis=0)
        y[1] /= length
        logs.append(np.log(length))
        states.append(y[0].copy())
    return np.array(logs), np.array(states)


def runge_kutta(field: Callable, t: float, y: Array, h: float) -> Array:
    """One classical step of y' = field(t, y)."""
    k1 = field(t, y)
    k2 = field(t + h / 2, y + h / 2 * k1)
    k3 = field(t + h / 2, y + h / 2 * k2)
    k4 = field(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * (k2 + k3) + k4)


def exponent(logs: Array, span: float, blocks: int = 12, resamples: int = 4000) -> tuple:
    """Mean rate and its 95 % interval, by a two-way bootstrap: (mean, low, high).

    Neither stretches nor starts are independent, so whole starts and whole blocks of
    consecutive stretches are resampled, both at once.
    logs: (span, start), from `growth`; span: the time of a stretch.
    """
    parts = np.array_split(logs / span, min(blocks, len(logs)))
    rates = np.stack([part.mean(0) for part in parts])  # (block, start)
    rng = stream("bootstrap of a Lyapunov exponent", 0)
    weights = (rng.multinomial(n, np.full(n, 1 / n), resamples) / n for n in rates.shape)
    means = np.einsum("rb,bs,rs->r", next(weights), rates, next(weights), optimize=True)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(logs.mean() / span), float(low), float(high)
