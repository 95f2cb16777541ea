"""The solver on problems with a closed form, and against torchdiffeq itself."""

import math

import numpy as np
import pytest
import torch
from torchdiffeq import odeint

from sonode_utils.ensemble import EnsembleMLP, streams
from sonode_utils.solve import integrate, reversal_error
from sonode_utils.solvers.dopri5 import plan_steps
from sonode_utils.solvers.fields import StepPlan

TIGHT = {"rtol": 1e-9, "atol": 1e-9}
TIMES = torch.linspace(0, 2, 7, dtype=torch.float64)


def decay(t, z):
    return -z


def oscillator(t, z):
    return torch.cat([z[..., 1:], -z[..., :1]], -1)


def test_an_exponential_decays_as_its_closed_form_says():
    z0 = torch.tensor([1.0, -2.0], dtype=torch.float64).view(2, 1, 1)
    z = integrate(decay, z0, TIMES, **TIGHT).z
    assert torch.allclose(z, z0 * torch.exp(-TIMES).view(-1, 1, 1, 1), atol=1e-8)


def test_an_oscillator_turns_into_cosine_and_minus_sine():
    z0 = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    z = integrate(oscillator, z0, TIMES, **TIGHT).z[:, 0, 0]
    assert torch.allclose(z, torch.stack([TIMES.cos(), -TIMES.sin()], -1), atol=1e-8)


def test_times_may_run_backwards():
    z0 = torch.ones(1, 1, 1, dtype=torch.float64)
    z = integrate(lambda t, z: t * z, z0, TIMES.flip(0), **TIGHT).z[-1]
    assert torch.allclose(z, torch.exp(torch.tensor(-2.0, dtype=torch.float64)), atol=1e-8)


@pytest.mark.parametrize("dtype, close", [(torch.float64, 1e-13), (torch.float32, 1e-4)])
def test_our_dopri5_is_torchdiffeqs_evaluation_for_evaluation(dtype, close):
    f = EnsembleMLP(2, 2, streams("test", range(3))).to(dtype)
    z0 = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0)).to(dtype)
    calls = []

    def field(t, z):
        calls.append(t)
        return f(z)

    def worst_member(z):
        return z.square().mean((1, 2)).sqrt().max()

    times, options = torch.linspace(0, 3, 20, dtype=dtype), {"norm": worst_member}
    theirs = odeint(field, z0, times, rtol=1e-6, atol=1e-6, method="dopri5", options=options)
    ours = integrate(lambda t, z: f(z), z0, times, rtol=1e-6, atol=1e-6)
    assert ours.nfe == len(calls)
    assert torch.allclose(ours.z, theirs, rtol=0, atol=close)


def test_the_gradient_is_that_of_the_steps_taken():
    """Against central differences on a fixed step pattern: a tight solve."""
    w = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    z0 = torch.ones(1, 1, 1, dtype=torch.float64)
    times = torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64)
    z = integrate(lambda t, z: torch.sin(w * z) + t, z0, times, **TIGHT).z

    def value(weight):
        end = integrate(lambda t, z: torch.sin(weight * z) + t, z0, times, **TIGHT).z
        return end[1:].square().sum()

    (gradient,) = torch.autograd.grad(z[1:].square().sum(), w)
    h = 1e-5
    numeric = (value(w.detach() + h) - value(w.detach() - h)) / (2 * h)
    assert torch.allclose(gradient, numeric, rtol=1e-5), (gradient, numeric)


def test_a_fast_member_makes_no_slow_member_less_accurate():
    rates = torch.tensor([0.5, 1.0, 30.0], dtype=torch.float64).view(3, 1, 1)
    z0 = torch.ones(3, 4, 1, dtype=torch.float64)
    times = torch.tensor([0.0, 2.0], dtype=torch.float64)
    truth = torch.exp(-2 * rates)

    def error(keep):
        z = integrate(lambda t, z: -rates[keep] * z, z0[keep], times).z[-1]
        return (z - truth[keep]).abs().amax((1, 2))

    together = error([0, 1, 2])
    alone = torch.cat([error([k]) for k in range(3)])
    assert (together <= alone + 1e-12).all()


