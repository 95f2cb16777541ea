"""Third order equations: exact basis, the best fit for given poles, stable draws, units."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lsim

from sonode_utils.chapters import poles
from sonode_utils.chapters.driven import DrivenModel
from sonode_utils.ensemble import stream, streams
from sonode_utils.solvers.parallel import input_at_stages

POLES = np.array([-0.02 + 0.1j, -0.02 - 0.1j, -0.3])
rng = np.random.default_rng(0)
U = np.convolve(rng.normal(size=420), np.ones(20) / 20, "valid")  # 401 samples


def simulated(a, b, start, u):
    """scipy's exact simulation of z' = a z + b [u, 1], straight lines between samples."""
    system = (a, b, np.eye(len(a))[:1], np.zeros((1, 2)))
    inputs = np.stack([u, np.ones_like(u)], 1)
    return lsim(system, inputs, np.arange(float(len(u))), X0=start, interp=True)[1]


def test_the_companion_matrix_has_the_given_poles():
    found = np.linalg.eigvals(poles.companion(POLES))
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(POLES), atol=1e-12)


@pytest.mark.parametrize("derivatives", [0, 1, 2])
def test_responses_are_those_of_the_simulated_equation(derivatives):
    """u' in the last row is u one row above, and so on."""
    weights = np.array([0.02, -0.3, 0.7])[: derivatives + 1]
    constant, start = 0.003, np.array([0.1, 0.02, -0.01])
    push = np.zeros(3)
    push[2 - np.arange(derivatives + 1)] = weights
    expected = simulated(
        poles.companion(POLES), np.stack([push, [0, 0, constant]], 1), start, U
    )
    columns = poles.basis(POLES, U, derivatives)
    path = columns @ np.r_[weights, constant, start[::-1]]
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-9 * abs(expected).max())


def test_as_many_derivatives_as_the_order_let_the_input_through():
    """x = k u alone, whatever the poles: the resonance is not needed for it."""
    x = 1.7 * U
    assert poles.fit_given_poles(POLES, U, x, 300, derivatives=3).mse[1] < 1e-16
    assert poles.fit_given_poles(POLES, U, x, 300, derivatives=2).mse[1] > 1e-6


@settings(max_examples=25, deadline=None)
@given(st.floats(0.02, 0.5), st.floats(0.02, 1.5), st.floats(0.01, 2.0), st.floats(-3, 3))
def test_with_the_right_poles_the_fit_is_exact_and_stays_so(omega, zeta, third, gain):
    roots = np.r_[np.roots([1, 2 * zeta * omega, omega**2]), -third]
    push = np.array([[0, 0], [0, 0], [gain, 0.01]]) * omega**2 * third
    x = simulated(poles.companion(roots), push, [0.2, 0.01, 0.0], U)
    fit = poles.fit_given_poles(roots, U, x, 200)
    assert max(fit.mse) < 1e-12 * (x**2).mean()


def test_the_poles_are_found_again():
    x = simulated(poles.companion(POLES), np.array([[0, 0], [0, 0], [0.01, 0]]), [0, 0, 0], U)
    fit = poles.best_equation(3, U, x, 200, stream("test", 0), starts=6)
    np.testing.assert_allclose(np.sort_complex(fit.poles), np.sort_complex(POLES), atol=1e-3)
    assert max(fit.mse) < 1e-6 * (x**2).mean()


def test_stable_fits_stay_stable_where_the_data_grow():
    growing = np.r_[-0.01 + 0.1j, -0.01 - 0.1j, 0.01]
    x = simulated(poles.companion(growing), np.zeros((3, 2)), [1, 0, 0.02], U)
    stable = poles.best_equation(3, U, x, 300, stream("test", 0), starts=3)
    assert stable.poles.real.max() <= 0
    free = poles.best_equation(3, U, x, 300, stream("test", 0), near=stable.poles, starts=6)
    assert free.poles.real.max() == pytest.approx(0.01, abs=1e-4)


def test_a_descent_from_given_poles_is_never_worse_than_they_are():
    x = simulated(poles.companion(POLES), np.array([[0, 0], [0, 0], [0.01, 0]]), [0, 0, 0], U)
    x = x + 0.05 * x.std() * np.random.default_rng(1).normal(size=len(x))
    near = np.r_[-0.03 + 0.11j, -0.03 - 0.11j, -0.2]
    free = poles.best_equation(3, U, x, 300, stream("test", 0), near=near, starts=0)
    assert free.mse[0] < 0.9 * poles.fit_given_poles(near, U, x, 300).mse[0]


