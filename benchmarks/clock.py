"""How the benchmarks measure: one machine, one run, one thread, contenders taking turns."""

import time
from statistics import median
from typing import NamedTuple

import torch


class Timed(NamedTuple):
    """cold: seconds of the first iteration; warm: milliseconds of one, when running."""

    cold: float
    warm: float

    def per_member(self, members):
        return self.warm / members

    def to_result(self, iterations):
        """Seconds until a training of so many iterations is done."""
        return self.cold + (iterations - 1) * self.warm / 1000


def iterate(model, loss):
    """One iteration of Adam on the given loss, as a function of nothing."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)

    def step():
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()

    return step


def seconds(step, times=1):
    start = time.perf_counter()
    for _ in range(times):
        step()
    return time.perf_counter() - start


def race(steps, times, rounds=5):
    """The contenders in turns: {name: step}, {name: iterations a round} -> {name: Timed}."""
    cold = {name: seconds(step) for name, step in steps.items()}
    for name, step in steps.items():
        seconds(step, min(4, times[name] - 1))
    laps = [
        {name: 1000 * seconds(step, times[name]) / times[name] for name, step in steps.items()}
        for _ in range(rounds)
    ]
    return {name: Timed(cold[name], median(lap[name] for lap in laps)) for name in steps}
