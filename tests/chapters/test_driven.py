"""DrivenModel models linear in features: draws, stability, training and least squares."""

import copy
import json

import numpy as np
import pytest
import torch

from sonode_utils.chapters import driven
from sonode_utils.chapters.driven import DrivenModel, fit_driven, stable_start
from sonode_utils.chapters.least_squares import assign, fit_optimum, numbers, sensitivities
from sonode_utils.ensemble import streams
from sonode_utils.solvers import parallel
from sonode_utils.solvers.parallel import input_at_stages, solve_parallel

KINDS = list(driven.SHAPES)


def excitation(samples=200):
    stream = torch.Generator().manual_seed(4)
    return torch.randn(1, samples, generator=stream, dtype=torch.float64)


def known():
    """One oscillator, x'' = -.3 x - .1 v - .02 (.01 x^3) + .5 u, v(0) = .2 - .1 x(0)."""
    model = DrivenModel("SONODE", streams("test", [0]), cubic=True).double()
    with torch.no_grad():
        weights = [-0.3, -0.1, -0.02, 0.5]
        model.weight[0, 0] = torch.tensor(weights, dtype=torch.float64)
        model.bias.zero_()
        model.start[0, 0] = torch.tensor([-0.1, 0.2], dtype=torch.float64)
    return model


def test_the_field_is_the_equation_it_says():
    model, z = known(), torch.tensor([[[2.0]], [[-1.0]]], dtype=torch.float64)
    dx, dv = model.field()(z, torch.full((1, 1, 1), 3.0, dtype=torch.float64))
    assert dx.item() == -1
    assert dv.item() == pytest.approx(-0.6 + 0.1 - 0.02 * 0.08 + 1.5)


@pytest.mark.parametrize("kind", KINDS)
def test_its_matrix_is_the_linear_part_of_the_field(kind):
    model = DrivenModel(kind, streams("test", range(3))).double()
    z = torch.randn(model.d, 5, 3, dtype=torch.float64)
    u = torch.zeros(1, 5, 1, dtype=torch.float64)
    field = model.field()
    linear = torch.einsum("mij,jtm->itm", model.matrix(), z)
    torch.testing.assert_close(field(z, u) - field(0 * z, u), linear)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cubic", [False, True])
def test_a_step_with_tangents_has_the_value_and_jacobian_of_automatic_differentiation(
    kind, cubic
):
    field = DrivenModel(kind, streams("test", range(3)), cubic=cubic).double().field()
    stream = torch.Generator().manual_seed(0)
    z = torch.randn(driven.SHAPES[kind][0], 9, 3, generator=stream, dtype=torch.float64)
    u = input_at_stages(torch.randn(1, 10, generator=stream, dtype=torch.float64), substeps=2)
    pushed = parallel.linearise(field, z, u, 0.7)
    reverse = parallel.linearise(lambda z, u: field(z, u), z, u, 0.7)
    for ours, theirs in zip(pushed, reverse):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert pushed[0].requires_grad and not pushed[1].requires_grad


@pytest.mark.parametrize("kind", KINDS)
def test_reflection_leaves_stable_eigenvalues_and_mirrors_the_others(kind):
    model = DrivenModel(kind, streams("test", range(20)))
    before = torch.linalg.eigvals(model.matrix().double())
    model.reflect(torch.ones(20, dtype=torch.bool))
    after = torch.linalg.eigvals(model.matrix().double())
    for old, new in zip(before, after):
        mirrored = np.sort_complex(torch.complex(-old.real.abs(), old.imag).numpy())
        assert np.abs(mirrored - np.sort_complex(new.numpy())).max() < 1e-3
    assert not model.unstable().any()


def test_a_quarter_of_second_order_draws_is_stable_and_far_fewer_of_third_order():
    models = {kind: DrivenModel(kind, streams("test", range(2000))) for kind in KINDS}
    share = {kind: 1 - model.unstable().double().mean() for kind, model in models.items()}
    assert share["SONODE"] == pytest.approx(0.25, abs=0.03)
    assert share["ANODE"] == pytest.approx(0.25, abs=0.03)
    assert share["TONODE"] < 0.04


@pytest.mark.parametrize("rule", ["reject", "reflect"])
def test_a_start_is_stable_counted_and_the_same_whoever_stands_beside(rule):
    u = input_at_stages(excitation().float())
    several = streams("test", range(6)), streams("test", [3])
    many, one = (DrivenModel("ANODE", rng, cubic=True) for rng in several)
    far = 30.0  # where the cube rules, and half of its signs let x run away
    (unstable, blown), alone = (stable_start(model, far, u, rule) for model in (many, one))
    assert not many.unstable().any() and not many(far, u).failed.any()
    assert (unstable.sum() > 0) == (rule == "reject")
    assert blown.sum() > 0
    assert (unstable[3], blown[3]) == alone
    torch.testing.assert_close(numbers(many)[3], numbers(one)[0])


def test_each_member_may_have_its_own_rule():
    u = input_at_stages(excitation().float())
    model = DrivenModel("SONODE", streams("test", [5, 6, 5, 6]))
    unstable, _ = stable_start(model, 0.1, u, ["reject", "reject", "reflect", "reflect"])
    assert unstable[:2].sum() > 0 and unstable[2:].sum() == 0
    assert not model.unstable().any()


