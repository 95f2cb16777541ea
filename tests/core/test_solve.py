"""The solver on problems with a closed form, and against torchdiffeq itself."""

import math

import numpy as np
import pytest
import torch
from torchdiffeq import odeint
from torchdiffeq._impl.misc import _optimal_step_size

from sonode_utils.ensemble import streams
from sonode_utils.models import paper_model
from sonode_utils.solve import integrate, reversal_error
from sonode_utils.solvers import tape
from sonode_utils.solvers.clocks import StepPlan, _interpolate, plan_steps, step_factor

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


def alone(field, z0, times, member, **tolerances):
    """torchdiffeq's solution of one member, and how often it evaluated the field."""
    calls = []

    def only(t, z):
        calls.append(t)
        return field(t, z0.index_put((torch.tensor(member),), z))[member]

    with torch.no_grad():
        return odeint(only, z0[member], times, method="dopri5", **tolerances), len(calls)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("name", ["NODE", "ANODE", "SONODE"])
def test_every_member_takes_the_steps_that_torchdiffeq_takes_for_it_alone(name, tol, batch):
    model = paper_model(name, 2, streams("test weights", range(4))).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(torch.tensor([0.5, 1, 2, 3]).view(-1, 1, 1))  # from lazy to wild
    z0 = model.initial_state(
        torch.randn(4, batch, 2, generator=torch.Generator().manual_seed(0)).double()
    )
    times = torch.linspace(0.3, 3.3, 20).double()
    ways = [
        integrate(model.field, z0, times, rtol=tol, atol=tol),
        integrate(model.field, z0, times, rtol=tol, atol=tol, network=model.network()),
    ]
    with torch.no_grad():
        ways.append(integrate(model.field, z0, times, rtol=tol, atol=tol))
    for k in range(4):
        theirs, evaluations = alone(model.field, z0.detach(), times, k, rtol=tol, atol=tol)
        for ours in ways:
            assert ours.nfe[k] == evaluations
            assert torch.allclose(ours.z[:, k], theirs, rtol=0, atol=0.02 * tol)
    assert len(set(ways[0].nfe.tolist())) > 1  # each its own


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


def test_a_fast_member_costs_a_slow_one_nothing():
    rates = torch.tensor([0.5, 1.0, 30.0], dtype=torch.float64).view(3, 1, 1)
    z0 = torch.ones(3, 4, 1, dtype=torch.float64)
    times = torch.tensor([0.0, 2.0], dtype=torch.float64)

    def solve(keep):
        return integrate(lambda t, z: -rates[keep] * z, z0[keep], times)

    together, lone = solve([0, 1, 2]), [solve([k]) for k in range(3)]
    assert together.nfe.tolist() == [int(one.nfe) for one in lone]
    assert torch.equal(together.z, torch.cat([one.z for one in lone], 1))
    assert together.nfe[2] > 2 * together.nfe[0]


@pytest.mark.parametrize("members, batch, each", [(9, 3, False), (9, 3, True), (130, 1, False)])
@pytest.mark.parametrize("planned", [True, False])
def test_members_that_are_done_leave_a_long_solve_and_change_no_bit(
    monkeypatch, members, batch, each, planned
):
    model = paper_model("SONODE", 2, streams("test weights", range(members)))
    for layer in model.f.layers[::2]:  # member 1 is stiff, and 4 blows up
        layer.weight.data[1] *= 8
        layer.weight.data[4] *= 10
    x0 = torch.linspace(-1, 1, members * batch * 2).view(members, batch, 2)
    times = torch.linspace(0, 3, 8)
    if each:
        times = times[:, None, None] * torch.linspace(0.5, 1, members * batch).view(
            members, batch
        )

    def solve():
        plan, tapes, found = StepPlan() if planned else None, [], []
        make = tape.Tape.__init__
        with monkeypatch.context() as patch:
            patch.setattr(
                tape.Tape, "__init__", lambda *given: (tapes.append(given), make(*given))[1]
            )
            for _ in range(2):
                model.zero_grad()
                z = integrate(
                    model.field, model.initial_state(x0), times,
                    network=model.network(), plan=plan,
                )  # fmt: skip
                z.z.square().sum().backward()
                found += [z.z, z.nfe, *(p.grad.clone() for p in model.parameters())]
        return found, len(tapes), found[1]

    few, tapes, nfe = solve()
    assert (nfe > 6 * tape.PATIENCE).any() and tapes > 2
    monkeypatch.setattr(tape, "PATIENCE", 10**9)
    everyone, tapes, _ = solve()
    assert tapes <= 2
    for a, b in zip(few, everyone, strict=True):
        assert np.array_equal(a.detach(), b.detach(), equal_nan=True)


