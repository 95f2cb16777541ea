"""The adjoint method, first and second order: two differentiable solves (Sec. 3, App. B).

Both integrate forward without a graph, then carry state, adjoint and parameter gradient
back from the last time to the first, so memory does not grow with the number of steps.

No Jacobian is ever built. With phi = r . f, one vector-Jacobian product (VJP) gives all
of J_x^T r, J_v^T r and r . df/dtheta: they are the gradients of phi. The total derivative
of J_v^T r along the flow is one product more. Second derivatives commute, so it is the
gradient in v of phi's rate of change in the direction (x', v', t', r') = (v, f, 1, r').
"""

import torch
from torch.autograd.function import once_differentiable
from torchdiffeq import odeint


def first_order(
    f, z0, times, params, *, method="dopri5", rtol=1e-5, atol=1e-7, **options
):  # fmt: skip
    """Solve z' = f(t, z); the gradient comes from r' = -J^T r, with J = df/dz.

    z0: (..., d); times: (time,), rising or falling; params: the tensors f learns. t comes
    to f as a tensor of no dimension, and must stay one wherever f depends on it.
    Returns z: (time, ..., d), whose values at any time may enter the loss.
    """
    solver = {"method": method, "rtol": rtol, "atol": atol, "options": options}
    times, params = _check(f, {"z0": z0}, times, params)
    return solve(FirstOrder(f), (z0,), times, params, solver)[0]


def second_order(
    f, x0, v0, times, params, *, method="dopri5", rtol=1e-5, atol=1e-7, **options
):  # fmt: skip
    """Solve x'' = f(t, x, v), x' = v; the gradient comes from Proposition 3.1.

    x0, v0: (..., d); times and params as in `first_order`. f must be twice differentiable
    along the path: at the kink of a relu J_v jumps, and the product above cannot see it.
    Returns x and v: (time, ..., d) each, whose values at any time may enter the loss.
    """
    solver = {"method": method, "rtol": rtol, "atol": atol, "options": options}
    times, params = _check(f, {"x0": x0, "v0": v0}, times, params)
    return solve(SecondOrder(f), (x0, v0), times, params, solver)


def coupled(f):
    """The field of z = [x, v] in which x'' = f(t, x, v) is of first order (Eq. 4)."""

    def field(t, z):
        x, v = z.chunk(2, -1)
        return torch.cat([v, f(t, x, v)], -1)

    return field


class FirstOrder:
    """The equations of z' = f(t, z) and its adjoint r."""

    def __init__(self, f):
        self.f = f

    def field(self, t, state):
        (z,) = state
        return (_call(self.f, t, z),)

    def backward(self, t, state, adjoint, params):
        """The rates of z, r and the parameters' gradient."""
        (z,), (r,) = state, adjoint
        with torch.enable_grad():
            (z,) = _leaves(z)
            dz = _call(self.f, t, z)
            phi_z, *phi_theta = _gradients((r * dz).sum(), (z, *params))
        return (dz.detach(),), (-phi_z,), tuple(-g for g in phi_theta)

    def jump(self, t, state, loss_gradients):
        return loss_gradients

    def start(self, t, state, adjoint):
        """dL/dz0."""
        return adjoint


# Every term of the second order adjoint that `SecondOrder(f, without=...)` can leave out.
TERMS = {
    "J_x": "J_x^T r in r''",
    "J_v": "J_v^T r' in r''",
    "dJ_v along x": "(v . d/dx J_v)^T r in r''",
    "dJ_v along v": "(f . d/dv J_v)^T r in r''",
    "dJ_v along t": "(d/dt J_v)^T r in r''",
    "L_v": "dL/dv in the jump of r",
    "L_x": "-dL/dx in the jump of r'",
    "J_v L_v": "-J_v^T dL/dv in the jump of r'",
    "r' at t0": "-r' in dL/dx0",
    "J_v r at t0": "-J_v^T r in dL/dx0",
}


class SecondOrder:
    """The equations of x'' = f(t, x, v) and its adjoint r (Prop. 3.1, transposed):

        r'' = J_x^T r - J_v^T r' - (d/dt J_v)^T r,  the last a total derivative,
        at each observation r jumps by L_v and r' by -L_x - J_v^T L_v,
        dL/dx0 = -r' - J_v^T r and dL/dv0 = r at t0,
        dL/dtheta = integral of r . df/dtheta from the first time to the last.

    without: keys of TERMS to leave out, to see what each is for.
    """

    def __init__(self, f, without=()):
        self.f, self.without = f, without
        if not TERMS.keys() >= set(without):
            raise ValueError(f"without accepts {', '.join(TERMS)}; not {without}")

    def field(self, t, state):
        x, v = state
        return v, _call(self.f, t, x, v)

    def backward(self, t, state, adjoint, params):
        """The rates of (x, v), (r, r') and the parameters' gradient."""
        (x, v), (r, dr), term = state, adjoint, self._term
        with torch.enable_grad():
            t, x, v = _leaves(t, x, v)
            a = _call(self.f, t, x, v)
            phi = (r * a).sum()
            phi_t, phi_x, phi_v, *phi_theta = _gradients(phi, (t, x, v, *params), True)
            rate = (  # of phi along the flow; the direction itself is held still
                term("dJ_v along x", (phi_x * v.detach()).sum())
                + term("dJ_v along v", (phi_v * a.detach()).sum())
                + term("dJ_v along t", phi_t)
                + term("J_v", (dr * a).sum())
            )
            # Where f ignores v the rate may still depend on it, but only through x' = v.
            dphi_v = _gradients(rate, (v,))[0] if phi_v.requires_grad else 0 * v
        ddr = (term("J_x", phi_x) - dphi_v).detach()
        return (v.detach(), a.detach()), (dr, ddr), tuple(-g.detach() for g in phi_theta)

    def jump(self, t, state, loss_gradients):
        """What an observation adds to (r, r')."""
        L_x, L_v = loss_gradients
        back = self._term("J_v L_v", self._J_v(t, state, L_v))
        return self._term("L_v", L_v), -self._term("L_x", L_x) - back

    def start(self, t, state, adjoint):
        """dL/dx0 and dL/dv0."""
        r, dr = adjoint
        back = self._term("J_v r at t0", self._J_v(t, state, r))
        return -self._term("r' at t0", dr) - back, r

    def _J_v(self, t, state, r):
        """J_v^T r."""
        with torch.enable_grad():
            x, v = _leaves(*state)
            a = _call(self.f, t, x, v)
            return _gradients((r * a).sum(), (v,))[0] if a.requires_grad else 0 * r

    def _term(self, name, value):
        return 0 * value if name in self.without else value