@pytest.mark.parametrize("cubic", [True, False])
def test_the_exact_run_in_windows_is_the_run_in_one(cubic):
    model = known() if cubic else DrivenModel("ANODE", streams("test", [3])).double()
    u, z0 = input_at_stages(excitation(130), 4), model.initial_state(0.5)
    whole = solve_parallel(model.field(), z0, u).z.detach()
    torch.testing.assert_close(model.exact(0.5, u, window=40), whole, rtol=1e-9, atol=1e-12)


def truth(model, u):
    with torch.no_grad():
        return model(0.5, u).z[0, :, 0]


def test_training_lowers_the_loss_and_shows_the_weights_before_every_step():
    u = input_at_stages(excitation(100))
    x = truth(known(), u)
    model = DrivenModel("SONODE", streams("test", range(3, 6)), cubic=True).double()
    stable_start(model, x[0], u)
    twin, weights = copy.deepcopy(model), []
    callback = {"callback": lambda iteration, model: weights.append(numbers(model))}
    loss = fit_driven(model, x, u, 30, lr=0.1, **callback).loss
    assert (loss.min(0).values < 0.9 * loss[0]).all() and len(weights) == 30
    replay = fit_driven(twin, x, u, 12, lr=0.1).loss
    torch.testing.assert_close(numbers(twin), weights[12])
    torch.testing.assert_close(replay, loss[:12])


def test_least_squares_recovers_the_numbers_that_made_the_data():
    u = input_at_stages(3 * excitation(150))
    x = truth(known(), u)
    model = DrivenModel("SONODE", streams("test", range(3)), cubic=True).double()
    stable_start(model, x[0], u)
    losses = fit_optimum(model, x, u, 40)
    assert (losses.diff(dim=0) <= 0).all()
    assert losses[-1].min() < 1e-18
    best = model.weight[losses[-1].argmin()]
    torch.testing.assert_close(best, known().weight[0], rtol=0, atol=1e-5)


def test_least_squares_stops_when_nothing_moves():
    u, model = input_at_stages(excitation(60)), known()
    x = truth(model, u) + 0.01 * excitation(60)[0]
    assert len(fit_optimum(model, x, u, 100)) < 40


def driven_by(kind, seeds, cubic, dtype):
    """Models with stable starts, whoever stands beside them, and what they are trained on."""
    u = input_at_stages(3 * excitation(150).to(dtype))
    x = truth(known().to(dtype), u)
    model = DrivenModel(kind, streams("test", seeds), cubic=cubic).to(dtype)
    stable_start(model, x[0], u)
    return model, x, u


GROUPS = [[7], [3, 7], list(range(10)), list(range(10, 24)), list(range(23, -1, -1))]


@pytest.mark.parametrize("kind, cubic", [("SONODE", True), ("ANODE", False), ("TONODE", False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_gradient_have_the_same_bits_in_any_company(kind, cubic, dtype):
    def trained(seeds):
        model, x, u = driven_by(kind, seeds, cubic, dtype)
        loss = driven.mean_square(model(x[0], u).z[0] - x[:, None])
        loss.sum().backward()
        return [loss.detach(), *(p.grad for p in model.parameters())]

    everyone = trained(range(24))
    for members in GROUPS:
        for ours, theirs in zip(trained(members), everyone):
            assert torch.equal(ours, theirs[members]), members


@pytest.mark.parametrize("kind, cubic", [("SONODE", True), ("ANODE", False)])
def test_an_optimum_has_the_same_bits_in_any_company(kind, cubic):
    """Though members stop at different iterations."""

    def optima(seeds):
        model, x, u = driven_by(kind, seeds, cubic, torch.float64)
        x = x + 0.01 * torch.sin(7 * torch.arange(len(x)))  # nobody fits this
        losses = fit_optimum(model, x, u, 40)
        stopped = (losses == losses[-1]).int().argmax(0)
        return numbers(model), losses[-1], stopped

    everyone = optima(range(24))
    assert len(set(everyone[2].tolist())) > 3
    for members in GROUPS:
        for ours, theirs in zip(optima(members), everyone):
            assert torch.equal(ours, theirs[members]), members


def test_sensitivities_are_the_derivatives_of_the_solution():
    u, model = input_at_stages(excitation(60)), known()
    z = model(0.5, u).z.detach()
    ours = sensitivities(model, 0.5, u, z)
    theta, h = numbers(model), 1e-5
    for j in range(theta.shape[1]):
        ends = []
        for sign in (h, -h):
            shifted = theta.clone()
            shifted[:, j] += sign
            assign(model, shifted)
            ends.append(model(0.5, u).z.detach())
        expected = (ends[0] - ends[1]) / (2 * h)
        torch.testing.assert_close(ours[j], expected, rtol=1e-5, atol=1e-6)


def test_the_page_integrates_the_silverbox_as_we_do(javascript):
    signal, model = excitation(80), known()
    with torch.no_grad():
        model.bias.fill_(0.05)
        ours = model(0.5, input_at_stages(signal, 2)).z[0, :, 0]
    numbers = {"omega": 0.3**0.5, "damping": 0.1, "cube": -0.02, "gain": 0.5}
    numbers |= {"bias": 0.05, "v0": 0.2 - 0.1 * 0.5}
    call = f"respond({json.dumps(numbers)}, {signal[0].tolist()}, 0.5)"
    theirs = torch.tensor(javascript("silverbox", call), dtype=torch.float64)
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-9)
