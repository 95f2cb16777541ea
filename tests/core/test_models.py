"""Ensembles and models: starts, padding, and the closed forms they must contain."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchdiffeq import odeint

from sonode_utils import ensemble
from sonode_utils.chapters import topology
from sonode_utils.chapters.driven import DrivenModel
from sonode_utils.data import systems
from sonode_utils.ensemble import EnsembleLinear, EnsembleMLP, pad_mask, streams
from sonode_utils.models import ANODE, NODE, SONODE, HigherOrderNODE, paper_model
from sonode_utils.solve import integrate
from sonode_utils.solvers import fields
from sonode_utils.train import planning

ENDS = torch.tensor([0.0, 1.0])


def test_member_k_starts_alike_in_any_company():
    ten, three = (EnsembleMLP(3, 2, streams("test", range(n))) for n in (10, 3))
    for a, b in zip(ten.parameters(), three.parameters()):
        assert torch.equal(a[:3], b)


def test_members_differ_from_each_other():
    weight = EnsembleLinear(3, 2, streams("test", range(4))).weight
    assert len({tuple(w.flatten().tolist()) for w in weight}) == 4


def test_weights_fill_the_bound_of_a_torch_linear_layer():
    layer = EnsembleLinear(16, 64, streams("test", range(8)))
    for values in (layer.weight, layer.bias):
        assert values.abs().max() <= 0.25
        assert values.abs().max() > 0.24
        assert values.mean().abs() < 0.02


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 1000))
def test_a_padded_member_is_the_unpadded_one(d, padding, seed):
    mask = pad_mask([d], d + padding)
    padded = EnsembleMLP(
        d + padding, d + padding, streams("test", [seed]), in_mask=mask, out_mask=mask
    )
    plain = EnsembleMLP(d, d, streams("test", [seed]))
    x = systems.parity([d], streams("test", [seed]), 5)
    x = torch.cat([x, torch.zeros(1, 5, padding)], -1)
    ours, theirs = padded(x), plain(x[..., :d])
    assert torch.allclose(ours[..., :d], theirs, atol=1e-6)
    assert (ours[..., d:] == 0).all()


def test_padding_gets_no_gradient():
    dims = torch.tensor([1, 3])
    mask = pad_mask(dims, 3)
    model = NODE(EnsembleMLP(3, 3, streams("test", [0, 1]), in_mask=mask, out_mask=mask))
    x = systems.parity(dims.tolist(), streams("test", [0, 1]), points=5)
    (model(x, ENDS).x[-1] + x).square().sum().backward()
    first, last = model.f.layers[0], model.f.layers[4]
    assert (first.weight.grad[0, 1:] == 0).all()
    assert (last.weight.grad[0, :, 1:] == 0).all()
    assert (last.bias.grad[0, :, 1:] == 0).all()
    assert first.weight.grad[1].abs().min() > 0


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 10), st.integers(0, 1000), st.floats(0.1, 5.0))
def test_equation_7_turns_every_point_into_its_opposite(d, seed, length):
    """f = 0 and g = -2 x0 / (tN - t0), in any dimension and over any interval."""
    x = systems.parity([d], streams("test", [seed]), points=4).double()
    times = torch.linspace(1, 1 + length, 5, dtype=torch.float64)
    model = SONODE(f=lambda z, t: torch.zeros_like(z[..., :d]), g=lambda x: -2 * x / length)
    path = model(x, times).x
    assert torch.allclose(path[-1], -x, atol=1e-10)
    assert torch.allclose(
        path, x * (1 - 2 * (times - 1) / length)[:, None, None, None], atol=1e-10
    )


def test_a_sonode_with_a_linear_force_is_a_harmonic_oscillator():
    times = torch.linspace(0, 6, 13, dtype=torch.float64)
    model = SONODE(f=lambda z, t: -4 * z[..., :1], g=lambda x: 0 * x)
    x = model.solve_tight(torch.ones(1, 1, 1), times).x.flatten()
    assert torch.allclose(x, torch.cos(2 * times), atol=1e-6)


def test_a_sonode_force_may_depend_on_time():
    """x'' = 6 t from rest is x = t^3."""
    times = torch.linspace(0, 2, 5)
    model = SONODE(f=lambda z, t: 6 * t + 0 * z[..., :1], g=lambda x: 0 * x)
    assert torch.allclose(model(torch.zeros(1, 1, 1), times).x.flatten(), times**3, atol=1e-3)


def test_a_third_order_model_without_force_moves_on_a_parabola():
    z0 = torch.tensor([[[1.0, -2.0, 3.0]]])  # x, x', x''
    model = HigherOrderNODE(f=lambda z, t: torch.zeros_like(z[..., :1]), order=3)
    times = torch.linspace(0, 1, 5)
    x = model(z0, times).x.flatten()
    assert torch.allclose(x, 1 - 2 * times + 1.5 * times**2, atol=1e-5)


def test_an_anode_starts_its_augmented_part_at_zero_or_at_g():
    x0 = torch.ones(2, 3, 2)
    assert torch.equal(ANODE(None, 4).initial_state(x0)[..., 2:], torch.zeros(2, 3, 4))
    learnt = ANODE(None, 1, g=lambda x: x.sum(-1, keepdim=True))
    assert torch.equal(learnt.initial_state(x0)[..., 2:], torch.full((2, 3, 1), 2.0))


def test_an_anode_shows_only_real_space():
    model = ANODE(lambda z, t: torch.ones_like(z), augment=3)
    out = model(torch.zeros(1, 2, 2), ENDS)
    assert out.x.shape == (2, 1, 2, 2) and out.z.shape == (2, 1, 2, 5)


def test_no_increasing_map_beats_the_monotone_floor():
    x = torch.tensor([-1.0, 1.0])
    assert topology.monotone_floor(x, -x) == pytest.approx(1.0)
    x = torch.tensor([0.3, -0.9, 0.1, 0.5])
    assert topology.monotone_floor(x, -x) == pytest.approx(
        float((x - x.mean()).square().mean())
    )
    assert topology.monotone_floor(x, x**3) == pytest.approx(0.0)


def test_parity_points_of_a_member_depend_on_its_own_seed_only():
    both = systems.parity([2, 3], streams("test", [7, 8]), points=6)
    assert torch.equal(systems.parity([3], streams("test", [8]), points=6)[0], both[1])
    assert (both[0, :, 2:] == 0).all() and both.abs().max() <= 1


def fusible(name, activation):
    rng = streams("test", range(4))
    if name == "NODE":
        return NODE(EnsembleMLP(2, 2, rng, activation=activation))
    if name == "ANODE":
        mask = pad_mask([1, 2, 2, 2], 2)
        mask = torch.cat([mask, mask[:, :1]], -1)
        f = EnsembleMLP(3, 3, rng, activation=activation, in_mask=mask, out_mask=mask)
        return ANODE(f, augment=1)
    f = EnsembleMLP(4, 2, rng, activation=activation, output="tanh")
    return SONODE(f, EnsembleMLP(2, 2, rng, activation="tanh"))


def both_ways(model, times, rtol=1e-4):
    """Solution and gradients with the graph of the plain field, and without a graph."""
    x0 = torch.randn(4, 5, 2, generator=torch.Generator().manual_seed(1)).double()
    features = model.f.in_features
    options = {"alive": model.alive, "features": features, "rtol": rtol, "atol": rtol}
    for solve in (
        lambda: integrate(model.field, model.initial_state(x0), times, **options),
        lambda: model(x0, times, rtol=rtol, atol=rtol),
    ):
        model.zero_grad()
        path = solve()
        path.z[:, ~path.failed].sin().sum().backward()
        yield path, [p.grad.clone() for p in model.parameters()]


def without_graph(z):
    """Whether a solve's gradient walks the tape instead of a graph."""
    node = z.grad_fn
    while node is not None and not node.name().startswith("Solve"):
        node = node.next_functions[0][0] if node.next_functions else None
    return node is not None


