"""Van der Pol: the data, the linear models solved exactly, and the exponents."""

import math

import numpy as np
import pytest
import torch

from sonode_utils.chapters import van_der_pol
from sonode_utils.chapters.least_squares import least_squares
from sonode_utils.ensemble import EnsembleLinear, streams
from sonode_utils.models import ANODE, SONODE

STEP, COUNT = 1.005, 30
GRID = STEP * torch.arange(COUNT, dtype=torch.float64)


def linear_model(name, seeds):
    rng = streams("test", seeds)
    f, g = van_der_pol.ForcedLinear(2 if name == "ANODE" else 1, rng), EnsembleLinear(1, 1, rng)
    return (ANODE(f, 1, g) if name == "ANODE" else SONODE(f, g)).double()


def start(members):
    return torch.full((members, 1, 1), 0.1, dtype=torch.float64)


@pytest.mark.parametrize("amplitude", [1.2, 1.4])
def test_an_implicit_and_an_explicit_method_give_the_same_data(amplitude):
    times = np.linspace(0, 70, 71)
    ours = van_der_pol.van_der_pol(times, amplitude)
    theirs = van_der_pol.van_der_pol(times, amplitude, method="DOP853", tol=1e-10)
    assert ours.y.shape == (2, 71) and tuple(ours.y[:, 0]) == van_der_pol.START
    np.testing.assert_allclose(ours.y[0], theirs.y[0], atol=1e-6)


def test_the_data_obey_the_printed_equation():
    h = 1e-4
    times = np.array([0, 3 - h, 3, 3 + h])
    x, v = van_der_pol.van_der_pol(times, 1.2, tol=1e-12).y[:, 1:]
    force = 8.53 * (1 - x[1] ** 2) * v[1] - x[1] + 1.2 * math.cos(0.2 * math.pi * 3)
    assert (v[2] - v[0]) / (2 * h) == pytest.approx(force, abs=1e-6)
    assert (x[2] - x[0]) / (2 * h) == pytest.approx(v[1], abs=1e-6)


def test_the_tangent_is_the_derivative_of_the_field():
    rng, h = np.random.default_rng(0), 1e-6
    z, w = rng.uniform(-2, 2, (2, 2, 5))
    tangent = van_der_pol.van_der_pol_tangent(np.linspace(1, 2, 5))
    later, sooner = (tangent(0.7, np.stack([z + s * h * w, w]))[0] for s in (1, -1))
    along = tangent(0.7, np.stack([z, w]))[1]
    np.testing.assert_allclose(along, (later - sooner) / (2 * h), atol=1e-6)


@pytest.mark.parametrize("name", ["ANODE", "SONODE"])
def test_the_exact_path_is_what_a_tight_solver_finds(name):
    model, x0 = linear_model(name, range(6)), start(6)
    exact = van_der_pol.exact_path(model, x0, STEP, COUNT)
    solved = model(x0, GRID, rtol=1e-10, atol=1e-10).z
    assert exact.shape == solved.shape
    torch.testing.assert_close(exact, solved, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["ANODE", "SONODE"])
def test_its_gradient_is_the_solver_s(name):
    model, x0 = linear_model(name, [2, 5]), start(2)
    ways = (
        van_der_pol.exact_path(model, x0, STEP, 8),
        model(x0, GRID[:8], rtol=1e-10, atol=1e-10).z,
    )
    exact, solved = (
        torch.autograd.grad(z[..., 0].square().sum(), list(model.parameters())) for z in ways
    )
    for one, other in zip(exact, solved):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def eigenvalues(model, members):
    with torch.no_grad():
        matrix = van_der_pol.system_matrix(model, members)[:, :2, :2]
    return torch.linalg.eigvals(matrix).numpy()


