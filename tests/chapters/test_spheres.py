"""Nested spheres: their points, the ceiling on a line, and winding numbers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sonode_utils.chapters import topology
from sonode_utils.data import systems
from sonode_utils.ensemble import streams
from sonode_utils.models import NODE, SONODE


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_points_lie_in_the_ball_or_in_the_shell_as_labelled(dim):
    x, label = systems.nested_spheres(dim, streams("test", [0, 1]), 400)
    r = x.norm(dim=-1)
    assert x.shape == (2, 400, dim)
    assert (r[:, label == 0] <= 0.5).all()
    assert ((r[:, label == 1] >= 0.85 - 1e-6) & (r[:, label == 1] <= 1 + 1e-6)).all()


def test_any_leading_even_number_of_points_is_balanced():
    _, label = systems.nested_spheres(2, streams("test", [0]), 500)
    assert label[:50].mean() == label.mean() == 0.5


def test_points_are_uniform_by_volume():
    """Half of a ball of radius r lies within r 2^(-1 / dim) of its centre."""
    for dim in (1, 2, 3):
        x, label = systems.nested_spheres(dim, streams("test", [0]), 20_000)
        inner = x[0, label == 0].norm(dim=-1)
        share = (inner < 0.5 * 0.5 ** (1 / dim)).float().mean()
        assert abs(share - 0.5) < 0.02


def test_a_members_points_depend_on_its_seed_alone():
    together, _ = systems.nested_spheres(2, streams("test", [3, 4, 5]), 60)
    alone, _ = systems.nested_spheres(2, streams("test", [4]), 60)
    assert torch.equal(together[1], alone[0])
    assert not torch.equal(together[0], together[1])


def test_the_ceiling_on_a_line_is_three_quarters_for_three_even_intervals():
    x = torch.tensor([-0.9, -0.1, 0.1, 0.9])
    assert topology.monotone_ceiling(x, torch.tensor([1.0, 0, 0, 1])) == 0.75


def test_the_ceiling_allows_both_directions_and_any_order_of_points():
    x, label = torch.tensor([3.0, 1.0, 2.0, 0.0]), torch.tensor([0.0, 1, 0, 1])
    assert topology.monotone_ceiling(x, label) == topology.monotone_ceiling(x, 1 - label) == 1


@given(st.lists(st.tuples(st.floats(-1, 1), st.booleans()), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_no_cut_of_the_line_beats_the_ceiling(points):
    x, label = (torch.tensor(column).float() for column in zip(*points))
    x = x + 1e-3 * torch.arange(len(x))  # no ties
    cuts = torch.cat([x - 1e-5, x.max()[None] + 1])
    right = ((x > cuts[:, None]).float() == label).float().mean(1)
    best = float(torch.maximum(right, 1 - right).max())
    assert topology.monotone_ceiling(x, label) == pytest.approx(best)


INSIDE_AND_OUTSIDE = torch.tensor([[0.0, 0.0], [0.3, -0.4], [2.0, 0.0]])


def test_a_circle_winds_once_around_its_inside_and_not_around_its_outside():
    ring = topology.circle(topology.even_angles(64))
    number, width = topology.winding_number(ring, INSIDE_AND_OUTSIDE)
    assert number.tolist() == [1, 1, 0]
    assert width.shape == (64,) and width.max() < 0.3


def test_run_backwards_it_winds_minus_once():
    ring = topology.circle(topology.even_angles(64)).flip(0)
    assert topology.winding_number(ring, INSIDE_AND_OUTSIDE)[0].tolist() == [-1, -1, 0]


def test_a_curve_that_goes_round_twice_winds_twice():
    twice = topology.circle(2 * topology.even_angles(128))
    assert topology.winding_number(twice, INSIDE_AND_OUTSIDE)[0].tolist() == [2, 2, 0]


def test_a_figure_of_eight_winds_both_ways():
    angle = topology.even_angles(200)
    eight = torch.stack([(2 * angle).sin(), angle.sin()], -1)
    points = torch.tensor([[0.0, 0.6], [0.6, 0.6], [0.6, -0.6], [-0.6, 0.6]])
    number = topology.winding_number(eight, points)[0].tolist()
    assert number[1] == -number[2] != 0 and abs(number[3]) == 1


def test_refining_adds_where_the_curve_is_seen_wide():
    angles = topology.even_angles(32)
    near = torch.tensor([[0.99, 0.0]], dtype=torch.float64)
    width = topology.winding_number(topology.circle(angles), near)[1]
    more = topology.refine(angles, width, 100)
    assert len(more) == 100 and (more.diff() > 0).all()
    assert more[0] >= 0 and more[-1] < 2 * math.pi
    around_zero = (more < 0.3) | (more > 2 * math.pi - 0.3)
    assert around_zero.sum() > 45  # evenly spread it would be 10
    finer = torch.cat([angles, more]).sort().values
    assert topology.winding_number(topology.circle(finer), near)[1].max() < width.max() / 3


def test_even_widths_are_refined_evenly():
    angles = topology.even_angles(10)
    more = topology.refine(angles, torch.ones(10).double(), 10)
    assert torch.allclose(more, angles + math.pi / 10)


def swirl(z, t=None):
    """An autonomous field in the plane that turns and stretches."""
    x, y = z.unbind(-1)
    return torch.stack([y + x, -3 * x + torch.sin(2 * y)], -1)


def test_a_flow_in_the_plane_keeps_every_winding_number():
    inner, _ = systems.nested_spheres(2, streams("test", [0]), 40, outer=(0.1, 0.5))
    ring = topology.circle(topology.even_angles(512), 0.85)
    start = torch.cat([inner[0].double(), ring])[None]
    end = NODE(swirl)(start, torch.tensor([0.0, 1.0]), rtol=1e-8, atol=1e-8).x[-1, 0]
    assert (topology.winding_number(end[40:], end[:40])[0] == 1).all()


def test_a_second_order_model_takes_the_inside_out():
    """f = 0 and g = (c |x|^2, 0), c = 3: the chapter's explicit solution."""
    model = SONODE(
        f=lambda z, t: torch.zeros_like(z[..., :2]),
        g=lambda x: torch.cat([3 * x.square().sum(-1, keepdim=True), 0 * x[..., :1]], -1),
    )
    x, label = systems.nested_spheres(2, streams("test", [0]), 2000)
    end = model(x, torch.tensor([0.0, 1.0])).x[-1, 0]
    assert end[label == 0, 0].max() < end[label == 1, 0].min()
    ring = topology.circle(topology.even_angles(256), 0.85)[None].float()
    moved = model(ring, torch.tensor([0.0, 1.0])).x[-1, 0]
    assert (topology.winding_number(moved, end[label == 0])[0] == 0).all()