def relative(a, b):
    return float((a - b).detach().norm() / b.detach().norm())


@pytest.mark.parametrize("name", ["NODE", "ANODE", "SONODE"])
@pytest.mark.parametrize("activation", ["elu", "tanh", "hardtanh5"])
def test_a_solve_without_graph_has_the_gradient_of_backpropagation(name, activation):
    model = fusible(name, activation).double()
    times = torch.linspace(0, 4, 9).double()  # more than one output in some steps
    (plain, expected), (fused, gradients) = both_ways(model, times)
    assert without_graph(fused.z) and torch.equal(fused.nfe, plain.nfe)
    assert relative(fused.z, plain.z) < 1e-11
    for ours, theirs in zip(gradients, expected):
        assert relative(ours, theirs) < 1e-10


def test_many_values_go_through_elu_as_few_do():
    h = torch.linspace(-30, 30, 40_001).double().view(1, 1, -1)
    h[0, 0, :3] = torch.tensor([-torch.inf, torch.inf, torch.nan])
    expected = torch.nn.functional.elu(h)
    ours = h.clone()
    fields.activate(torch.nn.ELU(), ours, torch.empty_like(h))
    torch.testing.assert_close(ours, expected, rtol=0, atol=3e-16, equal_nan=True)


def test_a_single_precision_solve_without_graph_agrees_to_rounding():
    model, x0 = fusible("SONODE", "elu"), torch.ones(4, 5, 2)
    ends = []
    for field in (model, lambda x, t: integrate(model.field, model.initial_state(x), t)):
        model.zero_grad()
        field(x0, ENDS).z[-1].square().sum().backward()
        ends.append([p.grad.clone() for p in model.parameters()])
    for ours, theirs in zip(*ends):
        assert relative(ours, theirs) < 1e-5


