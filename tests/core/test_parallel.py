"""The parallel-in-time solve: the numbers of a step loop, for any field, and its limits."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchdiffeq import odeint

from sonode_utils.ensemble import EnsembleMLP, streams
from sonode_utils.solvers.parallel import (
    affine,
    by_member,
    input_at_stages,
    input_from_fine_grid,
    solve_parallel,
    step,
)
from sonode_utils.solvers.scan import scan, scan_constant


def signal(samples, channels=1, seed=0):
    """A smooth random input: (channel, sample), double precision."""
    stream = torch.Generator().manual_seed(seed)
    white = torch.randn(channels, samples + 8, generator=stream, dtype=torch.float64)
    return white.unfold(1, 9, 1).mean(-1)


class Duffing:
    """x'' = -k x - c v - q x^3 + u, each member its own (k, c, q), the last from `cube` on."""

    def __init__(self, members=3, seed=1, cube=0.002):
        stream = torch.Generator().manual_seed(seed)
        w = torch.rand(3, members, generator=stream, dtype=torch.float64)
        low = torch.tensor([[0.2], [0.1], [cube]], dtype=torch.float64)
        self.w = (low + w * low).requires_grad_()

    def __call__(self, z, u):
        x, v = z.unbind(0)
        k, c, q = self.w
        return torch.stack([v, u[0] - k * x - c * v - q * x**3])


def network(d, members=2):
    """An MLP force in d rows, on d rows and one input, in double precision, decaying."""
    mlp = EnsembleMLP(d + 1, d, streams("test", range(members)), hidden=(8,)).double()
    mixed = by_member(mlp)
    return lambda z, u: mixed(z, u) - 0.5 * z, mlp


def loop(field, z0, u, dt=1.0):
    """The plain reference: one sample after the other, with its graph."""
    path = [z0[:, None]]
    for n in range(u.shape[2]):
        path.append(step(field, path[-1], u[:, :, n : n + 1], dt))
    return torch.cat(path, 1)


def start(d, members, seed=2):
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(d, members, generator=stream, dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 70), st.integers(1, 3), st.integers(0, 10_000))
def test_the_scan_is_the_loop_for_any_size(d, n, members, seed):
    stream = torch.Generator().manual_seed(seed)
    A = torch.randn(d, d, n, members, generator=stream, dtype=torch.float64) / d
    b = torch.randn(d, n, members, generator=stream, dtype=torch.float64)
    z, states = torch.zeros(d, members, dtype=torch.float64), []
    for k in range(n):
        z = torch.einsum("ijm,jm->im", A[:, :, k], z) + b[:, k]
        states.append(z)
    torch.testing.assert_close(scan(A, b), torch.stack(states, 1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("substeps", [1, 3])
def test_a_cubic_field_is_solved_as_by_stepping(substeps):
    field, u = Duffing(), input_at_stages(signal(200), substeps)
    done = solve_parallel(field, start(2, 3), u)
    torch.testing.assert_close(done.z, loop(field, start(2, 3), u), rtol=0, atol=1e-11)
    assert not done.stepped.any() and done.newton.max() < 12


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_network_of_any_state_size_is_solved_as_by_stepping(d):
    field, _ = network(d)
    u, z0 = input_at_stages(signal(150)), start(d, 2)
    torch.testing.assert_close(
        solve_parallel(field, z0, u).z, loop(field, z0, u), rtol=0, atol=1e-10
    )


def gradients(path, tensors):
    weights = torch.cos(torch.arange(path.numel(), dtype=path.dtype)).view_as(path)
    return torch.autograd.grad((path * weights).sum(), tensors)


@pytest.mark.parametrize("which", ["cubic", "network"])
def test_gradients_are_those_of_backpropagation_through_the_loop(which):
    """Of parameters, initial state and input alike."""
    if which == "cubic":
        field = Duffing(2)
        parameters = [field.w]
    else:
        field, mlp = network(2)
        parameters = list(mlp.parameters())
    z0 = start(2, 2).requires_grad_()
    u = input_at_stages(signal(120)).requires_grad_()
    wanted = [*parameters, z0, u]
    theirs = gradients(loop(field, z0, u), wanted)
    ours = gradients(solve_parallel(field, z0, u).z, wanted)
    for a, b in zip(ours, theirs):
        assert (a - b).abs().max() <= 1e-6 * b.abs().max()


def test_it_agrees_with_an_adaptive_solver_on_the_interpolated_input():
    field, raw, z0 = Duffing(), signal(25), start(2, 3)

    def interpolated(t, z):
        n = min(int(t), raw.shape[1] - 2)
        u = raw[:, n] + (t - n) * (raw[:, n + 1] - raw[:, n])
        return field(z[:, None], u.view(1, 1, 1))[:, 0]

    times = torch.arange(25, dtype=torch.float64)
    options = {"method": "dopri5", "rtol": 1e-8, "atol": 1e-10}
    with torch.no_grad():
        exact = odeint(interpolated, z0, times, **options).movedim(0, 1)
        ours = solve_parallel(field, z0, input_at_stages(raw, substeps=16)).z
    assert (ours - exact).abs().max() < 1e-5 * exact.abs().max()


def test_a_linear_field_needs_one_step_and_one_to_see_it():
    def linear(z, u):
        return torch.stack([z[1], u[0] - 0.3 * z[0] - 0.1 * z[1]])

    done = solve_parallel(linear, start(2, 4), input_at_stages(signal(500), substeps=3))
    assert done.newton.tolist() == [2] * 4
    assert done.nfe.tolist() == [2 * 3 * 4] * 4  # steps, substeps, stages


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 70), st.integers(1, 3), st.integers(0, 10_000))
def test_with_one_matrix_for_all_samples_the_cheap_scan_is_the_scan(d, n, members, seed):
    stream = torch.Generator().manual_seed(seed)
    A = torch.randn(d, d, members, generator=stream, dtype=torch.float64) / d
    b = torch.randn(d, n, members, generator=stream, dtype=torch.float64)
    expected = scan(A[:, :, None].expand(-1, -1, n, -1), b)
    torch.testing.assert_close(scan_constant(A, b), expected, rtol=1e-9, atol=1e-9)


class Spring:
    """x'' = u - k x - c v + q, each member its own numbers: affine in the state."""

    def __init__(self, members=3):
        stream = torch.Generator().manual_seed(4)
        self.w = torch.rand(3, members, generator=stream, dtype=torch.float64).requires_grad_()

    def __call__(self, z, u):
        k, c, q = self.w
        return torch.stack([z[1] + 0 * u[0], u[0] - k * z[0] - c * z[1] + q])


@pytest.mark.parametrize("samples", [2, 3, 120])
def test_an_affine_field_needs_no_newton_and_its_gradients_are_exact(samples):
    """Of parameters, initial state and input alike."""
    field, z0 = Spring(), start(2, 3).requires_grad_()
    u = input_at_stages(signal(samples), substeps=3).requires_grad_()
    plain, done = loop(field, z0, u, dt=0.5), affine(field, z0, u, dt=0.5)
    torch.testing.assert_close(done.z, plain, rtol=0, atol=1e-12)
    for a, b in zip(gradients(done.z, [field.w, z0, u]), gradients(plain, [field.w, z0, u])):
        assert (a - b).abs().max() <= 1e-11 * b.abs().max()


def test_an_affine_member_that_blows_up_is_reported_and_leaves_the_others_alone():
    rate = torch.tensor([-1.0, 9.0], dtype=torch.float64, requires_grad=True)
    z0, u = torch.ones(1, 2, dtype=torch.float64), input_at_stages(signal(300))
    done = affine(lambda z, u: rate * z + u, z0, u)
    assert done.failed.tolist() == [False, True] and done.z[..., 1].isnan().all()
    alone = affine(lambda z, u: rate[:1] * z + u, z0[:, :1], u)
    assert torch.equal(done.z[..., 0], alone.z[..., 0])
    ours, theirs = (torch.autograd.grad(x.z[..., 0].sum(), rate)[0][0] for x in (done, alone))
    torch.testing.assert_close(ours, theirs)


def test_an_affine_member_that_is_out_is_held_still():
    field, u, z0 = Spring(), input_at_stages(signal(50)), start(2, 3)
    done = affine(field, z0, u, alive=torch.tensor([True, False, True]))
    torch.testing.assert_close(done.z[:, :, 1], z0[:, None, 1].expand(2, 50))
    torch.testing.assert_close(done.z[:, :, 0], affine(field, z0, u).z[:, :, 0])


def test_a_good_guess_saves_steps_and_changes_nothing():
    field, u, z0 = Duffing(), input_at_stages(signal(200)), start(2, 3)
    cold = solve_parallel(field, z0, u)
    warm = solve_parallel(field, z0, u, guess=cold.z)
    assert (warm.newton == 1).all() and (cold.newton > 1).all()
    torch.testing.assert_close(warm.z, cold.z, rtol=0, atol=1e-12)


def test_a_guess_that_is_not_finite_for_one_member_is_not_used_for_it():
    field, u, z0 = Duffing(), input_at_stages(signal(200)), start(2, 3)
    guess = solve_parallel(field, z0, u).z.detach().clone()
    expected, guess[:, 50, 1] = guess.clone(), torch.nan
    again = solve_parallel(field, z0, u, guess=guess)
    assert not again.stepped.any()
    torch.testing.assert_close(again.z, expected, rtol=0, atol=1e-12)


def test_newton_asks_the_same_of_a_small_state_as_of_a_large_one():
    def scaled(size):
        return lambda z, u: size * hard(z / size, u / size)

    hard, u, z0 = Duffing(cube=0.02), input_at_stages(signal(200)), start(2, 3)
    done, tiny = (solve_parallel(scaled(s), s * z0, s * u, tol=1e-6) for s in (1.0, 1e-6))
    assert done.newton.equal(tiny.newton) and done.newton.min() > 2
    torch.testing.assert_close(1e6 * tiny.z, done.z, rtol=1e-9, atol=1e-9)


def test_single_precision_follows_double():
    field, u, z0 = Duffing(), input_at_stages(signal(1000)), start(2, 3)
    exact = solve_parallel(field, z0, u).z.detach()
    field.w = field.w.detach().float()
    rough = solve_parallel(field, z0.float(), u.float())
    assert not rough.stepped.any()
    assert (rough.z - exact).abs().max() < 1e-5 * exact.abs().max()


def test_a_long_record_is_solved_too():
    field, u = Duffing(1), input_at_stages(signal(20_000), substeps=1)
    z = solve_parallel(field, start(2, 1), u).z
    with torch.no_grad():
        ahead = step(field, z[:, :-1], u)
    assert (ahead - z[:, 1:]).abs().max() < 1e-10


def runaway(z, u):
    """Member 0 decays; member 1 obeys z' = z^2 and is infinite soon."""
    return torch.stack([-z[0, :, 0] + u[0, :, 0], z[0, :, 1] ** 2], -1)[None]


