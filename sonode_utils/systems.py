"""The synthetic systems of the paper, with their closed forms."""

import torch

from sonode_utils.ensemble import generators, normal, uniform, within


def parity(dims, seeds, points, width=None):
    """Points of the generalised parity problem x -> -x, uniform in [-1, 1]^D (Sec. 4.1).

    One member for each (dimension, seed) pair given; its points depend on nothing else,
    and beyond its dimension they are zero. -> (member, points, width)
    """
    width = width or max(dims)
    x = torch.zeros(len(seeds), points, width)
    for k, (d, stream) in enumerate(zip(dims, generators(seeds))):
        x[k, :, :d] = within((points, d), 1.0, stream)
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


def nested_spheres(dim, seeds, points, inner=0.5, outer=(0.85, 1.0)):
    """A ball inside a shell (Sec. 4.1.1), half of the points in each, uniform by volume.

    Even points are in the ball (label 0), odd ones in the shell (label 1), so that any
    leading even number of points is balanced too.
    -> x: (member, points, dim), label: (points,)
    """
    label = torch.arange(points) % 2
    low = torch.where(label == 1, outer[0], 0.0)[:, None] ** dim
    high = torch.where(label == 1, outer[1], inner)[:, None] ** dim
    x = torch.empty(len(seeds), points, dim)
    for k, stream in enumerate(generators(seeds)):
        direction = normal((points, dim), stream)
        share = uniform((points, 1), stream)
        radius = (low + share * (high - low)) ** (1 / dim)
        x[k] = radius * direction / direction.norm(dim=-1, keepdim=True)
    return x, label.to(x)


def monotone_ceiling(x, label):
    """Best accuracy of any monotone map followed by a threshold.

    All that a one-dimensional NODE and a linear read-out can do is cut the line once.
    x, label: (point,) -> float
    """
    ordered = label[x.argsort()]
    gained = torch.cat([ordered.new_zeros(1), (1 - 2 * ordered).cumsum(0)])
    right = (gained + label.sum()) / len(label)  # zeros before the cut, ones after it
    return float(torch.maximum(right, 1 - right).max())


def oscillators(z0, times, gamma=0.1, omega=1.0):
    """Damped oscillators x'' = -(omega^2 + gamma^2) x - 2 gamma x' in closed form (Sec. 6.1).

    z0: (member, batch, 2), position and velocity -> (time, member, batch, 2)
    """
    x0, v0 = z0[..., 0], z0[..., 1]
    t = times[:, None, None]
    b = (v0 + gamma * x0) / omega
    cos, sin, decay = torch.cos(omega * t), torch.sin(omega * t), torch.exp(-gamma * t)
    x = decay * (x0 * cos + b * sin)
    v = decay * (v0 * cos - (omega * x0 + gamma * b) * sin)
    return torch.stack([x, v], -1)


def oscillator_starts(seeds, points, reach=2.5):
    """Positions and velocities uniform in [-reach, reach]: (member, points, 2)."""
    return torch.stack([within((points, 2), reach, stream) for stream in generators(seeds)])


def noisy_sine(sigmas, seeds, times):
    """sin(t) measured with Gaussian noise (Sec. 6.1): (time, member, 1, 1).

    One member for each (sigma, seed) pair given; its noise depends on nothing else.
    """
    streams = generators(seeds)
    noise = torch.stack([normal(len(times), s) for s in streams], 1)
    x = torch.sin(times)[:, None] + torch.as_tensor(sigmas) * noise
    return x[..., None, None]


PLANAR_START = (1.0, -5.0, 2.9, 3.9)  # x, y and their velocities at t = 0 (Eq. 13)


def planar(z0, times):
    """The two-dimensional system of Eq. 13 in closed form, from any start.

    Two damped oscillators that do not know of each other: x has omega 1 and gamma 0.1,
    y has omega 1.2 and gamma 0.3. From PLANAR_START they draw the paper's curve.
    z0: (..., 4), x, y and their velocities -> (time, ..., 4)
    """
    starts = z0.reshape(1, -1, 4)
    x, vx = oscillators(starts[..., [0, 2]], times, gamma=0.1, omega=1.0).unbind(-1)
    y, vy = oscillators(starts[..., [1, 3]], times, gamma=0.3, omega=1.2).unbind(-1)
    return torch.stack([x, y, vx, vy], -1).reshape(len(times), *z0.shape)
