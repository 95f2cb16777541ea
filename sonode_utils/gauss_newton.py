"""Least squares for many members at once, from simulations alone (Levenberg and Marquardt).

For models of a few parameters whose gradient is long or wild, such as a relaxation
oscillator followed over many jumps: a step then costs two batched simulations.
"""

import numpy as np

LADDER = 10.0 ** np.arange(-2, 4)  # dampings tried in one step, as multiples of the last


def levenberg_marquardt(simulate, theta, data, *, iterations, damping=0.1, probe=1e-6):
    """Minimise each member's mean square error; no member ever gets worse.

    simulate: (parameter, column) -> (time, column), any number of columns at once, NaN or
    infinite where a path is lost; theta: (parameter, member); data: (time, member)
    -> theta, error (member,), infinite where the start was lost and stayed so.
    """
    damping = np.full(theta.shape[1], damping)
    for _ in range(iterations):
        path, jacobian = linearise(simulate, theta, probe)
        error = mean_square(path - data)
        normal = np.einsum("tpm,tqm->mpq", jacobian, jacobian)
        slope = np.einsum(
            "tpm,tm->mp", jacobian, np.nan_to_num(path - data, posinf=0, neginf=0)
        )
        tried = damping * LADDER[:, None]  # (rung, member)
        scale = (np.einsum("mpp->mp", normal)[:, None] + 1e-12) * np.eye(len(theta))
        step = np.linalg.solve(normal + tried[..., None, None] * scale, -slope[..., None])
        rungs = np.moveaxis(theta.T + step[..., 0], -1, 0)  # (parameter, rung, member)
        paths = simulate(rungs.reshape(len(theta), -1)).reshape(-1, *rungs.shape[1:])
        errors = mean_square(paths - data[:, None])
        best = errors.argmin(0), np.arange(theta.shape[1])
        better = errors[best] < error
        theta = np.where(better, rungs[:, *best], theta)
        damping = np.clip(np.where(better, tried[best], 100 * damping), 1e-8, 1e8)
        error = np.where(better, errors[best], error)
    return theta, error


def linearise(simulate, theta, probe):
    """The path and its derivatives by forward differences, lost ones as zero.

    (parameter, member) -> (time, member), (time, parameter, member)
    """
    size = probe * np.maximum(1, np.abs(theta))
    moved = theta[:, None] + size[:, None] * np.eye(len(theta), len(theta) + 1, 1)[..., None]
    paths = simulate(moved.reshape(len(theta), -1)).reshape(-1, *moved.shape[1:])
    with np.errstate(all="ignore"):
        jacobian = (paths[:, 1:] - paths[:, :1]) / size
    return paths[:, 0], np.nan_to_num(jacobian, posinf=0, neginf=0).clip(-1e8, 1e8)


def mean_square(residual):
    """Over the first axis; infinite where anything is not finite."""
    with np.errstate(all="ignore"):
        return np.nan_to_num((residual**2).mean(0), nan=np.inf)