def test_a_member_that_blows_up_is_reported_and_leaves_the_others_alone():
    u, z0 = input_at_stages(signal(100)), torch.ones(1, 2, dtype=torch.float64)
    done = solve_parallel(runaway, z0, u)
    assert done.failed.tolist() == [False, True] and done.z[..., 1].isnan().all()
    assert done.newton.max() < 20  # no use in going on with it
    alone = loop(lambda z, u: u - z, z0[:, :1], u)
    torch.testing.assert_close(done.z[..., :1], alone, rtol=0, atol=1e-12)


def test_its_failure_does_not_spoil_the_gradient_of_the_others():
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    z0 = torch.ones(1, 2, dtype=torch.float64)
    done = solve_parallel(lambda z, u: runaway(z * weight, u), z0, input_at_stages(signal(60)))
    (gradient,) = torch.autograd.grad(done.z[..., 0].sum(), weight)
    assert gradient[0].isfinite() and gradient[0] != 0 and gradient[1] == 0


def test_members_can_be_dropped_without_stepping():
    field, u, z0 = Duffing(cube=0.3), input_at_stages(3 * signal(150)), start(2, 3)
    done = solve_parallel(field, z0, u, fallback="drop")
    assert done.failed.any() and done.failed.equal(done.stepped)
    hasty = solve_parallel(field, z0, u, fallback="drop", most=1)
    assert (hasty.newton == 1).all() and hasty.failed.all() and hasty.z.isnan().all()


