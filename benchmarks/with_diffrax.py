"""The same trainings by diffrax, compiled by jax: a fair third column.

Every member is a solve of its own, batched by vmap; the step is compiled once, with the
gradient and Adam in it. One thread, as for the others. pip install -e .[bench]
"""

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Network(eqx.Module):
    """A second order network: acceleration f of (x, v), initial velocity g of x."""

    f: eqx.nn.MLP
    g: eqx.nn.MLP

    def __init__(self, d, key):
        one, two = jax.random.split(key)
        self.f = eqx.nn.MLP(2 * d, d, 20, 2, jax.nn.elu, key=one)
        self.g = eqx.nn.MLP(d, d, 20, 2, jnp.tanh, key=two)

    def start(self, x0):
        return jnp.concatenate([x0, jax.vmap(self.g)(x0)], -1)

    def field(self, t, z, _):
        return jnp.concatenate([z[:, z.shape[-1] // 2 :], jax.vmap(self.f)(z)], -1)


class Driven(eqx.Module):
    """x'' = w . (x, v, cube x^3, u) + b with a measured input u, straight between samples."""

    w: jax.Array
    b: jax.Array
    s: jax.Array

    def start(self, x0):
        return jnp.stack([x0, self.s[0] * x0 + self.s[1]])

    def field(self, t, z, given):
        u, cube = given
        x, v = z
        return jnp.stack([v, self.w @ jnp.stack([x, v, cube * x**3, u.evaluate(t)]) + self.b])


def path(model, x0, times, given=None):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(model.field), diffrax.Dopri5(), times[0], times[-1], None,
        model.start(x0), given, saveat=diffrax.SaveAt(ts=times), max_steps=16**4,
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-3),
    ).ys  # fmt: skip


def trainer(models, loss):
    """One iteration of Adam on every member's loss; models: a batch of them."""
    adam = optax.adam(0.01)
    state = adam.init(eqx.filter(models, eqx.is_array))

    @eqx.filter_jit
    def step(models, state):
        gradient = eqx.filter_grad(lambda m: loss(m).sum())(models)
        change, state = adam.update(gradient, state)
        return eqx.apply_updates(models, change), state

    def once():
        nonlocal models, state
        models, state = step(models, state)
        jax.block_until_ready(jax.tree.leaves(eqx.filter(models, eqx.is_array)))

    return once


def network(x0, times, target):
    """x0: (member, batch, d); target: (time, member, batch, d), the last times."""
    x0, times, target = (jnp.asarray(np.asarray(a)) for a in (x0, times, target))
    keys = jax.random.split(jax.random.PRNGKey(0), len(x0))
    models = eqx.filter_vmap(lambda key: Network(x0.shape[-1], key))(keys)

    def one(model, x0, target):
        x = path(model, x0, times)[-len(target) :, :, : x0.shape[-1]]
        return jnp.square(x - target).mean()

    every = eqx.filter_vmap(one, in_axes=(eqx.if_array(0), 0, 1))
    return trainer(models, lambda models: every(models, x0, target))


def driven(u, x, weight, bias, start, cube):
    """u, x: (sample,); weight (member, 4), bias (member,), start (member, 2)."""
    u, x, *numbers = (jnp.asarray(np.asarray(a)) for a in (u, x, weight, bias, start))
    times = jnp.arange(len(u), dtype=u.dtype)
    given = diffrax.LinearInterpolation(times, u), cube

    def one(model):
        return jnp.square(path(model, x[0], times, given)[:, 0] - x).mean()

    return trainer(Driven(*numbers), eqx.filter_vmap(one))
