"""Both adjoints against closed forms, backpropagation, torchdiffeq and differences."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torchdiffeq import odeint, odeint_adjoint

from sonode_utils.chapters import adjoint
from sonode_utils.chapters.adjoint import TERMS, coupled, first_order, second_order
from sonode_utils.ensemble import EnsembleMLP, streams
from sonode_utils.models import SONODE

F64 = torch.float64
TIGHT = {"method": "dopri5", "rtol": 1e-10, "atol": 1e-11}
TIMES = torch.tensor([0.0, 0.4, 1.0], dtype=F64)


class Acceleration(nn.Module):
    """A small f(t, x, v) whose every derivative is there: coupled, damped, forced."""

    def __init__(self, d, seed=0, width=6):
        super().__init__()
        rng = torch.Generator().manual_seed(seed)
        draw = partial(torch.randn, generator=rng, dtype=F64)
        self.inner = nn.Parameter(draw(2 * d + 1, width) / (2 * d + 1) ** 0.5)
        self.outer = nn.Parameter(draw(width, d) / width**0.5)
        self.damping = nn.Parameter(draw(d, d) / d)

    def forward(self, t, x, v):
        inputs = torch.cat([x, v, t.expand_as(x[..., :1])], -1)
        hidden = torch.tanh(inputs @ self.inner)
        return hidden @ self.outer - (v * torch.cos(t)) @ self.damping - x


def start(d, seed=0, shape=(2,), dtype=F64):
    rng = torch.Generator().manual_seed(100 + seed)
    draw = partial(torch.randn, *shape, d, generator=rng, dtype=dtype)
    return draw().requires_grad_(), draw().requires_grad_()


def loss(x, v):
    """On position and velocity at every time, the first one included."""
    weight = torch.linspace(1, 2, len(x), dtype=x.dtype).view(-1, *[1] * (x.dim() - 1))
    return (weight * (x.square() + x * v + v.sin())).sum()


def backprop(f, x0, v0, times=TIMES, **solver):
    x, v = odeint(lambda t, z: (z[1], f(t, *z)), (x0, v0), times, **(solver or TIGHT))
    return x, v


def gradients(solution, inputs, loss=loss):
    return torch.autograd.grad(loss(*solution), inputs)


def worst(ours, theirs):
    """Largest relative error of any of the gradients."""
    pairs = zip(ours, theirs)
    return max(float((a - b).norm() / b.norm().clamp_min(1e-300)) for a, b in pairs)


def second_order_case(d=3, seed=0, loss=loss, without=(), **solver):
    """Gradients by the second order adjoint, and by backpropagation."""
    solver = solver or TIGHT
    f, (x0, v0) = Acceleration(d, seed), start(d, seed)
    inputs = (x0, v0, *f.parameters())
    equations = adjoint.SecondOrder(f, without)
    path = adjoint.solve_with_adjoint(equations, (x0, v0), TIMES, tuple(f.parameters()), solver)
    theirs = backprop(f, x0, v0, **solver)
    return gradients(path, inputs, loss), gradients(theirs, inputs, loss)


def test_the_oscillator_has_the_gradient_of_its_closed_form():
    omega = torch.tensor(1.3, dtype=F64, requires_grad=True)
    x0, v0 = (torch.tensor([[c]], dtype=F64, requires_grad=True) for c in (0.7, -0.4))
    times = torch.tensor([0.0, 2.0], dtype=F64)
    x, v = second_order(lambda t, x, v: -(omega**2) * x, x0, v0, times, [omega], **TIGHT)
    ours = torch.autograd.grad(x[-1].sum() + 3 * v[-1].sum(), (x0, v0, omega))
    cos, sin = torch.cos(2 * omega), torch.sin(2 * omega)
    exact = x0 * cos + v0 * sin / omega + 3 * (v0 * cos - x0 * omega * sin)
    assert worst(ours, torch.autograd.grad(exact.sum(), (x0, v0, omega))) < 1e-8


def test_damped_growth_has_the_gradient_of_its_closed_form():
    """x'' = k v: the field that only looks at v."""
    k = torch.tensor(-0.8, dtype=F64, requires_grad=True)
    x0, v0 = (torch.tensor([c], dtype=F64, requires_grad=True) for c in (0.7, -0.4))
    x, v = second_order(lambda t, x, v: k * v, x0, v0, TIMES, [k], **TIGHT)
    ours = torch.autograd.grad(loss(x, v), (x0, v0, k))
    growth = torch.exp(k * TIMES)[:, None]
    exact = loss(x0 + v0 * (growth - 1) / k, v0 * growth)
    assert worst(ours, torch.autograd.grad(exact, (x0, v0, k))) < 1e-8


def test_the_first_order_adjoint_has_the_gradient_of_its_closed_form():
    a = torch.tensor(0.6, dtype=F64, requires_grad=True)
    z0 = torch.tensor([[0.5], [2.0]], dtype=F64, requires_grad=True)
    z = first_order(lambda t, z: a * t * z, z0, TIMES, [a], **TIGHT)
    ours = torch.autograd.grad(z.square().sum(), (z0, a))
    exact = z0 * torch.exp(a * TIMES**2 / 2)[:, None, None]
    assert worst(ours, torch.autograd.grad(exact.square().sum(), (z0, a))) < 1e-8


@pytest.mark.parametrize("d", [1, 2, 5, 16])
def test_the_second_order_adjoint_agrees_with_backpropagation(d):
    assert worst(*second_order_case(d)) < 1e-8


LOSSES = {
    "x at the end": lambda x, v: x[-1].square().sum(),
    "v at the end": lambda x, v: v[-1].pow(3).sum(),
    "x and v everywhere": loss,
}


@pytest.mark.parametrize("name", LOSSES)
def test_it_takes_a_loss_on_position_velocity_or_both(name):
    assert worst(*second_order_case(2, 3, LOSSES[name])) < 1e-8


def test_it_agrees_with_central_differences():
    f, (x0, v0) = Acceleration(2, 4), start(2, 4, shape=())
    ours = gradients(
        second_order(f, x0, v0, TIMES, f.parameters(), **TIGHT), (x0, v0, f.damping)
    )
    h = 1e-3

    def difference(tensor, i):
        values = []
        for step in (-2 * h, -h, h, 2 * h):
            with torch.no_grad():
                tensor.view(-1)[i] += step
                values.append(float(loss(*backprop(f, x0, v0))))
                tensor.view(-1)[i] -= step
        return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)

    theirs = [
        torch.tensor([difference(p, i) for i in range(p.numel())], dtype=F64).view_as(p)
        for p in (x0, v0, f.damping)
    ]
    assert worst(ours, theirs) < 1e-8


@pytest.mark.parametrize("d", [1, 3])
def test_the_coupled_first_order_adjoint_gives_the_same_gradients(d):
    """Proposition 3.2, ours and torchdiffeq's."""
    f, (x0, v0) = Acceleration(d, 7), start(d, 7)
    inputs, params = (x0, v0, *f.parameters()), tuple(f.parameters())
    ours = gradients(second_order(f, x0, v0, TIMES, params, **TIGHT), inputs)
    z0 = torch.cat([x0, v0], -1)
    z = first_order(coupled(f), z0, TIMES, params, **TIGHT)
    assert worst(ours, gradients(z.chunk(2, -1), inputs)) < 1e-8
    z = odeint_adjoint(coupled(f), z0, TIMES, adjoint_params=params, **TIGHT)
    assert worst(ours, gradients(z.chunk(2, -1), inputs)) < 1e-8