def test_a_field_gets_each_members_own_time():
    rates = torch.tensor([1.0, 40.0]).view(2, 1, 1)  # z' = rate cos(rate t): other steps each
    times = torch.linspace(1, 2, 5).double()
    seen = []

    def field(t, z):
        seen.append(t)
        return rates * torch.cos(rates * t) + 0 * z

    z = integrate(field, torch.sin(rates.double() * 1.0), times, **TIGHT).z[..., 0, 0]
    assert torch.allclose(z, torch.sin(times[:, None] * rates.flatten()), atol=1e-6)
    assert all(t.shape == (2, 1, 1) for t in seen) and any(t[0] != t[1] for t in seen)


def test_members_may_be_observed_at_times_of_their_own():
    rates = torch.tensor([1.0, 3.0]).double().view(2, 1, 1)
    times = torch.tensor([[0.0, 0.0], [0.5, 0.1], [1.0, 4.0]]).double()
    z = integrate(lambda t, z: -rates * z, torch.ones(2, 3, 1).double(), times, **TIGHT).z
    assert torch.allclose(
        z[..., 0], torch.exp(-rates[..., 0] * times[..., None]).expand(3, 2, 3), atol=1e-8
    )


@pytest.mark.parametrize("known", [True, False])
def test_rows_of_different_length_share_one_solve_with_a_clock_per_row(known):
    model = paper_model("SONODE", 1, streams("test weights", range(3))).double()
    z0 = model.initial_state(torch.linspace(-1, 1, 6).double().view(3, 2, 1))
    times = torch.linspace(0, 1, 9).double()[:, None, None] * torch.tensor(
        [[1.0, 2.0], [5.0, 0.5], [3.0, 1.0]]
    )
    times[6:, 2, 1] = times[5, 2, 1]  # a shorter run: its last time is repeated
    network = model.network() if known else None
    rows = integrate(model.field, z0, times, network=network, **TIGHT)
    weights = torch.randn(rows.z.shape, generator=torch.Generator().manual_seed(0)).double()
    gradients = torch.autograd.grad((rows.z * weights).sum(), model.f.parameters())
    expected, total = [], 0
    for m in range(3):
        for b in range(2):
            until = 6 if (m, b) == (2, 1) else 9
            one = integrate(model.field, z0[:, b : b + 1], times[:until, m, b], **TIGHT).z[
                :, m, 0
            ]
            assert torch.allclose(rows.z[:until, m, b], one, atol=1e-7)
            total = total + (one * weights[:until, m, b]).sum()
            for late in range(until, 9):
                total = total + (one[-1] * weights[late, m, b]).sum()
    expected = torch.autograd.grad(total, model.f.parameters())
    for ours, theirs in zip(gradients, expected):
        assert torch.allclose(ours, theirs, atol=1e-6)


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
        (decay, torch.ones(1, 1, 1), TIMES.clone().requires_grad_(), "times must not require"),
        (decay, torch.ones(2, 1, 1), TIMES[:, None].repeat(1, 3), r"times must be \(time,\), "),
        (decay, torch.ones(2, 1, 1), TIMES.flip(0)[:, None].repeat(1, 2), "must not decrease"),
    ],
)
def test_bad_input_is_named(field, z0, times, words):
    with pytest.raises(ValueError, match=words):
        integrate(field, z0, times)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.bfloat16])
def test_a_state_that_is_no_single_or_double_number_is_refused(dtype):
    with pytest.raises(TypeError, match="z0 must be float32 or float64"):
        integrate(decay, torch.ones(1, 1, 1).to(dtype), TIMES)


@pytest.mark.parametrize("name", ["rtol", "atol"])
@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
def test_a_tolerance_that_is_no_tolerance_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        integrate(decay, torch.ones(1, 1, 1), TIMES, **{name: value})


@pytest.mark.parametrize("method", ["dopri5", "rk4", "bosh3"])
def test_a_misspelt_option_is_an_error(method):
    with pytest.raises(TypeError, match="stepsize"):
        integrate(decay, torch.ones(1, 1, 1), TIMES, method=method, stepsize=0.1)


def test_zero_tolerance_at_a_state_of_zero_ends():
    z0 = torch.tensor([0.0, 1.0]).view(2, 1, 1)
    done = integrate(decay, z0, TIMES.float(), rtol=1e-3, atol=0.0)
    assert not done.failed.any() and done.z[-1, 0] == 0
    assert done.z[-1, 1].item() == pytest.approx(math.exp(-2), rel=1e-2)


def test_the_number_of_steps_is_limited_where_none_is_rejected():
    times = torch.tensor([0.0, 1e6])
    wave = lambda t, z: torch.cos(t) + 0 * z  # noqa: E731
    assert integrate(wave, torch.zeros(1, 1, 1), times, max_steps=50).failed.all()


def test_late_times_are_not_lost_in_single_precision():
    times = 1.7e9 + torch.linspace(0, 2, 5).double()
    z = integrate(decay, torch.ones(1, 1, 1), times).z[:, 0, 0, 0]
    assert torch.allclose(z, torch.exp(-torch.linspace(0, 2, 5)), atol=2e-3)