@pytest.mark.parametrize("name", ["ANODE", "SONODE"])
def test_a_linear_path_has_a_floor_of_zero_at_its_own_eigenvalues(name):
    members = 12
    model = linear_model(name, range(members))
    with torch.no_grad():
        paths = van_der_pol.exact_path(model, start(members), STEP, COUNT)[..., 0, 0].numpy()
    for path, roots in zip(paths.T, eigenvalues(model, members)):
        growth = roots.mean().real
        square = -(((roots[0] - roots[1]) / 2) ** 2).real
        pair = np.array([growth, growth - 0.05]), np.array([square, square + 0.1])
        right, wrong = van_der_pol.linear_floor(GRID.numpy(), path, *pair, name == "ANODE")
        scale = (path**2).mean()
        assert abs(right) < 1e-9 * scale < abs(wrong)


def test_only_a_feedthrough_reaches_every_phase_of_the_answer():
    """Forcing in the row of x shifts the phase, which x'' = ... + d u cannot."""
    model = linear_model("ANODE", [3])
    roots = eigenvalues(model, 1)[0]
    with torch.no_grad():
        path = van_der_pol.exact_path(model, start(1), STEP, COUNT)[:, 0, 0, 0].numpy()
    at = np.array([roots.mean().real]), np.array([-(((roots[0] - roots[1]) / 2) ** 2).real])
    free = van_der_pol.linear_floor(GRID.numpy(), path, *at, feedthrough=True)[0]
    tied = van_der_pol.linear_floor(GRID.numpy(), path, *at, feedthrough=False)[0]
    assert abs(free) < 1e-12 and tied > 1e-4


def linear_tangent(matrix):
    return lambda t, y: np.stack([matrix @ y[0], matrix @ y[1]])


@pytest.mark.parametrize(
    "matrix, largest",
    [([[0.3, 1.0], [0.0, -2.0]], 0.3), ([[-0.1, 2.0], [-2.0, -0.1]], -0.1)],
    ids=["saddle", "spiral"],
)
def test_a_linear_system_s_exponent_is_its_largest_real_part(matrix, largest):
    z = np.random.default_rng(0).normal(size=(2, 4))
    run = {"spans": 60, "steps": 50, "h": 0.02}
    logs, states = van_der_pol.growth(linear_tangent(np.array(matrix)), z, **run)
    assert states.shape == (60, 2, 4)
    mean, low, high = van_der_pol.exponent(logs[20:], 1.0)
    assert mean == pytest.approx(largest, abs=5e-3) and high - low < 1e-2


def lorenz(t, y):
    (x, u, z), (dx, du, dz) = y
    state = 10 * (u - x), x * (28 - z) - u, x * u - 8 / 3 * z
    moved = 10 * (du - dx), dx * (28 - z) - x * dz - du, dx * u + x * du - 8 / 3 * dz
    return np.array([state, moved])


def test_the_lorenz_attractor_has_its_textbook_exponent():
    z = np.random.default_rng(0).uniform(-10, 10, (3, 200)) + np.array([[0], [0], [25]])
    logs, _ = van_der_pol.growth(lorenz, z, spans=60, steps=100, h=0.01)
    mean, low, high = van_der_pol.exponent(logs[10:], 1.0)
    assert low < 0.9056 < high and high - low < 0.05
    assert mean == pytest.approx(0.9056, abs=0.01)


@pytest.mark.parametrize("shared", ["in time", "by all starts"])
def test_the_interval_is_that_of_what_varies(shared):
    """A rate that differs from start to start, or from block to block, and not otherwise."""
    rng, count = np.random.default_rng(0), 300
    draws = rng.normal(0.5, 0.3, count)
    logs = np.tile(draws, (10, 1)) if shared == "in time" else np.tile(draws[:, None], 10)
    mean, low, high = van_der_pol.exponent(logs, span=2.0, blocks=count)
    half = 1.96 * draws.std() / 2 / math.sqrt(count)
    assert mean == pytest.approx(draws.mean() / 2)
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=0.1)


