"""Chapter 6: its formulas, taken from the notebook's own cells, and its figure."""

import ast
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import sympy
import torch
from torch.func import jacrev, jvp, vmap

from sonode_utils import figures
from sonode_utils.ensemble import EnsembleMLP, streams
from sonode_utils.models import NODE, SONODE
from sonode_utils.solve import integrate

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "06_interpretability.ipynb"
TIMES = torch.linspace(0, 2, 5, dtype=torch.float64)
TIGHT = {"rtol": 1e-9, "atol": 1e-9}


@cache
def chapter():
    """The functions and classes that the notebook defines, and nothing that it runs."""
    names = {"torch": torch, "jvp": jvp, "seeds": 2, "PIECES": 5, "SUB": 40, "NODE": NODE}
    names |= {"SONODE": SONODE, "EnsembleMLP": EnsembleMLP, "streams": streams}
    names["run"] = SimpleNamespace(seeds=range(2))
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type == "code":
            for part in ast.parse(cell.source).body:
                if isinstance(part, ast.FunctionDef | ast.ClassDef):
                    exec(compile(ast.unparse(part), cell.id, "exec"), names)
    return names


@pytest.fixture(params=["ANODE", "SONODE"])
def model(request):
    """Two untrained members, made by the notebook's own cell."""
    untrained = chapter()["untrained"]([3, 4])
    return untrained[request.param].double().requires_grad_(False)


@pytest.fixture
def states():
    return torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(0)).double()


def test_the_models_take_whole_states_and_only_anode_learns_its_first_row(states):
    untrained = {name: m.double() for name, m in chapter()["untrained"]([3, 4]).items()}
    anode, sonode = (m.field(0.0, states) for m in untrained.values())
    assert torch.equal(anode, untrained["ANODE"].f(states))
    assert torch.equal(sonode[..., :2], states[..., 2:])
    assert torch.equal(sonode[..., 2:], untrained["SONODE"].f(states))
    for model in untrained.values():
        assert torch.equal(model(states, TIMES).z[0], states)


def test_a_gauge_moves_the_augmented_path_and_not_the_motion(model):
    z0 = torch.tensor([1.0, -5.0, 2.9, 3.9]).double().expand(2, 1, 4).contiguous()

    def phi(x):
        return torch.sin(x - z0[0, 0, :2]) * (1 + x[..., :1])

    tight = {"rtol": 1e-12, "atol": 1e-12}
    before = integrate(model.field, z0, TIMES, **tight).z
    after = integrate(chapter()["regauged"](model.field, 0.7, phi), z0, TIMES, **tight).z
    assert torch.allclose(after[..., :2], before[..., :2], atol=1e-7)
    moved = after[..., 2:] - before[..., 2:]
    assert torch.allclose(moved, 0.7 * phi(before[..., :2]), atol=1e-7)
    assert moved.abs().max() > 0.1


def test_the_jacobian_is_that_of_autograd(model, states):
    ours = chapter()["jacobian"](lambda z: model.field(0.0, z), states)

    def one(z):
        return model.field(0.0, z.expand(2, 1, 4))[:, 0]

    theirs = vmap(jacrev(one))(states.reshape(-1, 4)).view(2, 7, 2, 4, 4)
    assert torch.allclose(ours[0], theirs[0, :, 0])
    assert torch.allclose(ours[1], theirs[1, :, 1])


@pytest.mark.parametrize("folds", [1, 5])
def test_a_linear_disguise_is_read_out_on_seen_and_unseen_points(folds):
    features = torch.randn(3, 40, 5, generator=torch.Generator().manual_seed(1)).double()
    target = features @ torch.randn(3, 5, 2).double()
    assert chapter()["left_over"](features, target, folds).abs().max() < 1e-10


def test_a_fit_without_meaning_fails_only_on_unseen_points():
    """As many features as points fit anything, and say nothing about other points."""
    rng = torch.Generator().manual_seed(2)
    features = torch.randn(1, 20, 20, generator=rng).double()
    target = torch.randn(1, 20, 2, generator=rng).double()
    left_over = chapter()["left_over"]
    assert left_over(features, target).abs().max() < 1e-8
    assert left_over(features, target, 5).square().mean() > 0.5


def test_monomials_are_all_products_up_to_their_degree():
    x = torch.tensor([2.0, 3.0])
    values = chapter()["monomials"](x, 2)
    assert sorted(values.tolist()) == sorted([1, 3, 9, 2, 6, 4])


