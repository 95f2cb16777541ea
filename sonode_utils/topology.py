"""Does a map keep the inside of a ring inside? Winding numbers, counted numerically."""

import math

import torch


def circle(angles, radius=1.0):
    """Points of a circle at the given angles: (..., n) -> (..., n, 2)."""
    return radius * torch.stack([angles.cos(), angles.sin()], -1)


def even_angles(n):
    """n angles once around, counter-clockwise, the first not repeated: (n,)."""
    return torch.arange(n, dtype=torch.float64) * 2 * math.pi / n


def winding_number(curve, points):
    """How many times a closed curve runs around each point, counter-clockwise.

    Also, for each piece of the curve, the widest angle under which any point sees it. The
    count is certain while those angles stay well below pi: then no piece of the true
    curve can have slipped around a point between two of the corners we know.
    curve: (n, 2), points: (m, 2) -> (m,) whole numbers, (n,) angles
    """
    curve, points = (torch.view_as_complex(p.double().contiguous()) for p in (curve, points))
    spokes = curve - points[:, None]  # (m, n)
    turns = (spokes.roll(-1, 1) / spokes).angle()
    return (turns.sum(1) / (2 * math.pi)).round().long(), turns.abs().amax(0)


def refine(angles, widths, n):
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