def test_the_states_along_the_way_are_those_of_the_flow():
    z = np.array(van_der_pol.START)[:, None]
    tangent = van_der_pol.van_der_pol_tangent(1.4)
    _, states = van_der_pol.growth(tangent, z, spans=2, steps=2000, h=0.005)
    solved = van_der_pol.van_der_pol(np.array([0.0, 10.0, 20.0]), 1.4).y[:, 1:]
    np.testing.assert_allclose(states[:, :, 0].T, solved, atol=1e-5)


def test_the_page_follows_the_oscillator_as_the_solver_does(javascript):
    theirs = javascript("vanderpol", "strobe(1.4, [0.1, 0], 3)")
    solved = van_der_pol.van_der_pol(np.array([0.0, 10.0, 20.0, 30.0]), 1.4).y.T
    np.testing.assert_allclose(theirs, solved, atol=1e-4)


TIMES = torch.linspace(0, 2, 15, dtype=torch.float64)


def decay(theta):
    """theta[0] exp(theta[1] t): (column, 2) -> (column, time); lost where it grows fast."""
    path = theta[:, :1] * torch.exp(theta[:, 1:] * TIMES)
    return torch.where(theta[:, 1:] > 3, torch.nan, path)


def uniform(low, high, size, seed=0):
    stream = torch.Generator().manual_seed(seed)
    return low + (high - low) * torch.rand(size, generator=stream, dtype=torch.float64)


def test_least_squares_finds_the_parameters_of_every_member():
    truth = torch.stack([uniform(1, 3, 8), uniform(-2, -0.5, 8, seed=1)], 1)
    theta, losses = least_squares(decay, truth * 0.3, decay(truth), iterations=30)
    torch.testing.assert_close(theta, truth, rtol=1e-5, atol=0)
    assert losses[-1].max() < 1e-12


def test_a_given_jacobian_leads_to_the_same_optimum():
    def jacobian(theta):
        rise = torch.exp(theta[:, 1:] * TIMES)
        return torch.stack([rise, theta[:, :1] * TIMES * rise], 1)

    data, begin = uniform(-1, 1, (6, 15)), uniform(-1, 1, (6, 2), seed=1)
    known = {"theta": begin, "data": data, "iterations": 60}
    ours, theirs = (least_squares(decay, **known, jacobian=j) for j in (None, jacobian))
    torch.testing.assert_close(ours[1][-1], theirs[1][-1], rtol=1e-8, atol=0)


def test_a_lost_member_is_left_alone_and_the_others_go_on():
    truth = torch.tensor([[2.0, -1.0], [2.0, -1.0]]).double()
    begin = torch.tensor([[1.0, -0.3], [1.0, 9.0]]).double()
    theta, losses = least_squares(decay, begin, decay(truth), iterations=30)
    torch.testing.assert_close(theta[0], truth[0], rtol=1e-5, atol=0)
    assert losses[-1, 1].isinf() and torch.equal(theta[1], begin[1])


def test_a_step_never_makes_a_member_worse():
    theta, data = uniform(-2, 2, (20, 2)), uniform(-2, 2, (20, 15), seed=1)
    before = (decay(theta) - data).square().mean(1)
    _, losses = least_squares(decay, theta, data, iterations=8)
    assert (torch.cat([before[None], losses]).diff(dim=0) <= 0).all()


def test_a_member_stands_still_when_it_is_done_and_takes_the_same_steps_alone():
    """Its theta and all its losses, to the bit, beside others and beside a lost one."""
    theta, data = uniform(-2, 2, (20, 2)), uniform(-2, 2, (20, 15), seed=1)
    theta[4, 1] = 9.0  # lost from the start, so that it never stops
    everyone, losses = least_squares(decay, theta, data, iterations=60)
    for members in ([7], [4, 7], list(range(10)), list(range(19, -1, -1))):
        ours, history = least_squares(decay, theta[members], data[members], iterations=60)
        assert torch.equal(ours, everyone[members])
        assert torch.equal(history, losses[: len(history), members])
        assert len(history) == 60 or not losses[len(history) - 1 :, members].diff(dim=0).any()
    assert len(least_squares(decay, theta[[7]], data[[7]], iterations=60)[1]) < 40
