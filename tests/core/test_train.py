"""Training: the ensemble must do what each member would have done alone."""

import copy

import pytest
import torch

from sonode_utils.ensemble import EnsembleMLP, normal, streams
from sonode_utils.models import NODE, SONODE
from sonode_utils.train import fit, iterations_to, mse, score

TIMES = torch.linspace(0, 1, 3)
FIXED = {"method": "rk4", "step_size": 0.25}


def data(seeds):
    return torch.cat([normal((1, 6, 2), g) for g in streams("test", seeds)])


def train(seeds, iterations=50, **solver):
    rng = streams("test", seeds)
    model = SONODE(EnsembleMLP(4, 2, rng), EnsembleMLP(2, 2, rng, activation="tanh"))
    x = data(seeds)
    history = fit(model, lambda m: mse(m(x, TIMES, **solver).x[-1], -x), iterations=iterations)
    return model, history


@pytest.mark.parametrize("solver, close", [(FIXED, 1e-5), ({"rtol": 1e-6, "atol": 1e-6}, 1e-3)])
def test_an_ensemble_trains_as_its_members_would_alone(solver, close):
    together, history = train(range(4), **solver)
    for k in range(4):
        alone, own = train([k], **solver)
        assert torch.allclose(history.loss[:, k], own.loss[:, 0], rtol=close, atol=close)
        for a, b in zip(together.parameters(), alone.parameters()):
            assert torch.allclose(a[k], b[0], atol=close)


def test_the_same_seeds_give_the_same_bits():
    a, first = train(range(3), iterations=20)
    b, second = train(range(3), iterations=20)
    assert torch.equal(first.loss, second.loss)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))


def test_a_step_is_that_of_the_optimiser_of_torch():
    ours, history = train(range(3), iterations=20, **FIXED)
    rng = streams("test", range(3))
    theirs = SONODE(EnsembleMLP(4, 2, rng), EnsembleMLP(2, 2, rng, activation="tanh"))
    optimiser, x = torch.optim.Adam(theirs.parameters(), lr=0.01), data(range(3))
    for loss in history.loss:
        optimiser.zero_grad()
        value = mse(theirs(x, TIMES, **FIXED).x[-1], -x)
        torch.testing.assert_close(loss, value.detach())
        value.sum().backward()
        optimiser.step()
    for p, q in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_a_parameter_that_the_loss_does_not_see_stays_as_it_is():
    model, x = SONODE(EnsembleMLP(4, 2, streams("test", [0]))), data([0])
    model.g = lambda x0: torch.zeros_like(x0)
    model.spare = torch.nn.Parameter(torch.ones(1, 1))
    fit(model, lambda m: mse(m(x, TIMES).x[-1], -x), iterations=3)
    assert model.spare == 1


