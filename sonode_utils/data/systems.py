"""The synthetic systems of the paper, with their closed forms."""

from collections.abc import Sequence

import torch
from torch import Tensor

from sonode_utils.ensemble import Streams, normal, symmetric_uniform, uniform


def parity(dims: Sequence[int], rng: Streams, points: int) -> Tensor:
    """Points of the generalised parity problem x -> -x, uniform in [-1, 1]^D (Sec. 4.1).

    One member for each (dimension, stream) pair given; its points depend on nothing else,
    and beyond its dimension they are zero. -> (member, points, largest dimension)
    """
    x = torch.zeros(len(rng), points, max(dims))
    for k, (d, stream) in enumerate(zip(dims, rng, strict=True)):
        x[k, :, :d] = symmetric_uniform((points, d), 1.0, stream)
    return x


def nested_spheres(
    dim: int, rng: Streams, points: int, inner: float = 0.5,
    outer: tuple[float, float] = (0.85, 1.0),
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A ball inside a shell (Sec. 4.1.1), half of the points in each, uniform by volume.

    Even points are in the ball (label 0), odd ones in the shell (label 1).
    -> x: (member, points, dim), label: (points,)
    """
    label = torch.arange(points) % 2
    low = torch.where(label == 1, outer[0], 0.0)[:, None] ** dim
    high = torch.where(label == 1, outer[1], inner)[:, None] ** dim
    x = torch.empty(len(rng), points, dim)
    for k, stream in enumerate(rng):
        direction, share = normal((points, dim), stream), uniform((points, 1), stream)
        radius = (low + share * (high - low)) ** (1 / dim)
        x[k] = radius * direction / direction.norm(dim=-1, keepdim=True)
    return x, label.to(x)


def oscillators(z0: Tensor, times: Tensor, gamma: float = 0.1, omega: float = 1.0) -> Tensor:
    """Damped oscillators x'' = -(omega^2 + gamma^2) x - 2 gamma x' in closed form (Sec. 6.1).

    z0: (member, batch, 2), position and velocity -> (time, member, batch, 2)
    """
    (x0, v0), t = z0.unbind(-1), times[:, None, None]
    b = (v0 + gamma * x0) / omega
    cos, sin, decay = torch.cos(omega * t), torch.sin(omega * t), torch.exp(-gamma * t)
    x = decay * (x0 * cos + b * sin)
    v = decay * (v0 * cos - (omega * x0 + gamma * b) * sin)
    return torch.stack([x, v], -1)


def oscillator_starts(rng: Streams, points: int, reach: float = 2.5) -> Tensor:
    """Positions and velocities uniform in [-reach, reach]: (member, points, 2)."""
    return torch.stack([symmetric_uniform((points, 2), reach, s) for s in rng])


def noisy_sine(sigmas: Sequence[float], rng: Streams, times: Tensor) -> Tensor:
    """sin(t) measured with Gaussian noise (Sec. 6.1): (time, member, 1, 1).

    One member for each (sigma, stream) pair given; its noise depends on nothing else.
    """
    noise = torch.stack([normal(len(times), stream) for stream in rng], 1)
    return (torch.sin(times)[:, None] + torch.as_tensor(sigmas) * noise)[..., None, None]


PLANAR_START = (1.0, -5.0, 2.9, 3.9)  # x, y and their velocities at t = 0 (Eq. 13)
PLANAR_LAW = torch.tensor([[1.01, 0.2], [1.53, 0.6]]).double()  # stiffness, damping of x, y


def planar(z0: Tensor, times: Tensor) -> Tensor:
    """The two-dimensional system of Eq. 13 in closed form, from any start.

    Two damped oscillators: x has omega 1, gamma 0.1, and y omega 1.2, gamma 0.3.
    z0: (..., 4), x, y and their velocities -> (time, ..., 4)
    """
    starts = z0.reshape(1, -1, 4)
    x, vx = oscillators(starts[..., [0, 2]], times, gamma=0.1, omega=1.0).unbind(-1)
    y, vy = oscillators(starts[..., [1, 3]], times, gamma=0.3, omega=1.2).unbind(-1)
    return torch.stack([x, y, vx, vy], -1).reshape(len(times), *z0.shape)


def planar_force(z: Tensor) -> Tensor:
    """The true acceleration of the planar system at the states z: (..., 4) -> (..., 2)."""
    return -PLANAR_LAW[:, 0].to(z) * z[..., :2] - PLANAR_LAW[:, 1].to(z) * z[..., 2:]
