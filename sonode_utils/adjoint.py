"""The adjoint method, first and second order, as differentiable solves (App. B).

Both integrate forward without a graph, then carry state, adjoint and parameter gradient
back from the last time to the first, so memory does not grow with the number of steps.

No Jacobian is ever built. With phi = r . f, one vector-Jacobian product (VJP) gives all
of J_x^T r, J_v^T r and r . df/dtheta: they are the gradients of phi. The derivative of
J_v^T r along the flow is one product more. Second derivatives commute, so it is the
gradient in v of phi's rate of change in the direction (x', v', t', r') = (v, f, 1, r').
"""

import torch
from torch.autograd.function import once_differentiable
from torchdiffeq import odeint


def first_order(f, z0, times, params, *, method="dopri5", rtol=1e-5, atol=1e-7, **options):
    """Solve z' = f(t, z); the gradient comes from r' = -J^T r, with J = df/dz.

    z0: (..., d); times: (time,), rising or falling; params: the tensors f learns. f is
    given t as a tensor and must compute with it as one; options go to torchdiffeq.
    Returns z: (time, ..., d), whose values at any time may enter the loss.
    """
    times, params = _check(f, {"z0": z0}, times, params)
    solver = {"method": method, "rtol": rtol, "atol": atol, "options": options}
    return solve(FirstOrder(f), (z0,), times, params, solver)[0]


def second_order(f, x0, v0, times, params, *, method="dopri5", rtol=1e-5, atol=1e-7, **options):
    """Solve x'' = f(t, x, v), x' = v; the gradient comes from Proposition 3.1.

    x0, v0: (..., d); the rest as in `first_order`. f must be twice differentiable along
    the path: at the kink of a relu J_v jumps, and no product sees its derivative there.
    Returns x and v: (time, ..., d) each, whose values at any time may enter the loss.
    """
    times, params = _check(f, {"x0": x0, "v0": v0}, times, params)
    solver = {"method": method, "rtol": rtol, "atol": atol, "options": options}
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
        return (_call(self.f, t, *state),)

    def backward(self, t, state, adjoint, params):
        """The rates of z, of r and of the parameters' gradient."""
        with torch.enable_grad():
            (z,), (r,) = _leaves(*state), adjoint
            dz = _call(self.f, t, z)
            phi_z, *phi_theta = _gradients((r * dz).sum(), (z, *params))
        return (dz.detach(),), (-phi_z,), [-g for g in phi_theta]

    def jump(self, t, state, loss_gradients):
        """What an observation adds to r."""
        return loss_gradients

    def start(self, t, state, adjoint):
        """dL/dz0."""
        return adjoint


# Every term of the second order adjoint that `SecondOrder(f, without)` can leave out.
TERMS = {
    "J_x": "J_x^T r in r''",
    "J_v": "J_v^T r' in r''",
    "dJ_v along x": "(dJ_v/dx v)^T r in r''",
    "dJ_v along v": "(dJ_v/dv f)^T r in r''",
    "dJ_v along t": "(dJ_v/dt)^T r in r''",
    "L_v": "L_v in the jump of r",
    "L_x": "L_x in the jump of r'",
    "J_v L_v": "J_v^T L_v in the jump of r'",
    "r' at t0": "r' in dL/dx0",
    "J_v r at t0": "J_v^T r in dL/dx0",
}


class SecondOrder:
    """The equations of x'' = f(t, x, v) and its adjoint r (Prop. 3.1, transposed):

        r'' = J_x^T r - J_v^T r' - (d/dt J_v)^T r,  the last a total derivative,
        at each observation r jumps by L_v, and r' by -L_x - J_v^T L_v,
        dL/dx0 = -r' - J_v^T r and dL/dv0 = r at t0,
        dL/dtheta = integral of r . df/dtheta from the first time to the last.

    without: keys of TERMS to leave out, to see what each is for.
    """

    def __init__(self, f, without=()):
        self.f, self.without = f, without
        if not TERMS.keys() >= set(without):
            raise ValueError(f"without accepts {', '.join(TERMS)}; not {without}")

    def field(self, t, state):
        return state[1], _call(self.f, t, *state)

    def backward(self, t, state, adjoint, params):
        """The rates of (x, v), of (r, r') and of the parameters' gradient."""
        (r, dr), term = adjoint, self._term
        with torch.enable_grad():
            t, x, v = _leaves(t, *state)
            a = _call(self.f, t, x, v)
            phi, inputs = (r * a).sum(), (t, x, v, *params)
            phi_t, phi_x, phi_v, *phi_theta = _gradients(phi, inputs, create_graph=True)
            rate = (  # of phi along the flow; the direction itself is held still
                term("dJ_v along x", (phi_x * v.detach()).sum())
                + term("dJ_v along v", (phi_v * a.detach()).sum())
                + term("dJ_v along t", phi_t)
                + term("J_v", (dr * a).sum())
            )
            (dphi_v,) = _gradients(rate, (v,))
        ddr = (term("J_x", phi_x) - dphi_v).detach()
        return (state[1], a.detach()), (dr, ddr), [-g.detach() for g in phi_theta]

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
            return _gradients((r * _call(self.f, t, x, v)).sum(), (v,))[0]

    def _term(self, name, value):
        return 0 * value if name in self.without else value


