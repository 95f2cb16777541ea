"""Training: the ensemble must do what each member would have done alone."""

import copy

import pytest
import torch

from sonode_utils.ensemble import EnsembleMLP, normal, streams
from sonode_utils.models import NODE, SONODE, paper_model
from sonode_utils.train import fit, iterations_to, mse, planning, score

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


class Bowl(torch.nn.Module):
    """Two members, one far from its minimum and one near it."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([[3.0, 4.0], [0.3, 0.4]]))


@pytest.mark.parametrize("beta2, clip", [(0.9, None), (0.999, 1.0)])
def test_memory_and_clipping_are_those_of_torch_for_each_member_alone(beta2, clip):
    ours = Bowl()
    fit(ours, lambda m: m.w.square().sum(1), iterations=40, lr=0.1, beta2=beta2, clip=clip)
    for k in range(2):
        w = Bowl().w[k].detach().requires_grad_()
        optimiser = torch.optim.Adam([w], lr=0.1, betas=(0.9, beta2))
        for _ in range(40):
            optimiser.zero_grad()
            w.square().sum().backward()
            if clip:
                torch.nn.utils.clip_grad_norm_([w], clip)
            optimiser.step()
        torch.testing.assert_close(ours.w[k], w, rtol=1e-4, atol=1e-5)


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
    torch.testing.assert_close(each[:, 0], learn(0.003)[:, 0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(each[:, 1], learn(0.03)[:, 1], rtol=1e-3, atol=1e-4)


def test_training_lowers_every_members_loss():
    _, history = train(range(5))
    assert (history.loss[-1] < 0.5 * history.loss[0]).all()
    assert (history.nfe > 0).all() and not history.diverged.any()


def test_training_plans_its_steps_and_so_needs_fewer_evaluations():
    model, history = train(range(5))
    cold = model(data(range(5)), TIMES).nfe
    assert torch.equal(cold, model(data(range(5)), TIMES).nfe)
    assert (history.nfe[-1] < cold).all() and history.nfe.shape == (50, 5)


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


def test_a_members_mse_has_the_same_bits_in_any_company():
    prediction = torch.randn(50, 100, 1, 1, generator=torch.Generator().manual_seed(0))
    whole = mse(prediction, torch.zeros(1, 1, 1, 1))
    for few in (1, 3, 7, 20):
        assert torch.equal(mse(prediction[:, :few], torch.zeros(1, 1, 1, 1)), whole[:few])


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


def trained(name, seeds, iterations=100, batch=1, wild=None):
    """What `fit` returns; `wild` is the position of a member that blows up."""
    model = paper_model(name, 2, streams("weights", seeds, name))
    if wild is not None:
        with torch.no_grad():
            for p in model.f.parameters():
                p[wild] *= 60
    x = torch.stack([normal((batch, 2), s) for s in streams("points", seeds)])
    times = torch.linspace(0, 2, 5)
    return fit(model, lambda m: mse(m(x, times).x[1:], -x[None]), iterations=iterations)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("name", ["NODE", "ANODE", "SONODE"])
def test_a_member_ends_with_the_same_bits_whatever_stands_beside_it(name, batch):
    """Alone, in tens, in a hundred, in another order, beside a member that blows up."""
    everyone = list(range(100))
    reference = trained(name, everyone, batch=batch)
    wild = trained(name, [*range(10), 0], batch=batch, wild=10)
    assert wild.diverged.tolist() == [False] * 10 + [True]
    companies = [
        (everyone[::-1], trained(name, everyone[::-1], batch=batch)),
        (everyone[40:50], trained(name, everyone[40:50], batch=batch)),
        ([17], trained(name, [17], batch=batch)),
        (everyone[:10], wild),
    ]
    for seeds, history in companies:
        for i, seed in enumerate(seeds):
            assert torch.equal(history.nfe[:, i], reference.nfe[:, seed]), (seeds[0], seed)
            assert torch.equal(history.loss[:, i], reference.loss[:, seed]), (seeds[0], seed)


def test_members_need_different_numbers_of_evaluations():
    nfe = trained("ANODE", range(10), iterations=20).nfe
    assert len({tuple(column.tolist()) for column in nfe.T}) > 1


def test_a_member_that_is_out_stays_out_in_the_next_training_and_on_disk():
    model, history = exploding(range(3), bad=1, **FIXED)
    model.f.push[:] = 0
    x = data(range(3))
    again = fit(model, lambda m: mse(m(x, TIMES, **FIXED).x[-1], -x), iterations=5)
    assert history.diverged.tolist() == again.diverged.tolist() == [False, True, False]
    assert again.loss[:, 1].isnan().all() and again.loss[:, [0, 2]].isfinite().all()
    fresh = NODE(Pushed(EnsembleMLP(2, 2, streams("other", range(3))), 3))
    fresh.load_state_dict(model.state_dict())
    assert fresh.alive.tolist() == [True, False, True]


def test_a_parameter_changed_between_forward_and_backward_is_an_error():
    model, x = NODE(EnsembleMLP(2, 2, streams("weights", [0, 1]))), data([0, 1])
    loss = mse(model(x, TIMES).x[-1], -x).sum()
    with torch.no_grad():
        model.f.layers[0].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_backward_twice_needs_retain_graph_and_then_gives_the_same_gradient():
    model, x = NODE(EnsembleMLP(2, 2, streams("weights", [0, 1]))), data([0, 1])
    with planning(model):
        loss, weight = mse(model(x, TIMES).x[-1], -x).sum(), model.f.layers[0].weight
        (first,) = torch.autograd.grad(loss, weight, retain_graph=True)
        mse(model(2 * x, TIMES).x[-1], -x).sum().backward()  # another solve in between
        (second,) = torch.autograd.grad(loss, weight)
        assert torch.equal(first, second)
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_a_second_derivative_of_a_solve_without_a_graph_is_refused():
    model, x = NODE(EnsembleMLP(2, 2, streams("weights", [0, 1]))), data([0, 1])
    loss = mse(model(x, TIMES).x[-1], -x).sum()
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(loss, model.f.layers[0].weight, create_graph=True)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (4, 2, 2), (3, 2, 5, 1)])
def test_mse_refuses_a_target_that_would_be_spread_out_by_mistake(shape):
    with pytest.raises(ValueError, match="target must have the shape"):
        mse(torch.zeros(3, 4, 5, 2), torch.zeros(shape))


def test_fit_names_a_loss_that_is_not_one_per_member():
    model, x = NODE(EnsembleMLP(2, 2, streams("weights", [0, 1]))), data([0, 1])
    with pytest.raises(ValueError, match=r"loss must give \(2,\)"):
        fit(model, lambda m: mse(m(x, TIMES).x[-1], -x).sum(), iterations=1)