def test_a_first_order_adjoint_on_a_fixed_grid_matches_torchdiffeqs_to_rounding():
    """The same method on the same steps: not one term may differ."""
    f, (x0, v0) = Acceleration(2), start(2)
    z0, params = torch.cat([x0, v0], -1), tuple(f.parameters())
    solver = {"method": "rk4", "options": {"step_size": 0.1}}
    inputs = (x0, v0, *params)
    theirs = odeint_adjoint(coupled(f), z0, TIMES, adjoint_params=params, **solver)
    ours = first_order(coupled(f), z0, TIMES, params, method="rk4", step_size=0.1)
    assert torch.equal(ours, theirs)
    theirs, ours = (gradients(z.chunk(2, -1), inputs) for z in (theirs, ours))
    assert worst(ours, theirs) < 1e-13


@settings(max_examples=4, deadline=None)
@given(st.integers(1, 4), st.integers(0, 1000), st.sampled_from([(), (3,), (2, 2)]))
def test_random_fields_of_any_batch_shape(d, seed, shape):
    f, (x0, v0) = Acceleration(d, seed), start(d, seed, shape)
    inputs = (x0, v0, *f.parameters())
    ours = gradients(second_order(f, x0, v0, TIMES, f.parameters(), **TIGHT), inputs)
    assert worst(ours, gradients(backprop(f, x0, v0), inputs)) < 1e-8


