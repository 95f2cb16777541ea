"""The verdict rules, declared before the runs: values per seed in, a word and why out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

EXACT = ("holds", "fails")


class Part(NamedTuple):
    """A comparison: its word, why, and {side: values per seed} (or an exact part's error)."""

    verdict: str
    text: str
    values: Mapping


def order(a, b, paired: bool = True) -> Part:
    """Is A below B? Bootstrap of the median of log10(A/B), 95 % interval.

    a, b: (seed,), of the same seeds where `paired`; else each side is resampled by itself.
    """
    values = {"a": np.asarray(a, float), "b": np.asarray(b, float)}
    a, b = map(_log10, values.values())
    if paired and len(a) != len(b):
        raise ValueError(f"paired values need the same seeds: {len(a)} against {len(b)}")
    rng = np.random.default_rng(0)
    i, j = (rng.integers(len(x), size=(10_000, len(x))) for x in (a, b))
    medians = np.median((a - b)[i], 1) if paired else np.median(a[i], 1) - np.median(b[j], 1)
    low, high = np.quantile(medians, [0.025, 0.975])
    verdict = "reproduced" if high < 0 else "contradicted" if low > 0 else "inconclusive"
    return Part(verdict, f"log10 ratio {low:.2f} to {high:.2f}", values)


def _log10(values):
    if np.isnan(values).any():
        raise ValueError(f"{np.isnan(values).sum()} values are NaN: count them as inf")
    if (values < 0).any():
        raise ValueError("order compares positive values only")
    return np.log10(np.clip(values, 1e-300, 1e300))


def below(values, tau: float) -> Part:
    """Do the seeds stay below tau? 90 % or more: reproduced, under half: contradicted."""
    return _share(values, lambda v: v < tau, f"below {tau:g}")


def above(values, tau: float) -> Part:
    """Do the seeds stay above tau? 90 % or more: reproduced, under half: contradicted."""
    return _share(values, lambda v: v > tau, f"above {tau:g}")


def between(values, low: float, high: float) -> Part:
    """Do the seeds lie between low and high? Judged by their share, as in `below`."""
    return _share(values, lambda v: (v > low) & (v < high), f"within {low:g} to {high:g}")


def _share(values, condition, text):
    values = np.asarray(values, float)
    hits = condition(values)
    share = hits.mean()
    verdict = "reproduced" if share >= 0.9 else "partly" if share >= 0.5 else "contradicted"
    return Part(verdict, f"{hits.sum()} of {len(hits)} seeds {text}", {"": values})


def exact(error, tol: float) -> Part:
    """Does a statement of theory hold to within tol?"""
    error = float(error)
    word = "holds" if error <= tol else "fails"
    return Part(word, f"error {error:.1e}, limit {tol:g}", {"": error})


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
    """Largest relative change of a median; loose, tight: (..., seed), or dicts of such."""
    if isinstance(loose, dict):
        return max(solver_change(loose[name], tight[name]) for name in loose)
    loose, tight = (np.median(np.asarray(values, float), -1) for values in (loose, tight))
    return float(np.abs(loose / tight - 1).max())