def test_without_a_graph_too_members_that_are_out_stand_still():
    """One is out before the solve, one blows up in it: the others' gradients are the same."""
    model = fusible("NODE", "elu").double()
    model.alive = torch.tensor([True, False, True, True])
    with torch.no_grad():
        for layer in model.f.layers[0::2]:
            layer.weight[2] *= 60
    times = torch.linspace(0, 3, 4).double()
    (plain, expected), (fused, gradients) = both_ways(model, times)
    assert fused.failed.tolist() == plain.failed.tolist() == [False, False, True, False]
    assert fused.nfe[[0, 1, 3]].tolist() == plain.nfe[[0, 1, 3]].tolist()
    assert fused.nfe[1] == 0 and torch.equal(fused.z[0, 1], fused.z[-1, 1])
    for ours, theirs in zip(gradients, expected):
        assert relative(ours[[0, 3]], theirs[[0, 3]]) < 1e-10
        assert (ours[1] == 0).all()


def every_activation():
    """All of torch's activations that need no arguments and give back the shape they get."""
    for name in sorted(torch.nn.modules.activation.__all__):
        kind = getattr(torch.nn, name)
        try:
            made = kind()
            if made(torch.zeros(2, 3, 4)).shape == (2, 3, 4) and "RReLU" != name:
                yield pytest.param(kind, id=name)
        except (TypeError, RuntimeError, IndexError):
            continue


@pytest.mark.parametrize("kind", every_activation())
@pytest.mark.parametrize("batch", [1, 3])
def test_the_gradient_is_right_with_any_activation_of_torch(kind, batch):
    model = NODE(EnsembleMLP(2, 2, streams("test", range(2)))).double()
    model.f.layers[1] = kind().double()
    x0 = torch.randn(2, batch, 2, generator=torch.Generator().manual_seed(1)).double()
    parameters = [p for layer in model.f.layers[0::2] for p in layer.parameters()]
    ours, theirs = (
        torch.autograd.grad(z.sin().sum(), parameters, allow_unused=True)
        for z in (model(x0, ENDS).z, integrate(lambda t, z: model.f(z), x0, ENDS).z)
    )
    for a, b in zip(ours, theirs):
        assert (a is None and b is None) or relative(a, b) < 1e-10 or float(b.norm()) == 0


def test_the_gradient_with_a_graph_is_that_of_torchdiffeq():
    model = fusible("SONODE", "tanh").double()
    z0 = model.initial_state(torch.ones(4, 3, 2).double())[:1].detach()
    times = torch.linspace(0, 2, 5).double()

    def field(t, z):
        return model.field(t, z.expand(4, -1, -1))[:1]

    ours = integrate(field, z0, times, rtol=1e-8, atol=1e-8).z
    theirs = odeint(field, z0, times, rtol=1e-8, atol=1e-8, method="dopri5")
    gradients = [
        torch.autograd.grad(z.sin().sum(), [*model.f.parameters()]) for z in (ours, theirs)
    ]
    for a, b in zip(*gradients):
        assert relative(a[:1], b[:1]) < 1e-7


