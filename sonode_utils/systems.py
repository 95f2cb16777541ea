"""The synthetic systems of the paper, with their closed forms."""

import torch

from sonode_utils.ensemble import generators


def parity(dims, seeds, points, width=None):
    """Points of the generalised parity problem x -> -x, uniform in [-1, 1]^D (Sec. 4.1).

    One member for each (dimension, seed) pair given; its points depend on nothing else,
    and beyond its dimension they are zero. -> (member, points, width)
    """
    width = width or max(dims)
    x = torch.zeros(len(seeds), points, width)
    for k, (d, stream) in enumerate(zip(dims, generators(seeds))):
        x[k, :, :d] = 2 * torch.rand(points, d, generator=stream) - 1
    return x


def monotone_floor(x, target):
    """Least mean square error of any increasing map from x to target (isotonic regression).

    The flow of a one-dimensional NODE is increasing whatever its weights, so no NODE
    does better on these points. x, target: (point,) -> float
    """
    from scipy.optimize import isotonic_regression

    ordered = target[x.argsort()].double().numpy()
    return float(((isotonic_regression(ordered).x - ordered) ** 2).mean())


def parity_solution(x0, times):
    """Eq. 7: f = 0 and g = -2 x0 / (tN - t0), every point on its straight line.

    x0: (member, batch, d) -> (time, member, batch, d)
    """
    share = (times - times[0]) / (times[-1] - times[0])
    return x0 * (1 - 2 * share)[:, None, None, None]