def test_a_member_newton_cannot_solve_is_stepped_through():
    """From a cold start a spring as hard as this throws Newton off."""
    field, u, z0 = Duffing(cube=0.3), input_at_stages(3 * signal(150)), start(2, 3)
    done = solve_parallel(field, z0, u)
    assert done.stepped.any() and not done.failed.any()
    torch.testing.assert_close(done.z, loop(field, z0, u), rtol=0, atol=1e-10)


def test_a_member_that_is_out_is_held_still():
    field, u, z0 = Duffing(), input_at_stages(signal(50)), start(2, 3)
    done = solve_parallel(field, z0, u, alive=torch.tensor([True, False, True]))
    torch.testing.assert_close(done.z[:, :, 1], z0[:, None, 1].expand(2, 50))
    assert not done.failed.any()
    z0[:, 1] = torch.nan
    lost = solve_parallel(field, z0, u, alive=torch.tensor([True, False, True]))
    assert not lost.stepped.any() and not lost.failed.any()
    assert lost.newton.equal(done.newton) and lost.newton[1] == lost.nfe[1] == 0


def test_the_input_is_linear_between_samples_and_its_slope_is_constant():
    u = input_at_stages(torch.tensor([[0.0, 2.0, -2.0]]), substeps=1, slope=True)
    assert u[:, 0, :, 0].tolist() == [[0, 2], [1, 0], [2, -2]]
    assert u[:, 1, :, 0].tolist() == [[2, -4]] * 3


