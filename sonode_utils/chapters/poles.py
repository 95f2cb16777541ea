"""Linear equations with a sampled input, solved exactly, and the best one for given poles.

An equation x^(d) = w . [x, x', ..., x^(d-1)] + input is fixed by its d poles and by how the
input enters. With the poles chosen, the solution is *linear* in all that is left, which one
linear least squares finds: the loss becomes a function of the poles (variable projection).
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.signal import cont2discrete, lfilter

Array = np.ndarray


class PoleFit(NamedTuple):
    """x: (sample,), the free run; mse: over the samples it was fitted to, and over the rest;
    poles: (d,), per sample; weights: of input and derivatives, constant, initial state."""

    x: Array
    mse: tuple
    poles: Array
    weights: Array


def companion(poles: Array) -> Array:
    """The matrix of [x, x', ...]' for an equation with these poles: (d, d), real."""
    return np.vstack([np.eye(len(poles))[1:], -np.poly(poles).real[:0:-1]])


def basis(poles: Array, u: Array, derivatives: int = 0) -> Array:
    """All that x can do with these poles: (sample, derivatives + d + 2).

    Columns: the responses to u (straight lines between its samples) and to its derivatives
    (up to d of them; u' in the highest derivative is u in the one below it), to a constant,
    and to each initial derivative from the highest down to x(0) = 1, which comes last.
    """
    a, d = companion(poles), len(poles)
    p, b, _, after, _ = cont2discrete((a, np.eye(d), np.eye(d), np.zeros((d, d))), 1, "foh")
    now = b - p @ after  # z[n+1] = p z[n] + now u[n] + after u[n+1], u straight between
    denominator, rows = np.poly(np.exp(poles)).real, [np.eye(d)]
    for c in denominator[1:-1]:  # x from what enters each row, by Faddeev and LeVerrier
        rows.append(p @ rows[-1] + c * np.eye(d))
    numerators = np.array(rows)[:, 0]  # (power, row)

    def answer(row, signal):
        pairs = (now, np.r_[0, signal[:-1]]), (after, np.r_[0, signal[1:]])
        return sum(lfilter(numerators @ w[:, row], denominator, s) for w, s in pairs)

    impulse = np.r_[1, np.zeros(len(u) - 1)]
    starts = [lfilter(numerators[:, row], denominator, impulse) for row in range(d)]
    forced = [answer(d - 1 - k, u) for k in range(min(derivatives + 1, d))]
    direct = [u - u[0] * starts[0]] if derivatives == d else []  # x = ... + u
    return np.stack(forced + direct + [answer(d - 1, np.ones_like(u))] + starts[::-1], 1)


def fit_given_poles(poles: Array, u: Array, x: Array, samples: int, derivatives=0) -> PoleFit:
    """The best equation with these poles on the first `samples` of x, run on to the end."""
    with np.errstate(all="ignore"):
        *columns, start = basis(poles, u, derivatives).T
        free, fixed = np.stack(columns, 1), x[0] * start
        weights = np.full(free.shape[1], np.nan)
        if np.isfinite(free[:samples]).all():
            weights = np.linalg.lstsq(free[:samples], (x - fixed)[:samples])[0]
        path = fixed + free @ weights
        error = np.nan_to_num((path - x) ** 2, nan=np.inf)
        mse = error[:samples].mean(), error[samples:].mean() if len(x) > samples else np.nan
    return PoleFit(path, mse, poles, weights)


def best_equation(
    order: int, u: Array, x: Array, samples: int, rng: np.random.Generator,
    derivatives: int = 0, near: Array | None = None, starts: int = 12,
) -> PoleFit:  # fmt: skip
    """The best equation of order 2 or 3: descents over the poles from random ones.

    Every pole stays in the left half plane, so that nothing grows; unless `near` is given,
    poles from which one more descent starts, with no such limit. No pole is faster than 20
    per sample: there its motion is over at once.
    """
    bounds = (np.log(1e-6), np.log(20)) if near is None else (-0.1, 20)

    def poles(theta):
        a, b, *third = np.exp(theta) if near is None else theta
        return np.r_[np.roots([1, a, b]), -np.array(third)]

    def residual(theta):
        path = fit_given_poles(poles(theta), u[:samples], x[:samples], samples, derivatives).x
        return np.clip(np.nan_to_num(path - x[:samples], nan=1e3), -1e3, 1e3)

    def descend(theta):
        theta = np.log(theta) if near is None else np.clip(theta, -0.099, 19.9)
        known = {"bounds": bounds, "x_scale": "jac", "max_nfev": 60}
        return optimize.least_squares(residual, theta, **known)

    draws = np.exp(rng.uniform(np.log([0.03, 0.02, 0.01]), np.log([0.5, 1, 1]), (starts, 3)))
    begin = [np.array([2 * zeta * omega, omega**2, p])[:order] for omega, zeta, p in draws]
    if near is not None:
        begin.append(np.r_[np.poly(near[:2]).real[1:], -near[2:].real])
    best = min(map(descend, begin), key=lambda found: found.cost)
    return fit_given_poles(poles(best.x), u, x, samples, derivatives)