@pytest.mark.parametrize("term", TERMS)
def test_no_term_of_the_adjoint_can_be_left_out(term):
    """The whole is right at this tolerance, to five digits; without a term, to none."""
    ours, theirs = second_order_case(without=(term,), rtol=1e-5, atol=1e-6)
    assert worst(ours, theirs) > 1e-2


def test_the_ablation_knows_its_terms():
    with pytest.raises(ValueError, match="J_x"):
        adjoint.SecondOrder(lambda t, x, v: x, without=("nonsense",))


def test_time_may_run_backwards():
    f, (x0, v0) = Acceleration(2, 5), start(2, 5)
    inputs, times = (x0, v0, *f.parameters()), TIMES.flip(0)
    ours = gradients(second_order(f, x0, v0, times, f.parameters(), **TIGHT), inputs)
    assert worst(ours, gradients(backprop(f, x0, v0, times, **TIGHT), inputs)) < 1e-8


@pytest.mark.parametrize("method", ["bosh3", "rk4", "midpoint"])
def test_any_method_of_torchdiffeq_will_do(method):
    f, (x0, v0) = Acceleration(2), start(2)
    inputs = (x0, v0, *f.parameters())
    options = {} if method == "bosh3" else {"step_size": 0.01}
    solution = second_order(
        f, x0, v0, TIMES, f.parameters(), method=method, rtol=1e-5, atol=1e-7, **options
    )
    assert worst(gradients(solution, inputs), gradients(backprop(f, x0, v0), inputs)) < 1e-3


def test_single_precision_stays_single():
    f, (x0, v0) = Acceleration(3).float(), start(3, dtype=torch.float32)
    inputs = (x0, v0, *f.parameters())
    x, v = second_order(f, x0, v0, TIMES, f.parameters())
    ours = gradients((x, v), inputs)
    assert {g.dtype for g in (x, v, *ours)} == {torch.float32}
    double = Acceleration(3)
    wide = [z.detach().double().requires_grad_() for z in (x0, v0)]
    theirs = gradients(backprop(double, *wide), (*wide, *double.parameters()))
    assert worst(ours, theirs) < 1e-4


def test_a_model_of_the_book_trains_through_either_adjoint():
    """An ensemble: (member, batch, feature) states, g learns through v0."""
    rng = streams("test", range(3))
    f = EnsembleMLP(4, 2, rng, activation="tanh")
    model = SONODE(f, EnsembleMLP(2, 2, rng, activation="tanh")).double()
    x0, times = torch.linspace(-1, 1, 24, dtype=F64).view(3, 4, 2), TIMES
    field = lambda t, x, v: model.f(torch.cat([x, v], -1), t)  # noqa: E731
    params = tuple(model.parameters())
    x, v = second_order(field, x0, model.g(x0), times, model.f.parameters(), **TIGHT)
    ours = gradients((x, v), params)
    z0 = model.initial_state(x0)
    z = first_order(model.field, z0, times, model.f.parameters(), **TIGHT)
    assert worst(ours, gradients(z.chunk(2, -1), params)) < 1e-8


def test_no_graph_is_kept_however_many_steps_are_taken():
    f, (x0, v0) = Acceleration(2), start(2)

    def kept(steps):
        sizes = []
        note = lambda t: sizes.append(t.numel()) or t  # noqa: E731
        solver = {"method": "rk4", "step_size": 1 / steps}
        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            second_order(f, x0, v0, TIMES[[0, 2]], f.parameters(), **solver)
        return sum(sizes)

    assert kept(100) == kept(10)


@pytest.mark.parametrize(
    "field",
    [lambda t, x, v: -x, lambda t, x, v: -v, lambda t, x, v: t.sin().expand(2, 2)],
    ids=["x", "v", "t"],
)
def test_a_field_may_ignore_some_of_its_arguments(field):
    x0, v0 = start(2)
    ours = gradients(second_order(field, x0, v0, TIMES, [], **TIGHT), (x0, v0))
    assert worst(ours, gradients(backprop(field, x0, v0), (x0, v0))) < 1e-8


