"""The largest Lyapunov exponent: how fast nearby starts part, and how sure we are."""

import numpy as np


def growth(tangent, z, *, spans, steps, h):
    """Log growth of a small displacement over each of `spans` stretches of `steps` steps.

    z: (feature, start), every start followed at once by the classical Runge-Kutta method
    with step h, together with a displacement that is scaled back to length 1 after each
    stretch. tangent(t, y) is the time derivative of y: (2, feature, start), y[0] the state and
    y[1] the displacement. -> logs (span, start), states (span, feature, start)
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


def runge_kutta(field, t, y, h):
    """One classical step of y' = field(t, y)."""
    k1 = field(t, y)
    k2 = field(t + h / 2, y + h / 2 * k1)
    k3 = field(t + h / 2, y + h / 2 * k2)
    k4 = field(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * (k2 + k3) + k4)


def exponent(logs, span, blocks=12, resamples=4000):
    """Mean rate and its 95 % interval, by a two-way bootstrap: (mean, low, high).

    One start remembers its past, and starts that share a forcing move together to some
    degree, so neither stretches nor starts are independent. Whole starts and whole blocks
    of consecutive stretches are resampled, both at once.
    logs: (span, start), from `growth`; span: the time of a stretch.
    """
    parts = np.array_split(logs / span, min(blocks, len(logs)))
    rates = np.stack([part.mean(0) for part in parts])  # (block, start)
    rng = np.random.default_rng(0)
    weights = (rng.multinomial(n, np.full(n, 1 / n), resamples) / n for n in rates.shape)
    means = np.einsum("rb,bs,rs->r", next(weights), rates, next(weights), optimize=True)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(logs.mean() / span), float(low), float(high)
