"""Damped oscillators and the noisy sine: closed forms, draws and shapes."""

import pytest
import torch

from sonode_utils.data import systems
from sonode_utils.ensemble import streams
from sonode_utils.models import SONODE

TIMES = torch.linspace(0, 10, 101, dtype=torch.float64)


@pytest.mark.parametrize("gamma, omega", [(0.1, 1.0), (0.0, 2.0), (0.7, 0.3)])
def test_the_closed_form_solves_its_equation(gamma, omega):
    """x' = v and v' = -(omega^2 + gamma^2) x - 2 gamma v, by central differences."""
    z0 = systems.oscillator_starts(streams("test", [3]), points=4).double()
    h = 1e-5
    later, sooner = (systems.oscillators(z0, TIMES + s, gamma, omega) for s in (h, -h))
    dz = (later - sooner) / (2 * h)
    x, v = systems.oscillators(z0, TIMES, gamma, omega).unbind(-1)
    force = -(omega**2 + gamma**2) * x - 2 * gamma * v
    torch.testing.assert_close(dz[..., 0], v, rtol=0, atol=1e-8)
    torch.testing.assert_close(dz[..., 1], force, rtol=0, atol=1e-8)


def test_the_closed_form_starts_where_it_is_told():
    z0 = systems.oscillator_starts(streams("test", range(3)), points=5)
    torch.testing.assert_close(systems.oscillators(z0, torch.zeros(1))[0], z0)


def test_a_sonode_with_the_true_force_follows_the_closed_form():
    z0 = systems.oscillator_starts(streams("test", range(2)), points=3).double()
    model = SONODE(lambda z, t: -1.01 * z[..., :1] - 0.2 * z[..., 1:])
    solved = model.solve_tight(z0, TIMES).z
    torch.testing.assert_close(solved, systems.oscillators(z0, TIMES), rtol=0, atol=1e-6)


def test_starts_fill_the_square_and_nothing_else():
    z0 = systems.oscillator_starts(streams("test", range(10)), points=500)
    assert z0.shape == (10, 500, 2)
    assert z0.abs().max() <= 2.5 and z0.max() > 2.49 and z0.min() < -2.49
    assert z0.mean((0, 1)).abs().max() < 0.1


def test_a_member_is_drawn_alike_in_any_company():
    many, one = (streams("test", seeds) for seeds in ([7, 8, 9], [8]))
    starts = systems.oscillator_starts
    assert torch.equal(starts(many, 30)[1], starts(one, 30)[0])
    many = systems.noisy_sine([0.1, 0.2, 0.3], streams("test", [4, 5, 6]), TIMES)
    assert torch.equal(many[:, 1:2], systems.noisy_sine([0.2], streams("test", [5]), TIMES))


def test_members_of_other_seeds_are_other_members():
    z0 = systems.oscillator_starts(streams("test", [0, 1]), points=30)
    x = systems.noisy_sine([0.1, 0.1], streams("test", [0, 1]), TIMES)
    assert not torch.isclose(z0[0], z0[1]).any()
    assert not torch.equal(x[:, 0], x[:, 1])


def test_noise_has_the_stated_deviation_and_no_bias():
    times = torch.linspace(0, 10, 50)
    sigmas = [0.1, 0.4, 0.7]
    for sigma in sigmas:
        noise = systems.noisy_sine([sigma] * 400, streams("test", range(400)), times)[..., 0, 0]
        noise = noise - torch.sin(times)[:, None]
        assert noise.std() == pytest.approx(sigma, rel=0.02)
        assert noise.mean().abs() < 0.02 * sigma


def test_without_noise_it_is_the_sine():
    x = systems.noisy_sine([0.0, 0.0], streams("test", [1, 2]), TIMES)
    assert x.shape == (101, 2, 1, 1)
    assert torch.equal(x[:, 0, 0, 0], torch.sin(TIMES))
