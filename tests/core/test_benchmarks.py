"""The benchmarks start, and measure what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("script", ["run", "against", "regroup"])
def test_a_benchmark_starts(script):
    command = [sys.executable, FOLDER / f"{script}.py", "--help"]
    assert (
        "--keep" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )


def test_laps_are_iterations_of_fit_without_the_time_between_them(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import clock
    import tasks

    now, laps, calls = [0.0], [], []
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    model, loss = tasks.second_order(*tasks.trajectory(2))

    def counted(model):
        calls.append(model.plan is not None)
        now[0] += 0.5 if len(calls) == 1 else 0.002
        return loss(model)

    def between(milliseconds):
        laps.append(milliseconds)
        now[0] += 100

    cold = clock.train_in_laps(model, counted, 3, 4, between)
    assert cold == 0.5 and laps == pytest.approx([2.0] * 4) and all(calls)
