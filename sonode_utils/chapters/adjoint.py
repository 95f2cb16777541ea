"""The adjoint method, first and second order, as differentiable solves (App. B).

Both integrate forward without a graph, then carry state, adjoint and parameter gradient
back from the last time to the first, so memory does not grow with the number of steps.

No Jacobian is ever built. With phi = r . f, one vector-Jacobian product gives all of J_x^T r,
J_v^T r and r . df/dtheta: they are the gradients of phi. The derivative of J_v^T r along the
flow is one product more: second derivatives commute, so it is the gradient in v of phi's rate
of change in the direction (x', v', t', r') = (v, f, 1, r').
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torchdiffeq import odeint

from sonode_utils.solvers.scan import first_derivatives_only

Tensors = Sequence[Tensor]


def first_order(
    f: Callable, z0: Tensor, times: Tensor, params: Iterable[Tensor], *,
    method: str = "dopri5", rtol: float = 1e-5, atol: float = 1e-7, **options,
) -> Tensor:  # fmt: skip
    """Solve z' = f(t, z); the gradient comes from r' = -J^T r, with J = df/dz.

    z0: (..., d); times: (time,), rising or falling; params: the tensors f learns; t comes as
    a tensor; options go to torchdiffeq. -> z: (time, ..., d), any of it for the loss
    """
    solver = {"method": method, "rtol": rtol, "atol": atol, "options": options}
    return _checked_solve(FirstOrder(f), {"z0": z0}, times, params, solver)[0]


def second_order(
    f: Callable, x0: Tensor, v0: Tensor, times: Tensor, params: Iterable[Tensor], *,
    method: str = "dopri5", rtol: float = 1e-5, atol: float = 1e-7, **options,
) -> Tensors:  # fmt: skip
    """Solve x'' = f(t, x, v), x' = v; the gradient comes from Proposition 3.1.

    x0, v0: (..., d); the rest as in `first_order`. f must be twice differentiable along
    the path: at the kink of a relu J_v jumps, and no product sees its derivative there.
    -> x and v: (time, ..., d) each
    """
    solver = {"method": method, "rtol": rtol, "atol": atol, "options": options}
    return _checked_solve(SecondOrder(f), {"x0": x0, "v0": v0}, times, params, solver)


def coupled(f: Callable) -> Callable:
    """The field of z = [x, v] in which x'' = f(t, x, v) is of first order (Eq. 4)."""

    def field(t, z):
        x, v = z.chunk(2, -1)
        return torch.cat([v, f(t, x, v)], -1)

    return field


class FirstOrder:
    """The equations of z' = f(t, z) and its adjoint r."""

    def __init__(self, f: Callable):
        self.f = f

    def field(self, t: Tensor, state: Tensors) -> Tensors:
        return (self.f(t, *state),)

    def backward(self, t: Tensor, y: Tensors, params: Tensors) -> Tensors:
        """The rates of y: of z, of r and of the parameters' gradient."""
        with torch.enable_grad():
            (z,) = _leaves(y[0])
            dz = self.f(t, z)
            phi_z, *phi_theta = _gradients((y[1] * dz).sum(), (z, *params))
        return dz.detach(), -phi_z, *(-g for g in phi_theta)

    def jump(self, t: Tensor, state: Tensors, loss_gradients: Tensors) -> Tensors:
        return loss_gradients  # what an observation adds to r

    def start(self, t: Tensor, state: Tensors, adjoint: Tensors) -> Tensors:
        return adjoint  # dL/dz0


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

    without: the terms to leave out, keys of TERMS, to see what each is for.
    """

    def __init__(self, f: Callable, without: Sequence[str] = ()):
        self.f, self.without = f, without
        if not TERMS.keys() >= set(without):
            raise ValueError(f"without accepts {', '.join(TERMS)}; not {without}")

    def field(self, t: Tensor, state: Tensors) -> Tensors:
        return state[1], self.f(t, *state)

    def backward(self, t: Tensor, y: Tensors, params: Tensors) -> Tensors:
        """The rates of y: of x, v, r, r' and of the parameters' gradient."""
        (x, v, r, dr), term = y[:4], self._term
        with torch.enable_grad():
            t, x, v = _leaves(t, x, v)
            a = self.f(t, x, v)
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
        return y[1], a.detach(), dr, ddr, *(-g.detach() for g in phi_theta)

    def jump(self, t: Tensor, state: Tensors, loss_gradients: Tensors) -> Tensors:
        """What an observation adds to (r, r')."""
        L_x, L_v = loss_gradients
        back = self._term("J_v L_v", self._J_v(t, state, L_v))
        return self._term("L_v", L_v), -self._term("L_x", L_x) - back

    def start(self, t: Tensor, state: Tensors, adjoint: Tensors) -> Tensors:
        """dL/dx0 and dL/dv0."""
        r, dr = adjoint
        back = self._term("J_v r at t0", self._J_v(t, state, r))
        return -self._term("r' at t0", dr) - back, r

    def _J_v(self, t, state, r):
        """J_v^T r."""
        with torch.enable_grad():
            x, v = _leaves(*state)
            return _gradients((r * self.f(t, x, v)).sum(), (v,))[0]

    def _term(self, name, value):
        return 0 * value if name in self.without else value


def solve_with_adjoint(equations, state: Tensors, times, params: Tensors, solver) -> Tensors:
    """The states at `times`, differentiable by the adjoint of these equations; unchecked."""
    return Adjoint.apply(equations, times, solver, len(state), *state, *params)


class Adjoint(torch.autograd.Function):
    """A solve forward, and its adjoint backward from observation to observation."""

    @staticmethod
    def forward(ctx, equations, times: Tensor, solver: dict, n: int, *tensors: Tensor) -> tuple:
        path = odeint(equations.field, tensors[:n], times, **solver)
        ctx.equations, ctx.solver = equations, solver
        ctx.save_for_backward(times, *path, *tensors[n:])
        return path

    @staticmethod
    def backward(ctx, *loss_gradients: Tensor) -> tuple:
        first_derivatives_only()
        n, equations = len(loss_gradients), ctx.equations
        times, *tensors = ctx.saved_tensors
        path, params = tensors[:n], tensors[n:]
        carried = [torch.zeros_like(z) for z in (*(x[0] for x in path), *params)]
        for i in reversed(range(len(times))):
            # The state restarts from the forward pass, so its error does not pile up.
            state = [x[i] for x in path]
            jump = equations.jump(times[i], state, [g[i] for g in loss_gradients])
            carried[:n] = [r + dr for r, dr in zip(carried, jump)]
            if i > 0:
                y, leg = (*state, *carried), times[[i, i - 1]]
                y = odeint(lambda t, y: equations.backward(t, y, params), y, leg, **ctx.solver)
                carried = [part[-1] for part in y[n:]]
        start = equations.start(times[0], state, carried[:n])
        return None, None, None, None, *start, *carried[n:]


def _leaves(*tensors):
    return [tensor.detach().requires_grad_() for tensor in tensors]


def _gradients(value, inputs, create_graph=False):
    """The gradient of a scalar in each input, zero where it does not depend on it."""
    if not value.requires_grad:
        return [torch.zeros_like(z) for z in inputs]
    return torch.autograd.grad(value, inputs, create_graph=create_graph, materialize_grads=True)


def _checked_solve(equations, state, times, params, solver):
    """The states at `times`, or which argument is wrong; state: by the argument's name."""
    (name, z), params = next(iter(state.items())), tuple(params)
    looks = [f"{z.dtype} {tuple(z.shape)}" for z in state.values()]
    if not z.shape or not z.is_floating_point():
        raise ValueError(f"{name} must be floats (..., d), not {looks[0]}")
    if looks[0] != looks[-1]:
        raise ValueError(f"v0 must look like x0: {looks[0]}, not {looks[-1]}")
    if times.dim() != 1 or len(times) < 2 or times.requires_grad:
        raise ValueError("times must be (time,), two or more, and not require grad")
    if set(times.to(z.dtype).diff().sign().tolist()) not in ({1}, {-1}):
        raise ValueError("times must strictly increase, or strictly decrease")
    if strange := [i for i, p in enumerate(params) if not isinstance(p, Tensor)]:
        raise ValueError(f"params{strange} must be tensors")
    times, params = times.to(z.dtype), tuple(p for p in params if p.requires_grad)
    if torch.is_grad_enabled() and not any(z.requires_grad for z in (*state.values(), *params)):
        raise ValueError(f"nothing requires grad: {', '.join(state)} or params")
    _check_field(equations.f, _leaves(times[0], *state.values()), params)
    return solve_with_adjoint(equations, state.values(), times, params, solver)


def _check_field(f, inputs, params):
    """One call of f: it must depend on something, and learn nothing behind our back."""
    rate, shape = f(*inputs), tuple(inputs[-1].shape)
    if (got := getattr(rate, "shape", type(rate).__name__)) != shape:
        raise ValueError(f"f must return a tensor {shape}; f returns {got}")
    if torch.is_grad_enabled() and not rate.requires_grad:
        raise ValueError("f depends on nothing: neither t, nor the state, nor params")
    known = {id(z) for z in (rate, *inputs, *params)}
    done, todo = {None, *(p.grad_fn for p in params)}, [rate.grad_fn]
    for node in todo:  # which grows on the way
        if node not in done:
            done.add(node)
            todo += [before for before, _ in node.next_functions]
            if id(getattr(node, "variable", rate)) not in known:
                raise ValueError(f"params misses a {(*node.variable.shape,)} tensor f learns")