def test_a_mean_over_all_members_would_have_hidden_the_one_that_needs_care():
    """The norm is the worst member's: many idle members do not dilute it."""
    rates = torch.zeros(50, 1, 1, dtype=torch.float64)
    rates[0] = 30.0
    z0 = torch.ones(50, 1, 1, dtype=torch.float64)
    crowd = integrate(lambda t, z: -rates * z, z0, TIMES)
    alone = integrate(lambda t, z: -rates[:1] * z, z0[:1], TIMES)
    assert crowd.nfe >= alone.nfe


def blow_up(t, z):
    """z' = z^2 from 1 is infinite at t = 1; member 0 starts at 0 and stays."""
    return z * z


@pytest.mark.parametrize(
    "options", [{}, {"method": "rk4", "step_size": 0.1}, {"max_steps": 30}, {"method": "bosh3"}]
)
def test_a_member_that_blows_up_is_reported_and_the_others_finish(options):
    z0 = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64).view(3, 1, 1)
    times = torch.linspace(0, 40, 5, dtype=torch.float64)
    solution = integrate(blow_up, z0, times, rtol=1e-6, atol=1e-6, **options)
    assert solution.failed.tolist() == [False, True, False]
    assert solution.z[:, 1].isnan().all()
    if "method" not in options:
        assert torch.allclose(solution.z[:, 2, 0, 0], -1 / (1 + times), atol=1e-4)


def test_a_step_may_be_as_short_as_a_sudden_start_needs():
    def field(t, z):
        return -1e5 * torch.exp(-1e5 * t) * z

    done = integrate(field, torch.ones(1, 1, 1).double(), torch.tensor([0.0, 1.0]))
    assert not done.failed.any()
    assert done.z[-1].item() == pytest.approx(math.exp(-1), rel=1e-2)


def test_a_member_that_needs_more_steps_than_allowed_is_given_up():
    rates = torch.tensor([1.0, 1e4]).double().view(2, 1, 1)
    times, z0 = torch.tensor([0.0, 1.0]).double(), torch.ones(2, 1, 1).double()
    done = integrate(lambda t, z: -rates * z, z0, times, max_steps=100)
    assert done.failed.tolist() == [False, True]
    assert done.z[-1, 0].item() == pytest.approx(math.exp(-1), rel=1e-2)
    assert not integrate(lambda t, z: -rates * z, z0, times).failed.any()


def test_a_member_that_starts_undefined_is_out_from_the_start():
    z0 = torch.tensor([1.0, torch.nan]).view(2, 1, 1)
    solution = integrate(decay, z0, torch.tensor([0.0, 1.0]))
    assert solution.failed.tolist() == [False, True]
    assert solution.z[-1, 0].item() == pytest.approx(0.3679, abs=1e-3)


def test_reversal_brings_an_easy_flow_back_and_not_a_coarse_one():
    z0 = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    times = torch.tensor([0.0, 5.0], dtype=torch.float64)
    assert reversal_error(oscillator, z0, times, **TIGHT).max() < 1e-7
    coarse = reversal_error(oscillator, z0, times, method="euler", step_size=1.0)
    assert coarse.max() > 1


@pytest.mark.parametrize(
    "field, z0, times, words",
    [
        (decay, torch.ones(2, 2), TIMES, "z0 must be"),
        (decay, torch.ones(1, 1, 1), TIMES[:1], "times must be"),
        (decay, torch.ones(1, 1, 1), TIMES[[0, 2, 1]], "strictly increase"),
        (lambda t, z: z[..., :1], torch.ones(1, 1, 2), TIMES, "field returns"),
    ],
)
def test_bad_input_is_named(field, z0, times, words):
    with pytest.raises(ValueError, match=words):
        integrate(field, z0, times)


