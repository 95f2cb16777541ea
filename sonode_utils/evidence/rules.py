"""The verdict rules, declared before the runs: values per seed in, a word and its reason out.

A rule takes one value per seed and gives a `Part`; a claim is made of one or more parts.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

TINY, HUGE = 1e-300, 1e300


class Part(NamedTuple):
    """One comparison: its verdict, and the number it hangs on in words."""

    verdict: str
    text: str


def order(a, b, paired: bool = True) -> Part:
    """Is A below B? Bootstrap of the median of log10(A/B), 95 % interval.

    a, b: one value per seed, the same seeds in the same order where `paired` (they share
    data); else each side is resampled on its own and the medians of the logs compared.
    """
    a, b = _log10(a), _log10(b)
    if paired and len(a) != len(b):
        raise ValueError(f"paired values need the same seeds: {len(a)} against {len(b)}")
    rng = np.random.default_rng(0)
    i = rng.integers(len(a), size=(10_000, len(a)))
    if paired:
        medians = np.median((a - b)[i], axis=1)
    else:
        j = rng.integers(len(b), size=(10_000, len(b)))
        medians = np.median(a[i], axis=1) - np.median(b[j], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    verdict = "reproduced" if high < 0 else "contradicted" if low > 0 else "inconclusive"
    return Part(verdict, f"log10 ratio {low:.2f} to {high:.2f}")


def _log10(values):
    values = np.asarray(values, float)
    if np.isnan(values).any():
        raise ValueError(f"{np.isnan(values).sum()} values are NaN: count them as inf")
    if (values < 0).any():
        raise ValueError("order compares positive values only")
    return np.log10(np.clip(values, TINY, HUGE))


def below(values, tau: float) -> Part:
    """Do the seeds stay below tau? 90 % or more: reproduced, under half: contradicted."""
    return _share(np.asarray(values, float) < tau, f"below {tau:g}")


def above(values, tau: float) -> Part:
    """Do the seeds stay above tau? 90 % or more: reproduced, under half: contradicted."""
    return _share(np.asarray(values, float) > tau, f"above {tau:g}")


def between(values, low: float, high: float) -> Part:
    """Do the seeds lie between low and high? Judged by their share, as in `below`."""
    values = np.asarray(values, float)
    return _share((values > low) & (values < high), f"within {low:g} to {high:g}")


def _share(hits, text):
    share = hits.mean()
    words = ("reproduced", "partly", "contradicted")
    verdict = words[0 if share >= 0.9 else 1 if share >= 0.5 else 2]
    return Part(verdict, f"{hits.sum()} of {len(hits)} seeds {text}")


def exact(error, tol: float) -> Part:
    """Does a statement of theory hold to within tol?"""
    error = float(error)
    return Part("holds" if error <= tol else "fails", f"error {error:.1e}, limit {tol:g}")


def combine(parts: Sequence[Part]) -> tuple[str, str]:
    """The verdict of a claim with several parts, and its count: ("partly", "9 of 10")."""
    verdicts = Counter(part.verdict for part in parts)
    good = verdicts["reproduced"] + verdicts["holds"]
    bad = verdicts["contradicted"] + verdicts["fails"]
    count = f"{good} of {len(parts)}"
    if len(parts) == 1:
        return parts[0].verdict, count
    if good == len(parts):
        return ("holds" if verdicts["holds"] == good else "reproduced"), count
    if 2 * bad > len(parts):
        return ("fails" if verdicts["fails"] == bad else "contradicted"), count
    return "partly", count


def solver_change(loose, tight) -> float:
    """Largest relative change of a median over seeds from one solve to a tighter one.

    loose, tight: (seed,) or (..., seed), or dicts of these with the same keys.
    """
    if isinstance(loose, dict):
        return max(solver_change(loose[name], tight[name]) for name in loose)
    loose, tight = (np.median(np.asarray(values, float), -1) for values in (loose, tight))
    return float(np.abs(loose / tight - 1).max())