class Doubled(EnsembleLinear):
    def forward(self, x):
        return 2 * super().forward(x)


def changed(how):
    """A NODE whose network computes something else than its layers' weights say."""
    model = NODE(EnsembleMLP(2, 2, streams("test", range(2)))).double()
    first = model.f.layers[0]
    if how == "a layer of another class":
        model.f.layers[0].__class__ = Doubled
    elif how == "ELU(0.5)":
        model.f.layers[1] = torch.nn.ELU(0.5)
    elif how == "a hook":
        first.register_forward_hook(lambda module, args, y: 2 * y)
    elif how == "a hook before":
        first.register_forward_pre_hook(lambda module, args: (2 * args[0],))
    elif how == "a parametrisation":
        torch.nn.utils.parametrize.register_parametrization(first, "weight", Twice())
    elif how == "a forward of its own":
        model.f.forward = lambda z, t=None: 2 * EnsembleMLP.forward(model.f, z)
    elif how == "a field of its own":
        model.field = lambda t, z: 2 * NODE.field(model, t, z)
    elif how == "a layer less":
        del model.f.layers[1]
    return model


class Twice(torch.nn.Module):
    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize("how", [
    "a layer of another class", "ELU(0.5)", "a hook", "a hook before", "a parametrisation",
    "a forward of its own", "a field of its own", "a layer less",
])  # fmt: skip
def test_the_way_without_a_graph_is_taken_only_for_networks_it_knows(how):
    model = changed(how)
    x0 = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(1)).double()
    model(x0, ENDS).z.sin().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    integrate(lambda t, z: model.field(t, z), x0, ENDS).z.sin().sum().backward()
    for ours, p in zip(gradients, model.parameters()):
        assert relative(ours, p.grad) < 1e-12


def test_a_hook_of_all_modules_is_called():
    model = NODE(EnsembleMLP(2, 2, streams("test", range(2)))).double()
    handle = torch.nn.modules.module.register_module_forward_hook(lambda m, a, y: None)
    try:
        assert not without_graph(model(torch.ones(2, 3, 2).double(), ENDS).z)
    finally:
        handle.remove()
    assert without_graph(model(torch.ones(2, 3, 2).double(), ENDS).z)


def test_a_long_solve_in_a_training_has_the_gradient_of_backpropagation():
    """More passes than lie together in memory, in buffers that were used before."""
    model = fusible("SONODE", "elu").double()
    x0, times = torch.ones(4, 1, 2).double(), torch.linspace(0, 9, 40).double()

    def gradient(solve, rtol):
        z = solve(x0, times, rtol=rtol, atol=rtol).z
        return torch.autograd.grad(z.sin().sum(), [*model.parameters()])

    def with_graph(x0, times, **tolerances):
        z0 = model.initial_state(x0)
        return integrate(lambda t, z: model.field(t, z), z0, times, **tolerances)

    with planning(model):
        for rtol in (1e-8, 1e-3, 1e-6):  # long, short, long again
            gradient(model, rtol)
            model.plan.taken = None  # the same steps by both ways
            for ours, theirs in zip(gradient(model, rtol), gradient(with_graph, rtol)):
                assert relative(ours, theirs) < 1e-7


@pytest.mark.parametrize(
    "x0, error, words",
    [
        (torch.ones(3, 4, 2), ValueError, r"x must be \(2, batch, 2\), not \(3, 4, 2\)"),
        (torch.ones(2, 4, 3), ValueError, r"x must be \(2, batch, 2\)"),
        (torch.ones(2, 4, 2).double(), TypeError, "x must be torch.float32"),
    ],
)
def test_an_input_that_does_not_fit_the_network_is_named(x0, error, words):
    f = EnsembleMLP(2, 2, streams("test", range(2)))
    for use in (f, lambda x: NODE(f)(x, ENDS)):
        with pytest.raises(error, match=words):
            use(x0)


