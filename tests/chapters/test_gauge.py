"""Propositions 5.1 and 5.2: many first order fields, one second order motion."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sonode_utils.chapters.second_order_forms import second_order_anode, with_gauge
from sonode_utils.solve import integrate

TIMES = torch.linspace(0, 3, 7, dtype=torch.float64)
TIGHT = {"rtol": 1e-8, "atol": 1e-8}
X0 = torch.tensor([[0.3], [-1.0]], dtype=torch.float64)
OMEGA, GAMMA = 1.0, 0.1667


def spring(x, v, t):
    return -(OMEGA**2 + GAMMA**2) * x - 2 * GAMMA * v


def solve_anode(F, a0, x0=X0, f=spring):
    d = x0.shape[-1]
    field = second_order_anode(F, f, d)
    z = integrate(field, torch.cat([x0, a0], -1)[None], TIMES, **TIGHT).z
    return z[:, 0, :, :d]


def solve_sonode(v0, x0=X0, f=spring):
    d = x0.shape[-1]

    def field(t, z):
        return torch.cat([z[..., d:], f(z[..., :d], z[..., d:], t)], -1)

    return integrate(field, torch.cat([x0, v0], -1)[None], TIMES, **TIGHT).z[:, 0, :, :d]


@pytest.mark.parametrize(
    "F",
    [
        lambda x, a, t: a,
        lambda x, a, t: 3 * a - 2 * x + 1,
        lambda x, a, t: a + a**3 / 3 + torch.sin(x),
        lambda x, a, t: (2 + torch.cos(t)) * a + x * t,
    ],
    ids=["velocity", "affine", "nonlinear", "with time"],
)
def test_any_invertible_velocity_gives_the_second_order_motion(F):
    a0 = torch.tensor([[0.5], [-0.2]], dtype=torch.float64)
    t0 = torch.tensor(0.0, dtype=torch.float64)
    v0 = torch.stack([F(x, a, t0) for x, a in zip(X0, a0)])
    assert torch.allclose(solve_anode(F, a0), solve_sonode(v0), atol=1e-6)


def test_a_spare_augmented_dimension_does_no_harm():
    """dim(a) > dim(x): no left inverse exists, the right one does."""

    def F(x, a, t):
        return a[:1] + 2 * a[1:] - x

    a0 = torch.tensor([[0.5, 0.1], [-0.2, 0.4]], dtype=torch.float64)
    v0 = a0[:, :1] + 2 * a0[:, 1:] - X0
    assert torch.allclose(solve_anode(F, a0), solve_sonode(v0), atol=1e-6)


def test_too_few_augmented_dimensions_do_not_keep_the_motion():
    """dim(a) < dim(x): least squares for G is not x'' = f."""
    x0 = torch.tensor([[1.0, 0.5]], dtype=torch.float64)
    a0 = torch.tensor([[0.2]], dtype=torch.float64)

    def stiff(x, v, t):
        return -torch.tensor([1.0, 4.0], dtype=torch.float64) * x

    x = solve_anode(lambda x, a, t: torch.cat([a, a]) - x, a0, x0, stiff)
    v0 = torch.cat([a0, a0], -1) - x0
    assert (x - solve_sonode(v0, x0, stiff)).abs().max() > 0.1


@settings(max_examples=4, deadline=None)
@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_a_gauge_changes_the_augmented_path_and_not_the_motion(c, k):
    """phi vanishes at both starts, so the initial velocities stay."""

    def F(x, a, t):
        return 1.2 * a - (OMEGA + GAMMA) * x + OMEGA

    def phi(x):
        return (x - X0[0]) * (x - X0[1]) * (c + k * x)

    a0 = torch.zeros(2, 1, dtype=torch.float64)
    motion = solve_anode(F, a0)
    assert torch.allclose(solve_anode(with_gauge(F, phi), a0), motion, atol=1e-6)