def solve(equations, state, times, params, solver):
    """The states at `times`, differentiable by the adjoint of these equations."""
    return Adjoint.apply(equations, times, solver, len(state), *state, *params)


class Adjoint(torch.autograd.Function):
    """A solve forward, and its adjoint backward from observation to observation."""

    @staticmethod
    def forward(ctx, equations, times, solver, n, *tensors):
        path = odeint(equations.field, tensors[:n], times, **solver)
        ctx.equations, ctx.solver = equations, solver
        ctx.save_for_backward(times, *path, *tensors[n:])
        return path

    @staticmethod
    @once_differentiable
    def backward(ctx, *loss_gradients):
        n, equations = len(loss_gradients), ctx.equations
        times, *tensors = ctx.saved_tensors
        path, params = tensors[:n], tensors[n:]

        def rates(t, y):
            parts = equations.backward(t, y[:n], y[n : 2 * n], params)
            return tuple(rate for part in parts for rate in part)

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
        start = equations.start(times[0], state, adjoint)
        return None, None, None, None, *start, *gradient


def _leaves(*tensors):
    return [tensor.detach().requires_grad_() for tensor in tensors]


def _gradients(value, inputs, create_graph=False):
    """The gradient of a scalar in each input, zero where it does not depend on it."""
    if not value.requires_grad:
        return [torch.zeros_like(z) for z in inputs]
    return torch.autograd.grad(value, inputs, create_graph=create_graph, materialize_grads=True)


def _call(f, t, *state):
    rate, shape = f(t, *state), tuple(state[-1].shape)
    if not isinstance(rate, torch.Tensor):
        raise ValueError(f"f must return a tensor, not {type(rate).__name__}")
    if rate.shape != shape:
        raise ValueError(f"f returns {tuple(rate.shape)} where the state is {shape}")
    return rate


def _check(f, state, times, params):
    """Say which argument is wrong; times in the state's dtype, the params that learn."""
    looks = [(tuple(z.shape), z.dtype) for z in state.values()]
    for name, (shape, dtype) in zip(state, looks):
        if not shape or not dtype.is_floating_point:
            raise ValueError(f"{name} must be floats (..., d), not {dtype} {shape}")
    if looks[0] != looks[-1]:
        raise ValueError(f"v0 must look like x0: {looks[0]}, not {looks[-1]}")
    if times.dim() != 1 or len(times) < 2 or times.requires_grad:
        raise ValueError("times must be (time,), two or more, and not require grad")
    times, params = times.to(looks[0][1]), tuple(params)
    if not ((times.diff() > 0).all() or (times.diff() < 0).all()):
        raise ValueError("times must strictly increase, or strictly decrease")
    for i, p in enumerate(params):
        if not isinstance(p, torch.Tensor):
            raise ValueError(f"params[{i}] must be a tensor, not {type(p).__name__}")
    params = tuple(p for p in params if p.requires_grad)
    if torch.is_grad_enabled():
        if not any(z.requires_grad for z in (*state.values(), *params)):
            raise ValueError(f"nothing requires grad: {', '.join(state)} or params")
        _check_field(f, _leaves(times[0], *state.values()), params)
    return times, params


def _check_field(f, inputs, params):
    """One call of f: it must depend on something, and learn nothing behind our back."""
    rate = _call(f, *inputs)
    if not rate.requires_grad:
        raise ValueError("f depends on nothing: neither t, nor the state, nor params")
    known = {id(z) for z in (*inputs, *params)}
    done, todo = {None, *(p.grad_fn for p in params)}, [rate.grad_fn]
    while todo:
        node = todo.pop()
        if node not in done:
            done.add(node)
            todo += [before for before, _ in node.next_functions]
            leaf = getattr(node, "variable", rate)
            if leaf is not rate and id(leaf) not in known:
                raise ValueError(f"params misses a {tuple(leaf.shape)} tensor f learns")