def test_a_fit_that_overflows_has_infinite_error_and_raises_nothing():
    fit = poles.fit_given_poles(np.array([5.0, -1.0, -1.0]), U, 0 * U, 300)
    assert fit.mse[0] == np.inf


def test_a_forced_third_order_model_contains_the_second_order_one_only_in_a_limit():
    x = simulated(poles.companion(POLES[:2]), np.array([[0, 0], [0.01, 0]]), [0.1, 0.0], U)
    off = [
        poles.fit_given_poles(np.r_[POLES[:2], -p], U, x, 401).mse[0] ** 0.5
        for p in (0.5, 5, 50)
    ]
    assert off[0] > 1e-3 * x.std()
    np.testing.assert_allclose([off[0] / off[1], off[1] / off[2]], 10, rtol=0.35)
    with_slope = poles.fit_given_poles(np.r_[POLES[:2], -0.5], U, x, 401, derivatives=1)
    assert with_slope.mse[0] < 1e-16


def test_one_third_order_draw_in_64_is_stable_as_routh_and_hurwitz_say():
    model = DrivenModel("TONODE", streams("test", range(5_000)))
    stable = ~model.unstable()
    w0, w1, w2 = model.weight.detach()[:, 0, :3].double().unbind(1)
    routh = (w0 < 0) & (w1 < 0) & (w2 < 0) & (w1 * w2 > -w0)
    assert (stable == routh).all()
    error = (1 / 64 * 63 / 64 / 5_000) ** 0.5
    assert float(stable.double().mean()) == pytest.approx(1 / 64, abs=4 * error)


@pytest.mark.parametrize("unit", [3.0, 10.0, 1000.0])
def test_the_unit_of_time_changes_the_numbers_and_not_the_motion(unit):
    """w0 T^3, w1 T^2, w2 T, w3 T^3, b T^3; x' T, x'' T^2."""
    model, twin = (
        DrivenModel("TONODE", streams("test", [3])).double(),
        DrivenModel("TONODE", streams("test", [3]), dt=1 / unit).double(),
    )
    powers = torch.tensor([3, 2, 1, 3])
    with torch.no_grad():
        model.weight[0, 0] = torch.tensor([-0.001, -0.02, -0.15, 0.01])
        twin.weight[:] = model.weight * unit**powers
        twin.bias[:] = model.bias * unit**3
        twin.start[:] = model.start * unit ** torch.tensor([[1], [2]])
    inputs = input_at_stages(torch.tensor(U)[None], substeps=2)
    z, w = (m(0.3, inputs).z[0] for m in (model, twin))
    torch.testing.assert_close(w, z, rtol=1e-9, atol=1e-9)


def test_the_exact_response_is_that_of_the_model_trained():
    """DrivenModel, solved finely, against the response to its poles."""
    model = DrivenModel("TONODE", streams("test", [0])).double()
    with torch.no_grad():
        model.weight[0, 0] = torch.tensor([-0.001, -0.02, -0.15, 0.01])
        model.bias[:] = 0.002
    path = model.exact(0.3, input_at_stages(torch.tensor(U)[None], substeps=8))[0, :, 0].numpy()
    z0 = model.initial_state(0.3)[:, 0].detach().numpy()
    roots = np.roots([1, 0.15, 0.02, 0.001])
    expected = poles.basis(roots, U) @ np.r_[0.01, 0.002, z0[::-1]]
    np.testing.assert_allclose(path, expected, atol=1e-7 * abs(expected).max())


def test_the_page_draws_the_gain_that_the_equation_has(javascript):
    """Steady amplitude of the exact response to a sine of 5 Hz, 400 samples per second."""
    rate, f0, zeta, third, w3 = 400, 7.0, 0.1, 30.0, 5e-4
    omega = 2 * np.pi * f0 / rate
    roots = np.r_[np.roots([1, 2 * zeta * omega, omega**2]), -third / rate]
    sine = np.sin(2 * np.pi * 5 * np.arange(4000) / rate)
    x = w3 * poles.basis(roots, sine)[-800:, 0]  # ten periods, the transient over
    theirs = javascript("third", f"gain(5, {f0}, {zeta}, {third}, {w3 * rate**3})")
    assert theirs == pytest.approx(x.std() * 2**0.5, rel=2e-3)
