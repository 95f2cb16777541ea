"""How the benchmarks measure: one machine, one run, one thread, contenders taking turns."""

import time
from statistics import median
from typing import NamedTuple

import torch

from sonode_utils.train import fit

WARM_UP = 5  # iterations before the laps, the first of which is the cold one


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
    """One iteration of torch's Adam on the given loss, as a function of nothing."""
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


def train_in_laps(model, loss, iterations, rounds, between, label="ours"):
    """Train by `fit` and say how long its laps of so many iterations took -> seconds of the
    first iteration.

    between(milliseconds per iteration) is called after every lap; the clock stands meanwhile.
    """
    start, cold = time.perf_counter(), None

    def turn(count, model):
        nonlocal start, cold
        now = time.perf_counter()
        laps, rest = divmod(count - WARM_UP, iterations)
        if count == 1:
            cold = now - start
        if rest == 0 and laps > 0:
            between(1000 * (now - start) / iterations)
        if rest == 0 and laps >= 0:
            start = time.perf_counter()

    whole = WARM_UP + iterations * rounds + 1
    fit(model, loss, iterations=whole, callback=turn, label=label)
    return cold


def race(ours, others, iterations, rounds=5, label="ours"):
    """Ours is trained by `fit`; between its laps the others have theirs -> {name: Timed}.

    ours: model, loss; others: {name: step}; iterations: {name: so many per lap}.
    """
    cold = {name: seconds(step) for name, step in others.items()}
    for name, step in others.items():
        seconds(step, min(WARM_UP, iterations[name]) - 1)
    laps = {name: [] for name in ("ours", *others)}

    def between(lap):
        laps["ours"].append(lap)
        for name, step in others.items():
            n = iterations[name]
            laps[name].append(1000 * seconds(step, n) / n)

    cold["ours"] = train_in_laps(*ours, iterations["ours"], rounds, between, label)
    return {name: Timed(cold[name], median(lap)) for name, lap in laps.items()}