def test_an_input_on_the_subgrid_is_laid_out_as_the_interpolated_one():
    fine = torch.linspace(0, 6, 13)[None]  # linear, so both must agree
    torch.testing.assert_close(input_from_fine_grid(fine, 2), input_at_stages(fine[:, ::4], 2))
    with pytest.raises(ValueError, match="12 times are not 4 per sample"):
        input_from_fine_grid(fine[:, 1:], 2)


BAD = {
    "z0 accepts floats (feature, member), not torch.float64 (3,)": {"z0": start(2, 3)[0]},
    "z0 accepts floats (feature, member), not torch.int64 (2, 3)": {"z0": start(2, 3).long()},
    "u accepts torch.float64, as z0 is, not torch.float32": {
        "u": input_at_stages(signal(20)).float()
    },
    "u accepts (2 substeps + 1, channel, interval, 1 or 3), not torch.float64 (5, 1, 19, 2)": {
        "u": input_at_stages(signal(20)).expand(-1, -1, -1, 2)
    },
    "u accepts (2 substeps + 1, channel, interval, 1 or 3), not torch.float64 (1, 20)": {
        "u": signal(20)
    },
    "alive accepts (3,) of bool, not torch.bool (2,)": {"alive": torch.ones(2).bool()},
    "alive accepts (3,) of bool, not torch.float32 (3,)": {"alive": torch.ones(3)},
}
BAD_FOR_NEWTON = {
    "guess accepts torch.float64 (2, 20, 3), not torch.float64 (2, 19, 3)": {
        "guess": torch.zeros(2, 19, 3, dtype=torch.float64)
    },
    "guess accepts torch.float64 (2, 20, 3), not torch.float32 (2, 20, 3)": {
        "guess": torch.zeros(2, 20, 3)
    },
    "fallback accepts 'step' or 'drop', not 'guess'": {"fallback": "guess"},
    "tol accepts numbers above 0, most from 1; not 0 and 20": {"tol": 0},
    "tol accepts numbers above 0, most from 1; not nan and 20": {"tol": float("nan")},
    "tol accepts numbers above 0, most from 1; not 1e-09 and 0": {"most": 0},
}