def test_an_unknown_activation_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="activation and output accept 'elu', 'tanh'"):
        EnsembleMLP(2, 2, streams("test", [0]), activation="relu")


def test_a_field_of_ones_own_is_not_taken_for_a_network():
    class Halved(NODE):
        def field(self, t, z):
            return self.f(z) / 2

    f, x0 = EnsembleMLP(2, 2, streams("test", [0])), torch.ones(1, 3, 2)
    slow, fast = Halved(f)(x0, 2 * ENDS).x[-1], NODE(f)(x0, ENDS).x[-1]
    assert torch.allclose(slow, fast, atol=1e-3)


def test_a_network_may_be_solved_backwards_in_time():
    f, x0 = EnsembleMLP(2, 2, streams("test", [0])).double(), torch.ones(1, 3, 2).double()
    tight = {"rtol": 1e-9, "atol": 1e-9}
    there = NODE(f)(x0, ENDS, **tight).x[-1]
    assert torch.allclose(NODE(f)(there, ENDS.flip(0), **tight).x[-1], x0, atol=1e-7)


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


DRAWN = {
    "weights": lambda: EnsembleMLP(3, 2, streams("test", [4])).layers[0].weight.detach(),
    "parity": lambda: systems.parity([2], streams("test", [5]), points=7),
    "spheres": lambda: systems.nested_spheres(2, streams("test", [6]), 8)[0],
    "starts": lambda: systems.oscillator_starts(streams("test", [7]), 5),
    "noise": lambda: systems.noisy_sine([0.3], streams("test", [8]), torch.linspace(0, 1, 9)),
    "forced": lambda: DrivenModel("ANODE", streams("test", [9])).weight.detach(),
}
SINGLE = {name: draw() for name, draw in DRAWN.items()}


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_draws_the_same_numbers_in_double_precision(name, double):
    again = DRAWN[name]()
    assert again.dtype == torch.float64 and SINGLE[name].dtype == torch.float32
    torch.testing.assert_close(again, SINGLE[name].double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["NODE", "ANODE", "SONODE"])
def test_the_papers_model_of_padded_members_is_that_of_each_alone(name):
    dims, seeds = torch.tensor([1, 3]), [4, 5]
    together = paper_model(name, 3, streams("test", seeds), dims=dims)
    x0 = systems.parity(dims.tolist(), streams("test", seeds), points=4)
    with torch.no_grad():
        both = together(x0, ENDS, rtol=1e-6, atol=1e-6).x[-1]
        for k, d in enumerate(dims.tolist()):
            alone = paper_model(name, d, streams("test", seeds[k : k + 1]))
            own = alone(x0[k : k + 1, :, :d], ENDS, rtol=1e-6, atol=1e-6).x[-1]
            assert torch.allclose(both[k, :, :d], own[0], atol=1e-4)


def test_a_model_that_the_paper_does_not_have_is_refused_with_those_it_has():
    with pytest.raises(ValueError, match="name accepts 'NODE', 'ANODE' or 'SONODE'"):
        paper_model("RNN", 1, streams("test", [0]))
    with pytest.raises(ValueError, match="augment accepts 3 where dims are given"):
        paper_model("ANODE", 3, streams("test", [0]), augment=1, dims=torch.tensor([2]))


def test_picked_members_go_on_as_they_did_in_the_ensemble():
    model = paper_model("SONODE", 2, streams("test", range(3)))
    few, x0 = ensemble.pick(model, [2, 0]), torch.rand(3, 4, 2)
    with torch.no_grad():
        everyone, some = model(x0, ENDS).x, few(x0[[2, 0]], ENDS).x
    assert torch.allclose(everyone[:, [2, 0]], some, atol=1e-3) and some.shape[1] == 2
    few.f.layers[0].weight.data.zero_()
    assert model.f.layers[0].weight.abs().min() > 0


def test_padded_members_can_be_picked():
    dims = torch.tensor([1, 3, 2])
    three = paper_model("NODE", 3, streams("test", range(3)), dims=dims)
    few = ensemble.pick(three, slice(1, 3))
    assert few.f.in_features.tolist() == [3, 2]