def test_a_plan_has_the_fewest_steps_that_what_is_known_of_the_errors_allows():
    exact = 0.9**5  # the error at which a step is just as long as it should be
    assert plan_steps([], 1.0) == []
    assert np.allclose(
        plan_steps([(0.5, exact), (0.25, exact), (0.25, exact)], 1.0), [0.25, 0.25, 0.5]
    )
    assert np.allclose(plan_steps([(0.25, exact)] * 4, 1.0), 0.25)
    assert np.allclose(plan_steps([(0.25, exact / 2**5)] * 4, 1.0), 0.5)
    assert np.allclose(plan_steps([(0.3, exact)] * 4, 1.0), 0.25)  # 3.3 steps are 4, all alike
    assert sum(plan_steps([(0.1, exact), (0.9, exact)], 1.0)) >= 1.0


def planned(field, z0, times, other=None, **tol):
    """A cold solve, and one that plans by a solve of the same field, or of another one."""
    plan = StepPlan()
    integrate(other or field, z0, times, plan=plan, **tol)
    return (
        integrate(field, z0, times, **tol),
        integrate(field, z0, times, plan=plan, **tol),
        plan,
    )


def test_a_planned_solve_needs_fewer_evaluations_and_is_as_accurate():
    z0 = torch.tensor([1.0, 0.0], dtype=torch.float64).view(1, 1, 2)
    times = torch.linspace(0, 3, 7, dtype=torch.float64)
    exact = torch.stack([times.cos(), -times.sin()], -1)
    for tol in (1e-3, 1e-6, 1e-9):
        cold, warm, plan = planned(oscillator, z0, times, rtol=tol, atol=tol)
        assert warm.nfe < cold.nfe
        assert all(error <= 1 for _, error in plan)
        assert (warm.z[:, 0, 0] - exact).abs().max() < 20 * tol


def test_a_plan_that_is_too_bold_is_given_up_and_costs_no_accuracy():
    z0, times = torch.ones(1, 1, 2, dtype=torch.float64), torch.tensor([0.0, 2.0])
    slow, fast = (lambda t, z: -z), (lambda t, z: -20 * z)
    cold, bold, _ = planned(fast, z0, times, slow, **TIGHT)
    assert torch.allclose(bold.z[-1], z0 * math.exp(-40), atol=1e-7)
    assert not bold.failed.any()
    assert bold.nfe < cold.nfe + 30


def test_a_plan_for_a_shorter_interval_is_carried_on():
    z0, times = torch.ones(1, 1, 2, dtype=torch.float64), torch.tensor([0.0, 0.5, 4.0])
    plan = StepPlan()
    integrate(decay, z0, times[:2], plan=plan, **TIGHT)
    z = integrate(decay, z0, times, plan=plan, **TIGHT).z
    assert torch.allclose(z[-1], z0 * math.exp(-4), atol=1e-7)


def test_a_plan_reaches_the_end_without_one_more_step_for_a_rounding():
    z0 = torch.ones(1, 1, 2, dtype=torch.float64)
    for end in np.random.default_rng(0).uniform(0.1, 9, 40):
        times = torch.tensor([0.1, 0.1 + end], dtype=torch.float64)
        plan = StepPlan()
        integrate(oscillator, z0, times, plan=plan)
        lengths = plan_steps(plan, float(times[1] - times[0]))
        integrate(oscillator, z0, times, plan=plan)
        assert len(plan) == len(lengths)


def test_an_error_that_no_member_is_to_blame_for_is_not_swallowed():
    def broken(t, z):
        raise AssertionError("a mistake in the field")

    with pytest.raises(AssertionError, match="a mistake in the field"):
        integrate(broken, torch.ones(1, 1, 1), torch.tensor([0.0, 1.0]), method="dopri8")