def test_parameters_that_are_frozen_are_left_out():
    f, (x0, v0) = Acceleration(2), start(2)
    f.damping.requires_grad_(False)
    inputs = (x0, v0, f.inner, f.outer)
    ours = gradients(second_order(f, x0, v0, TIMES, f.parameters(), **TIGHT), inputs)
    assert worst(ours, gradients(backprop(f, x0, v0), inputs)) < 1e-6


def test_parameters_may_be_made_of_others():
    """Their graph ends where ours begins: what they are made of is no parameter missed."""
    stiffness, (x0, v0) = torch.tensor(0.7, dtype=F64, requires_grad=True), start(2)
    inputs = (x0, v0, stiffness)
    k = stiffness.exp()
    ours = gradients(second_order(lambda t, x, v: -k * x, x0, v0, TIMES, [k], **TIGHT), inputs)
    theirs = gradients(backprop(lambda t, x, v: -stiffness.exp() * x, x0, v0), inputs)
    assert worst(ours, theirs) < 1e-6


def test_nothing_is_recorded_where_gradients_are_off():
    with torch.no_grad():
        x, _ = second_order(lambda t, x, v: -x, *start(2), TIMES, [])
    assert not x.requires_grad


X0 = torch.ones(2, 3, requires_grad=True)
W = torch.ones(3, requires_grad=True)
BAD = {
    "x0 must be floats": {"x0": torch.ones(2, 3, dtype=int)},
    r"x0 .* not torch.float32 \(\)": {"x0": torch.tensor(1.0), "v0": torch.tensor(1.0)},
    "v0 must look like x0": {"v0": torch.ones(2, 4)},
    "v0 must .*float64": {"v0": torch.ones(2, 3, dtype=F64)},
    "times must be": {"times": torch.ones(1)},
    "times must strictly": {"times": torch.tensor([0.0, 1.0, 0.5])},
    "times must strictly increase": {"times": torch.tensor([0.0, 0.0])},
    "times .* not require grad": {"times": torch.tensor([0.0, 1.0], requires_grad=True)},
    "f returns": {"f": lambda t, x, v: x[..., :2]},
    "f depends on nothing": {"f": lambda t, x, v: torch.zeros(2, 3)},
    "f must return": {"f": lambda t, x, v: 0.0},
    "nothing requires grad: x0, v0": {"x0": X0.detach(), "v0": X0.detach()},
    "params misses": {"f": lambda t, x, v: W * x},
    r"params\[0\]": {"params": [1.0]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    good = {"f": lambda t, x, v: -x, "x0": X0, "v0": X0, "times": TIMES, "params": []}
    with pytest.raises(ValueError, match=message):
        second_order(**(good | BAD[message]))


def test_the_first_order_solve_names_its_own_arguments():
    with pytest.raises(ValueError, match="z0"):
        first_order(lambda t, z: z, torch.tensor(1.0), TIMES, [])
    with pytest.raises(ValueError, match="nothing requires grad: z0"):
        first_order(lambda t, z: z, X0.detach(), TIMES, [])


def test_the_second_derivative_is_missed_where_the_field_has_kinks():
    """With relu, J_v jumps along the path and no product sees its derivative."""
    x0, v0 = (torch.ones(1, dtype=F64, requires_grad=True) for _ in "xv")
    times, solver = 2 * TIMES[[0, 2]], {"rtol": 1e-8, "atol": 1e-8}
    field = lambda t, x, v: -x - torch.relu(v)  # noqa: E731
    end = lambda x, v: x[-1].sum() + v[-1].sum()  # noqa: E731
    theirs = gradients(backprop(field, x0, v0, times, **solver), (x0, v0), end)
    wrong = gradients(second_order(field, x0, v0, times, [], **solver), (x0, v0), end)
    z = first_order(coupled(field), torch.cat([x0, v0], -1), times, [], **solver)
    assert worst(gradients(z.chunk(2, -1), (x0, v0), end), theirs) < 1e-2
    assert worst(wrong, theirs) > 0.5


@pytest.mark.parametrize("weigh", [False, True])
def test_second_derivatives_are_refused(weigh):
    """With `weigh` the loss depends on the parameter directly, too."""
    w = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    z0, times = torch.ones(1, dtype=torch.float64), torch.tensor([0.0, 1.0])
    z = adjoint.first_order(lambda t, z: -w * z, z0, times, [w])
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad((z * w if weigh else z * z).sum(), w, create_graph=True)