@pytest.mark.parametrize("message", [*BAD, *BAD_FOR_NEWTON])
def test_a_wrong_argument_is_named_with_what_it_accepts(message):
    given = {"z0": start(2, 3), "u": input_at_stages(signal(20))}
    for solver in (solve_parallel, affine) if message in BAD else (solve_parallel,):
        with pytest.raises(ValueError, match=re.escape(message)):
            solver(Spring(), **{**given, **{**BAD, **BAD_FOR_NEWTON}[message]})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_affine_refuses_a_field_that_is_not_affine(dtype):
    z0, u = start(2, 3).to(dtype), input_at_stages(signal(20)).to(dtype)
    cubic, bends = Duffing(), lambda z, u: u * z - z
    cubic.w = cubic.w.detach().to(dtype)
    for field in (cubic, bends):
        with pytest.raises(ValueError, match="not affine in z with one A for all u"):
            affine(field, z0, u)


@pytest.mark.parametrize("solver", [solve_parallel, affine])
def test_second_derivatives_are_refused(solver):
    field, z0 = Spring(), start(2, 3)
    z = solver(field, z0, input_at_stages(signal(20))).z
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(z.square().sum(), field.w, create_graph=True)


class Some:
    """The given members of a Duffing ensemble, and if asked one more that blows up."""

    def __init__(self, members, runaway=False):
        whole = Duffing(24, cube=0.02).w.detach()[:, members]
        mad = torch.tensor([[-1.0], [-9.0], [-5.0]], dtype=torch.float64)
        self.w = (torch.cat([whole, mad], 1) if runaway else whole).requires_grad_()
        self.z0 = start(2, 24)[:, [*members, members[0]] if runaway else members]

    def run(self, dtype):
        """Solution, gradient of its mean square by w, and steps, of each member."""
        w = self.w.detach().to(dtype).requires_grad_()
        columns = w[:, None].expand(-1, 199, -1)  # so that summing over time is left to us
        columns.retain_grad()
        k, c, q = columns

        def field(z, u):
            x, v = z.unbind(0)
            return torch.stack([v, u[0] - k * x - c * v - q * x * x * x])

        u = input_at_stages(signal(200)).to(dtype)
        done = solve_parallel(field, self.z0.to(dtype), u, fallback="drop")
        done.z.square().nansum().backward()
        return done.z.detach(), columns.grad, done.newton


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_member_has_the_same_bits_in_any_company(dtype):
    """Solution, gradient and Newton steps: alone, in groups, reversed, beside a runaway."""
    z, gradient, newton = Some(list(range(24))).run(dtype)
    assert len(set(newton.tolist())) > 1  # or else nobody had to wait for others
    groups = [[7], [3, 7], list(range(10)), list(range(10, 24)), list(range(23, -1, -1))]
    for members, runaway in [(g, False) for g in groups] + [([7], True), ([2, 7, 11], True)]:
        alone = [part[..., : len(members)] for part in Some(members, runaway).run(dtype)]
        for ours, theirs in zip(alone, (z, gradient, newton)):
            assert torch.equal(ours, theirs[..., members]), (members, runaway)


def test_time_between_samples_can_be_rescaled():
    """x' = u over [0, 1] in 100 samples is x' = u / 100 a sample."""
    u, z0 = input_at_stages(signal(101)), torch.zeros(1, 1, dtype=torch.float64)
    done = solve_parallel(lambda z, u: u + 0 * z, z0, u, dt=0.01)
    expected = torch.trapezoid(signal(101)[0], dx=0.01)
    torch.testing.assert_close(done.z[0, -1, 0], expected)