def test_an_impossible_stage_of_a_rejected_step_leaves_no_trace_in_the_gradient():
    """sqrt is not a number where a bold first step lands; the accepted steps never go there."""
    w = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)

    def field(t, z):
        return -w.view(2, 1, 1) * torch.sqrt(z.clamp(max=2) - 0.01)

    plan, times = StepPlan(), torch.tensor([0.0, 1.0]).double()
    integrate(lambda t, z: 0 * z - 1e-3, torch.ones(2, 1, 1).double(), times, plan=plan)
    done = integrate(
        field, torch.ones(2, 1, 1).double(), times, plan=plan, rtol=1e-6, atol=1e-6
    )
    (gradient,) = torch.autograd.grad(done.z[-1].sum(), w)
    assert gradient.isfinite().all() and not done.failed.any()


def test_a_plan_has_the_fewest_steps_that_what_is_known_of_the_errors_allows():
    exact = 0.9**5  # the error at which a step is just as long as it should be

    def plan(steps, whole=1.0):
        lengths, errors = np.array(steps, float).T[..., None]
        return plan_steps((lengths, errors), np.array([whole]))[:, 0]

    assert len(plan_steps(None, np.ones(1))) == 0
    assert np.allclose(plan([(0.5, exact), (0.25, exact), (0.25, exact)]), [0.5, 0.25, 0.25])
    assert np.allclose(plan([(0.25, exact)] * 4), 0.25)
    assert np.allclose(plan([(0.25, exact / 2**5)] * 4), 0.5)
    assert np.allclose(plan([(0.3, exact)] * 4), 0.25)  # 3.3 steps are 4, all alike
    assert plan([(0.1, exact), (0.9, exact)]).sum() >= 1.0
    assert np.allclose(plan([(0.5, exact), (0, 0), (0.5, exact)]), 0.5)  # one was rejected


@pytest.mark.parametrize("points", [30, 300])  # with and without a table of all pairs
def test_many_columns_are_interpolated_as_numpy_does_it_for_one(points):
    rng = np.random.default_rng(0)
    xs, ys, share = (np.sort(rng.random((n, 20)), 0) for n in (points, points, 200))
    x = xs[0] + share * (xs[-1] - xs[0])
    expected = [np.interp(*columns) for columns in zip(x.T, xs.T, ys.T)]
    assert np.allclose(_interpolate(x, xs, ys), np.stack(expected, 1), atol=1e-12)


def test_a_clocks_plan_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    lengths, errors = rng.uniform(0.1, 0.3, (7, 5)), rng.uniform(0.01, 1, (7, 5))
    lengths[4:, 1] = 0  # was done sooner
    together = plan_steps((lengths, errors), np.ones(5))
    for k in range(5):
        used = slice(0, 4 if k == 1 else 7)
        lone = plan_steps((lengths[used, [k]], errors[used, [k]]), np.ones(1))[:, 0]
        assert (
            np.array_equal(together[: len(lone), k], lone)
            and (together[len(lone) :, k] == 0).all()
        )


def test_the_step_rule_is_torchdiffeqs():
    for error in (0.0, 1e-9, 0.3, 0.59049, 0.999, 1.0, 1.5, 1e4, np.inf):
        theirs = _optimal_step_size(
            *torch.tensor([1.0, error, 0.9, 10.0, 0.2, 5], dtype=torch.float64)
        )
        assert step_factor(np.array([error]))[0] == pytest.approx(float(theirs), rel=1e-12)


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
        assert (plan.taken[1] <= 1).all()
        assert (warm.z[:, 0, 0] - exact).abs().max() < 20 * tol


def test_a_plan_that_is_too_bold_is_given_up_and_costs_no_accuracy():
    z0, times = torch.ones(1, 1, 2, dtype=torch.float64), torch.tensor([0.0, 2.0])
    slow, fast = (lambda t, z: -z), (lambda t, z: -20 * z)
    cold, bold, _ = planned(fast, z0, times, slow, **TIGHT)
    assert torch.allclose(bold.z[-1], z0 * math.exp(-40), atol=1e-7)
    assert not bold.failed.any()
    assert bold.nfe < 1.2 * cold.nfe


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
        lengths = plan_steps(plan.taken, (times[1:] - times[0]).numpy())
        integrate(oscillator, z0, times, plan=plan)
        assert len(plan.taken[0]) == len(lengths)


def test_an_error_that_no_member_is_to_blame_for_is_not_swallowed():
    def broken(t, z):
        raise AssertionError("a mistake in the field")

    with pytest.raises(AssertionError, match="a mistake in the field"):
        integrate(broken, torch.ones(1, 1, 1), torch.tensor([0.0, 1.0]), method="dopri8")
