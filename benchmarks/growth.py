"""How the cost of an iteration grows with members, samples and dimensions."""

import ensemble
import torch
from clock import iterate, race
from tqdm import tqdm

from sonode_utils.ensemble import EnsembleMLP, normal, stream, streams
from sonode_utils.solvers.parallel import by_member, input_at_stages, solve_parallel

MEMBERS = (1, 2, 5, 10, 20, 50, 100, 200)
SAMPLES = (125, 250, 500, 1000, 2000, 4000, 8000)
DIMENSIONS = (1, 2, 3, 5, 7, 10)
STATE = (1, 2, 3, 4, 6)


def measure():
    """{what grows: [[its value, milliseconds of one iteration of all members], ...]}"""
    sweeps = {
        "members": (MEMBERS, trajectory),
        "dimensions": (DIMENSIONS, parity),
        "samples": (SAMPLES, lambda n: driven(n, 2)),
        "state": (STATE, lambda d: driven(1000, d)),
    }
    return {
        name: [[value, cost(make(value))] for value in tqdm(values, desc=name)]
        for name, (values, make) in sweeps.items()
    }


def cost(step):
    return race({"": step}, {"": 10}, rounds=3)[""].warm


def trajectory(members):
    return iterate(*ensemble.ensemble(*ensemble.trajectory_task(members)))


def parity(d, members=10):
    return iterate(*ensemble.ensemble(*ensemble.parity_task(members, d)))


def driven(samples, d, members=20):
    """A network of d rows of state and a random input, solved over all samples at once."""
    net = EnsembleMLP(d + 1, d, streams("bench, driven network", range(members), d))
    field, last = by_member(net), None
    u = input_at_stages(normal((1, samples), stream("bench, input", 0)))
    z0 = torch.zeros(d, members)

    def loss():
        nonlocal last
        done = solve_parallel(lambda z, u: 0.1 * field(z, u) - 0.05 * z, z0, u, guess=last)
        last = done.z.detach()
        return done.z.square().mean()

    return iterate(net, loss)
