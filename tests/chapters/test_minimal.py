"""The planar system of Eq. 13, and what fewer augmented dimensions than real ones can do."""

import torch
from torch.func import jacrev, vmap

from sonode_utils.chapters.second_order_forms import second_order_anode
from sonode_utils.data import systems
from sonode_utils.ensemble import EnsembleMLP, streams

STIFFNESS = torch.tensor([1.0**2 + 0.1**2, 1.2**2 + 0.3**2], dtype=torch.float64)
DAMPING = torch.tensor([2 * 0.1, 2 * 0.3], dtype=torch.float64)
NOW = torch.zeros((), dtype=torch.float64)


def force(x, v, t):
    return -STIFFNESS * x - DAMPING * v


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).double()


def test_planar_from_the_papers_start_is_the_curve_of_eq_13():
    t = torch.linspace(0, 10, 23, dtype=torch.float64)
    z = systems.planar(torch.tensor(systems.PLANAR_START, dtype=torch.float64), t)
    x = torch.exp(-0.1 * t) * (3 * torch.sin(t) + torch.cos(t))
    y = torch.exp(-0.3 * t) * (2 * torch.sin(1.2 * t) - 5 * torch.cos(1.2 * t))
    assert torch.allclose(z[:, :2], torch.stack([x, y], -1), rtol=0, atol=1e-12)


def test_planar_obeys_its_second_order_equation_from_any_start():
    z0, times = random(3, 5, 4), torch.linspace(0, 10, 7).double()
    z = systems.planar(z0, times)
    dz = vmap(jacrev(lambda t: systems.planar(z0, t[None])[0]))(times)
    x, v = z[..., :2], z[..., 2:]
    assert z.shape == (7, 3, 5, 4)
    assert torch.allclose(z[0], z0, rtol=0, atol=1e-12)
    assert torch.allclose(dz, torch.cat([v, force(x, v, times)], -1), rtol=0, atol=1e-12)


def test_on_a_curve_the_pseudo_inverse_finds_that_the_clock_runs_at_one():
    start = torch.tensor(systems.PLANAR_START, dtype=torch.float64)

    def clock(x, a, t):
        return systems.planar(start, a)[0, 2:]

    a = torch.linspace(0, 10, 9).double()
    z = torch.cat([systems.planar(start, a)[:, :2], a[:, None]], 1)[None]
    G = second_order_anode(clock, force, 2)(NOW, z)[0, :, 2]
    assert torch.allclose(G, torch.ones(9).double(), rtol=0, atol=1e-10)


def test_what_least_squares_leaves_over_is_at_right_angles_to_dF_da():
    def F(x, a, t):
        return torch.stack([a[0] + torch.sin(x[1] * a[0]), x[0] * a[0] - torch.cos(x[1])])

    for z in random(20, 3):
        dz = second_order_anode(F, force, 2)(NOW, z[None, None])[0, 0]
        J = jacrev(lambda q: F(q[:2], q[2:], NOW))(z)
        missed = J @ dz - force(z[:2], dz[:2], NOW)
        assert missed.norm() > 1e-3
        assert (J[:, 2] @ missed).abs() < 1e-10


def test_hidden_units_cut_off_at_zero_stay_off():
    f = EnsembleMLP(3, 3, streams("test", [0, 1]))
    with torch.no_grad():
        for layer, rows, columns in ((0, 0, 10), (2, 10, 10), (4, 10, 3)):
            f.layers[layer].weight[1, rows:] = 0
            f.layers[layer].weight[1, :, columns:] = 0
            f.layers[layer].bias[1, :, columns:] = 0
    optimiser = torch.optim.Adam(f.parameters(), lr=0.01)
    for _ in range(5):
        optimiser.zero_grad()
        (f(random(2, 4, 3).float()) - 1).square().sum().backward()
        optimiser.step()
    assert f.layers[2].weight[1, :10, :10].abs().min() > 0
    assert f.layers[0].weight[1, :, 10:].abs().max() == 0
    assert f.layers[2].weight[1, 10:].abs().max() == 0
    assert f.layers[4].weight[1, 10:].abs().max() == 0