def solve(equations, state, times, params, solver):
    """The states at `times`, differentiable by the adjoint of these equations."""
    return Adjoint.apply(equations, times, solver, len(state), *state, *params)


class Adjoint(torch.autograd.Function):
    """A solve forward, and its adjoint backward from one observation to the one before."""

    @staticmethod
    def forward(ctx, equations, times, solver, n, *tensors):
        state, params = tensors[:n], tensors[n:]
        path = odeint(equations.field, state, times, **solver)
        ctx.equations, ctx.solver = equations, solver
        ctx.save_for_backward(times, *path, *params)
        return path

    @staticmethod
    @once_differentiable
    def backward(ctx, *loss_gradients):
        n, equations = len(loss_gradients), ctx.equations
        times, *tensors = ctx.saved_tensors
        path, params = tensors[:n], tensors[n:]

        def rates(t, y):
            state, adjoint, gradient = equations.backward(t, y[:n], y[n : 2 * n], params)
            return *state, *adjoint, *gradient

        adjoint = [torch.zeros_like(x[0]) for x in path]
        gradient = [torch.zeros_like(p) for p in params]
        for i in reversed(range(len(times))):
            # The state restarts from the forward pass, so its error does not pile up.
            state = [x[i] for x in path]
            jump = equations.jump(times[i], state, [g[i] for g in loss_gradients])
            adjoint = [r + dr for r, dr in zip(adjoint, jump)]
            if i > 0:
                y = (*state, *adjoint, *gradient)
                y = [s[-1] for s in odeint(rates, y, times[[i, i - 1]], **ctx.solver)]
                adjoint, gradient = y[n : 2 * n], y[2 * n :]
        return None, None, None, None, *equations.start(times[0], state, adjoint), *gradient


def _leaves(*tensors):
    return [tensor.detach().requires_grad_() for tensor in tensors]


def _gradients(value, inputs, create_graph=False):
    """The gradient of a scalar in each input, zero where it does not depend on it."""
    return torch.autograd.grad(
        value, inputs, create_graph=create_graph, allow_unused=True, materialize_grads=True
    )


def _call(f, t, *state):
    rate, last = f(t, *state), state[-1]
    if not isinstance(rate, torch.Tensor):
        raise ValueError(f"f must return a tensor, not {type(rate).__name__}")
    if rate.shape != last.shape:
        raise ValueError(f"f returns {tuple(rate.shape)} where it needs {tuple(last.shape)}")
    return rate


def _check(f, state, times, params):
    """Say which argument is wrong; times as the state's dtype, the params that learn."""
    first, x0 = next(iter(state.items()))
    for name, value in state.items():
        if value.dim() == 0:
            raise ValueError(f"{name} must have a feature axis: (..., d)")
        if not value.is_floating_point():
            raise ValueError(f"{name} must be floating point, not {value.dtype}")
        if (value.shape, value.dtype) != (x0.shape, x0.dtype):
            looks = (f"{tuple(z.shape)} {z.dtype}" for z in (x0, value))
            raise ValueError("{} must look like {}: {}, not {}".format(name, first, *looks))
    if times.dim() != 1 or len(times) < 2:
        raise ValueError(f"times must be (time,) with two or more, not {tuple(times.shape)}")
    if times.requires_grad:
        raise ValueError("times cannot be learnt here: detach them")
    times = times.to(x0)
    steps = times.diff()
    if not ((steps > 0).all() or (steps < 0).all()):
        raise ValueError("times must strictly increase, or strictly decrease")
    params = tuple(params)
    for i, p in enumerate(params):
        if not isinstance(p, torch.Tensor):
            raise ValueError(f"params[{i}] must be a tensor, not {type(p).__name__}")
    params = tuple(p for p in params if p.requires_grad)
    if torch.is_grad_enabled():
        if not any(z.requires_grad for z in (*state.values(), *params)):
            raise ValueError(f"nothing requires grad: {', '.join(state)} or one of params must")
        _check_field(f, times[0], state.values(), params)
    return times, params


def _check_field(f, t, state, params):
    """One call of f: it must depend on something, and learn nothing behind our back."""
    inputs = _leaves(t, *state)
    rate = _call(f, *inputs)
    if not rate.requires_grad:
        raise ValueError("f depends on nothing: not on t, not on the state, not on params")
    known = {id(z) for z in (*inputs, *params)}
    done, todo = {p.grad_fn for p in params}, [rate.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in done:
            continue
        done.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in known:
            raise ValueError(f"params misses a tensor {tuple(leaf.shape)} that f learns")
        todo += [previous for previous, _ in node.next_functions]