def test_members_with_rates_of_their_own_learn_as_ensembles_of_one_rate_do():
    def learn(lr):
        model, x = NODE(EnsembleMLP(2, 2, streams("test", [0, 1]))), data([0, 1])
        loss = lambda m: mse(m(x, TIMES, **FIXED).x[-1], -x)  # noqa: E731
        return fit(model, loss, iterations=30, lr=lr).loss

    each = learn(torch.tensor([0.003, 0.03]))
    torch.testing.assert_close(each[:, 0], learn(0.003)[:, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(each[:, 1], learn(0.03)[:, 1], rtol=1e-4, atol=1e-5)


def test_training_lowers_every_members_loss():
    _, history = train(range(5))
    assert (history.loss[-1] < 0.5 * history.loss[0]).all()
    assert (history.nfe > 0).all() and not history.diverged.any()


def test_training_plans_its_steps_and_so_needs_fewer_evaluations():
    model, history = train(range(5))
    cold = model(data(range(5)), TIMES).nfe
    assert history.nfe[-1] < cold == model(data(range(5)), TIMES).nfe


def test_a_copy_made_in_training_starts_its_solves_anew():
    model, copies = NODE(EnsembleMLP(2, 2, streams("test", [0]))), []

    def loss(model):
        copies.append(copy.deepcopy(model))
        return mse(model(data([0]), TIMES).x[-1], -data([0]))

    fit(model, loss, iterations=3)
    assert model.plan is None and all(c.plan is None for c in copies)


def test_a_model_forgets_its_steps_when_training_is_broken_off():
    model = NODE(EnsembleMLP(2, 2, streams("test", [0])))
    with pytest.raises(ZeroDivisionError):
        fit(model, lambda m: 1 / 0, iterations=1)
    assert model.plan is None


class Pushed(torch.nn.Module):
    """A network whose members can be pushed over the edge: f(z) + push z^2."""

    def __init__(self, f, members):
        super().__init__()
        self.f, self.push = f, torch.zeros(members, 1, 1)

    def forward(self, z, t):
        return self.f(z) + self.push * z * z


def exploding(seeds, bad=None, iterations=30, **solver):
    """Parity in which member `bad` is made to blow up from the tenth iteration on."""
    f = Pushed(EnsembleMLP(2, 2, streams("test", seeds)), len(seeds))
    model, x, calls = NODE(f), data(seeds), []

    def loss(model):
        calls.append(None)
        if bad is not None and len(calls) == 10:
            f.push[bad] = 50.0
        return mse(model(x, TIMES, **solver).x[-1], -x)

    return model, fit(model, loss, iterations=iterations)


@pytest.mark.parametrize("solver, close", [(FIXED, 1e-5), ({"rtol": 1e-6, "atol": 1e-6}, 1e-3)])
def test_one_member_blows_up_and_nine_finish_as_if_alone(solver, close):
    model, history = exploding(range(10), bad=4, **solver)
    rest = [k for k in range(10) if k != 4]
    without, clean = exploding(rest, **solver)
    assert history.diverged.tolist() == [k == 4 for k in range(10)]
    assert history.loss[9:, 4].isnan().all() and history.loss[:9, 4].isfinite().all()
    assert torch.allclose(history.loss[:, rest], clean.loss, rtol=close, atol=close)
    for p, q in zip(model.parameters(), without.parameters()):
        assert torch.allclose(p[rest], q, atol=close)


def test_a_frozen_member_keeps_its_last_good_weights():
    model, _ = exploding(range(3), bad=1, **FIXED)
    before, _ = exploding(range(3), iterations=8, **FIXED)
    for p, q in zip(model.parameters(), before.parameters()):
        assert torch.equal(p[1], q[1])


def test_a_member_with_a_finite_loss_and_an_infinite_gradient_is_out():
    model = torch.nn.Module()
    model.weight, model.nfe = torch.nn.Parameter(torch.tensor([[1.0], [0.0]])), 0
    history = fit(model, lambda m: m.weight[:, 0].sqrt(), iterations=3)
    assert history.diverged.tolist() == [False, True] and history.loss[:, 1].isnan().all()
    assert model.weight[1] == 0 and model.weight[0] < 1


def test_a_run_in_which_all_members_diverge_ends_and_says_so():
    _, history = exploding([0], bad=0, **FIXED)
    assert history.diverged.all() and len(history.loss) == 10


def test_mse_averages_over_everything_but_the_member():
    prediction = torch.arange(24.0).view(2, 3, 2, 2)
    expected = (prediction**2).transpose(0, 1).flatten(1).mean(1)
    assert torch.allclose(mse(prediction, torch.zeros_like(prediction)), expected)


def test_mse_of_padded_members_counts_real_features_only():
    prediction = torch.tensor([[[3.0, 0.0]], [[3.0, 3.0]]])
    loss = mse(prediction, torch.zeros(2, 1, 2), features=torch.tensor([1, 2]))
    assert loss.tolist() == [9.0, 9.0]


def test_the_callback_sees_the_model_before_every_iteration():
    model, x = NODE(EnsembleMLP(1, 1, streams("test", [0]))), torch.ones(1, 1, 1)
    seen = []

    def note(iteration, model):
        seen.append((iteration, float(model.f.layers[0].weight.detach().sum())))

    before = float(model.f.layers[0].weight.detach().sum())
    fit(model, lambda m: mse(m(x, TIMES).x[-1], -x), iterations=3, callback=note)
    assert [k for k, _ in seen] == [0, 1, 2] and seen[0][1] == before != seen[1][1]


def test_a_score_is_the_loss_with_the_given_solve_and_infinite_where_there_is_none():
    target = torch.tensor([1.0, 2.0, 3.0])

    def solve(factor):
        return factor * target

    values = score(lambda solve: solve(2.0), solve)
    assert values.dtype == "float64" and values.tolist() == [2.0, 4.0, 6.0]
    assert score(lambda solve: solve(torch.nan), solve).tolist() == [torch.inf] * 3


def test_iterations_are_counted_from_one_and_one_past_the_last_if_never():
    loss = torch.tensor([[1.0, 1.0, 0.01], [0.05, 1.0, 1.0], [0.01, torch.nan, 1.0]])
    assert iterations_to(loss, 0.1).tolist() == [2, 4, 1]


def test_what_a_callback_solves_does_not_change_the_training():
    def trained(callback):
        model, x = NODE(EnsembleMLP(1, 1, streams("test", [0]))), torch.ones(1, 1, 1)
        loss = lambda m: mse(m(x, TIMES).x[-1], -x)  # noqa: E731
        return fit(model, loss, iterations=5, callback=callback)

    def solve(iteration, model):
        model(100 * torch.ones(1, 1, 1), TIMES, rtol=1e-7, atol=1e-7)

    with_it, without = trained(solve), trained(None)
    assert torch.equal(with_it.loss, without.loss) and torch.equal(with_it.nfe, without.nfe)
