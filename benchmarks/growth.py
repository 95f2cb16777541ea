"""How the cost of an iteration grows with members, steps, width, dimensions and samples."""

import tasks
import torch
from clock import race

from sonode_utils.ensemble import EnsembleMLP, normal, stream, streams
from sonode_utils.solvers.parallel import by_member, input_at_stages, solve_parallel

MEMBERS = (1, 2, 5, 10, 20, 50, 100, 200)
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
WIDTHS = (5, 10, 20, 40, 80, 160)
DIMENSIONS = (1, 2, 3, 5, 7, 10)
SAMPLES = (125, 250, 500, 1000, 2000, 4000, 8000)
STATE = (1, 2, 3, 4, 6)


def measure(laps=10, rounds=3):
    """{what grows: [[its value, milliseconds of one iteration of all members], ...]}"""
    sweeps = {
        "members": (MEMBERS, lambda n: tasks.second_order(*tasks.trajectory(n))),
        "steps": (TOLERANCES, trajectory_at),
        "width": (WIDTHS, trajectory_by),
        "dimensions": (DIMENSIONS, lambda d: tasks.second_order(*tasks.parity(10, d))),
        "samples": (SAMPLES, lambda n: driven(n, 2)),
        "state": (STATE, lambda d: driven(1000, d)),
    }
    grown = {}
    for name, (values, make) in sweeps.items():
        grown[name] = []
        for value in values:
            model, loss = make(value)
            ours = race((model, loss), {}, {"ours": laps}, rounds, f"{name}, {value}")["ours"]
            size = steps(model) if name == "steps" else value
            grown[name].append([size, ours.warm])
    return grown


def steps(model):
    """How many steps the slowest member tried in its last solve, which had a plan."""
    return (int(model.nfe.max()) - 1) // 6


def trajectory_at(tolerance, members=20):
    task = tasks.trajectory(members)
    return tasks.second_order(*task, rtol=tolerance, atol=tolerance)


def trajectory_by(width, members=20):
    return tasks.second_order(*tasks.trajectory(members), hidden=(width, width))


def driven(samples, d, members=20):
    """A network of d rows of state and a random input, solved over all samples at once."""
    net = EnsembleMLP(d + 1, d, streams("bench, driven network", range(members), d))
    u = input_at_stages(normal((1, samples), stream("bench, input", 0)))
    z0, last = torch.zeros(d, members), None

    def loss(net):
        nonlocal last
        field = by_member(net)
        done = solve_parallel(lambda z, u: 0.1 * field(z, u) - 0.05 * z, z0, u, guess=last)
        last = done.z.detach()
        return done.z.square().mean((0, 1))

    return net, loss