def test_two_fields_are_as_far_apart_as_they_differ_where_both_go(states):
    """Mean square over both paths; and each field is no distance from itself."""
    f = EnsembleMLP(4, 4, streams("test", [5, 6])).double().requires_grad_(False)
    apart = chapter()["distances"](NODE(f), states)
    first, second = f(states.reshape(1, 14, 4).expand(2, -1, -1))  # on both paths
    own = torch.cat([first[:7], second[7:]])
    squares = [w.square().sum(-1).mean() for w in (first - second, own)]
    assert torch.allclose(apart[0, 1], (squares[0] / squares[1]).sqrt())
    assert torch.allclose(apart, apart.T) and apart.diagonal().abs().max() == 0


def test_the_sensitivity_is_the_derivative_of_the_motion(model):
    """A small push on one piece of the time span, and where it moves x at the ends."""
    namespace, pieces, sub = chapter(), 5, 40
    z0 = torch.tensor([0.5, -0.5, 0.3, 0.2]).double().expand(2, 1, 4).contiguous()
    fine = torch.linspace(0, 10, pieces * sub + 1).double()
    path = integrate(model.field, z0, fine, **TIGHT).z[:, :, 0].transpose(0, 1)
    J = namespace["jacobian"](lambda z: model.field(0.0, z), path)
    response = namespace["sensitivity"](J, [2, 3]).view(2, pieces, 2, pieces, 2)

    def end_of_piece_two(push):
        """x at t = 4 when the second component of f is moved by push on [2, 4]."""
        z = integrate(model.field, z0, torch.tensor([0.0, 2.0]), **TIGHT).z[-1]
        kick = torch.tensor([0, 0, 0, push]).double()
        moved = integrate(
            lambda t, z: model.field(t, z) + kick, z, torch.tensor([2.0, 4.0]), **TIGHT
        )
        return moved.z[-1, :, 0, :2]

    slope = (end_of_piece_two(1e-4) - end_of_piece_two(-1e-4)) / 2e-4
    assert torch.allclose(response[:, 1, :, 1, 1], slope, rtol=1e-2, atol=1e-3)


def test_the_weight_off_the_orbit_vanishes_on_it_and_nowhere_far_away():
    names, course = {**chapter(), "ELL": 0.5}, torch.zeros(1, 3, 4).double()
    away = type(names["away"])(names["away"].__code__, names)
    assert away(torch.zeros(1, 1, 4).double(), course) == 0
    assert away(torch.full((1, 1, 4), 2.0).double(), course) > 0.999


def test_a_random_push_leaves_the_first_row_of_a_sonode_alone(states):
    pushes = chapter()["random_pushes"]
    anode, sonode = (pushes(name)(states) for name in ("ANODE", "SONODE"))
    assert (sonode[..., :2] == 0).all() and sonode[..., 2:].abs().min() > 0
    assert anode.abs().min() > 0


def test_every_force_that_is_minus_x_on_the_circle_gives_a_sine():
    """The family behind the counterexamples to Prop. 5.3, for any h."""
    t, x, v = sympy.symbols("t x v", real=True)
    h = sympy.Function("h")(x, v)
    force = -x + (x**2 + v**2 - 1) * h
    on_curve = force.subs({x: sympy.sin(t), v: sympy.cos(t)}, simultaneous=True)
    assert sympy.simplify(on_curve + sympy.sin(t)) == 0
    third = force.subs(h, -x)
    assert sympy.expand(third + x * (x**2 + v**2)) == 0


def test_the_page_computes_the_error_of_the_force(javascript):
    f = EnsembleMLP(4, 2, streams("test", [6])).double()
    weights = figures.mlp_weights(f, 0)
    z, law, typical = [0.4, -1.2, 0.7, 2.0], [[1.01, 0.2], [1.53, 0.6]], 3.0
    call = f'forceError(mlp({json.dumps(weights)}, "elu"), {law}, {typical}, {z})'
    theirs = javascript("force", call)
    state = torch.tensor(z).double()
    learnt = f(state.expand(1, 1, 4))[0, 0]
    k, c = torch.tensor(law).double().unbind(1)
    expected = (learnt + k * state[:2] + c * state[2:]).norm() / typical
    assert theirs == pytest.approx(float(expected.detach()), rel=1e-6)
