"""What a flow must keep: the order of points on a line, the inside of a ring (Sec. 4.1)."""

import math

import torch
from scipy.optimize import isotonic_regression
from torch import Tensor


def circle(angles: Tensor, radius: float = 1.0) -> Tensor:
    """Points of a circle at the given angles: (..., n) -> (..., n, 2)."""
    return radius * torch.stack([angles.cos(), angles.sin()], -1)


def even_angles(n: int) -> Tensor:
    """n angles once around, counter-clockwise, the first not repeated: (n,)."""
    return torch.arange(n, dtype=torch.float64) * 2 * math.pi / n


def winding_number(curve: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """How many times a closed curve runs around each point, counter-clockwise.

    Also, for each piece of the curve, the widest angle under which any point sees it: while
    these stay well below pi, no piece can have slipped around a point unseen.
    curve: (n, 2), points: (m, 2) -> (m,) whole numbers, (n,) angles
    """
    curve, points = (torch.view_as_complex(p.double().contiguous()) for p in (curve, points))
    spokes = curve - points[:, None]  # (m, n)
    turns = (spokes.roll(-1, 1) / spokes).angle()
    return (turns.sum(1) / (2 * math.pi)).round().long(), turns.abs().amax(0)


def refine(angles: Tensor, widths: Tensor, n: int) -> Tensor:
    """n further angles on the circle, most of them in the pieces that were seen as widest.

    angles, widths: (k,), increasing angles and the width of the piece after each
    -> (n,), increasing
    """
    ends = torch.cat([angles, angles[:1] + 2 * math.pi])
    mass = torch.cat([widths.new_zeros(1), (widths + 1e-3 * widths.max()).cumsum(0)])
    goals = mass[-1] * (torch.arange(n, dtype=mass.dtype) + 0.5) / n
    k = torch.searchsorted(mass, goals).clamp(1, len(angles)) - 1
    share = (goals - mass[k]) / (mass[k + 1] - mass[k])
    return ends[k] + share * (ends[k + 1] - ends[k])


def monotone_floor(x: Tensor, target: Tensor) -> float:
    """Least mean square error of any increasing map from x to target, both (point,).

    A one-dimensional NODE is an increasing map whatever its weights: none does better.
    """
    ordered = target[x.argsort()].double().numpy()
    return float(((isotonic_regression(ordered).x - ordered) ** 2).mean())


def monotone_ceiling(x: Tensor, label: Tensor) -> float:
    """Best accuracy of any monotone map and a threshold; x, label: (point,).

    All that a one-dimensional NODE and a linear read-out can do is cut the line once.
    """
    ordered = label[x.argsort()]
    gained = torch.cat([ordered.new_zeros(1), (1 - 2 * ordered).cumsum(0)])
    right = (gained + label.sum()) / len(label)  # zeros before the cut, ones after it
    return float(torch.maximum(right, 1 - right).max())
