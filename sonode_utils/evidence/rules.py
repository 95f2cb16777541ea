"""The rules of version 2: values per seed in; an effect, its 95 % interval and a word out.

Every part of a claim is a `Part`: the rule's name, the rows of values it rests on, and its
options. Words follow from these alone, so that whoever has a record can judge it again.
"""

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from sonode_utils.evidence.intervals import median_interval, share_interval, shift_interval

DELTA = 0.041  # the smallest difference of interest, 10 %, in log10
FOR, AGAINST, EQUAL, OPEN, SOMETIMES = WORDS = ("for", "against", "equal", "open", "sometimes")
CONDITIONS: dict[str, Callable] = {
    "<": operator.lt,
    ">": operator.gt,
    "between": lambda x, ends: (x > ends[0]) & (x < ends[1]),
}


class Outcome(NamedTuple):
    """A word with its effect and interval (log10 of a ratio, a share, or the value itself).

    left_out: how many pairs said nothing. With rows of (..., seed) all are arrays of (...).
    """

    word: np.ndarray
    effect: np.ndarray
    low: np.ndarray
    high: np.ndarray
    left_out: np.ndarray


class Part(NamedTuple):
    """One comparison: rule (order, share, sign, exact), rows {side: values}, options."""

    rule: str
    rows: Mapping[str, np.ndarray]
    options: Mapping

    def outcome(self) -> Outcome:
        """Effect, interval and word; rows may be (..., seed)."""
        with np.errstate(invalid="ignore"):  # inf - inf is nan, and handled
            return RULES[self.rule](*self.rows.values(), **self.options)

    @property
    def word(self) -> str:
        """for, against, equal, open or sometimes."""
        return str(self.outcome().word)

    @property
    def text(self) -> str:
        """Effect and interval as people read them, with two significant digits."""
        _, effect, low, high, left_out = (np.asarray(x).tolist() for x in self.outcome())
        if self.rule == "exact":
            size = f"{effect:.1e}" if np.isfinite(effect) else "not finite"
            return f"error {size}, limit {self.options['tol']:g}"
        if self.rule == "share":
            n = np.shape(self.rows[""])[-1]
            return f"{round(effect * n)} of {n} seeds ({low:.0%} to {high:.0%})"
        aside = f"; {left_out} pairs left out" if left_out else ""
        return ratio_text(effect, low, high, self.rule == "order", self.digits) + aside

    @property
    def digits(self) -> int:
        """Significant digits of the effect: three where 1 % is of interest."""
        return 3 if self.options.get("delta", DELTA) < 0.01 else 2


def ratio_text(
    effect: float, low: float, high: float, log: bool = True, digits: int = 2
) -> str:
    """A ratio and its interval, "0.54 (0.44 to 0.66)"; log: they are given as log10."""
    middle, *ends = (
        f"{10.0 ** min(x, 300) if log else x:.{digits}g}" for x in (effect, low, high)
    )
    known = np.isfinite(low) or np.isfinite(high)  # few seeds have no interval
    return f"{middle} ({' to '.join(ends).replace('1e+300', '∞') if known else 'no interval'})"


def order(
    a, b, pair: str, *, paired: bool = True, by: float = 1, delta: float = DELTA,
    equal: str = EQUAL, points: int | None = None, never: float | None = None,
) -> Part:  # fmt: skip
    """Is A below B, by a factor of `by`? The effect is the ratio A/B.

    a, b: (seed,), of the same seeds where `paired`; pair: whose values they are,
    "SONODE / ANODE"; delta: the smallest difference of interest in log10; equal: the word of
    an interval within it; points: they are error rates over so many points; never: a value
    from here on means that a threshold was never reached.
    """
    rows = {"a": np.asarray(a, float), "b": np.asarray(b, float)}
    if paired and len(rows["a"]) != len(rows["b"]):
        raise ValueError(f"paired values need the same seeds: {len(a)} against {len(b)}")
    if any((values < 0).any() for values in rows.values()):
        raise ValueError("order compares positive values only")
    options = {"pair": pair, "paired": paired, "by": by, "delta": delta, "equal": equal}
    return Part("order", rows, options | {"points": points, "never": never})


def share(values, condition: str, limit) -> Part:
    """How many seeds meet a condition: "<" or ">" a limit, or "between" two?"""
    if condition not in CONDITIONS:
        raise ValueError(f"condition {condition!r}: share accepts {', '.join(CONDITIONS)}")
    limit = list(limit) if condition == "between" else float(limit)
    rows = {"": np.asarray(values, float)}
    return Part("share", rows, {"condition": condition, "limit": limit})


def sign(values) -> Part:
    """Are the values above zero? By the interval of their median. values: (start,)"""
    return Part("sign", {"": np.asarray(values, float)}, {})


def exact(error, tol: float) -> Part:
    """Does a statement of theory hold to within tol?"""
    return Part("exact", {"": np.asarray(error, float)}, {"tol": float(tol)})


def log_ratio(a, b, points=None, never=None) -> np.ndarray:
    """log10(A/B), nan where both are the worst: not finite, or never reached."""
    a, b = (_log10(values, points) for values in (a, b))
    worst = np.inf if never is None else np.log10(never)
    with np.errstate(invalid="ignore"):  # inf - inf
        return np.where((a >= worst) & (b >= worst), np.nan, a - b)


def word_of_parts(counts: Mapping[str, int], all_exact: bool = False) -> str:
    """The word of a claim from {word: parts}: the first of the declared table that applies."""
    count, n = Counter(counts), sum(counts.values())
    if all_exact:
        return "holds" if count[FOR] == n else "fails"
    rules = {
        "supported": count[FOR] == n,
        "contradicted": 2 * count[AGAINST] > n,
        "mostly supported": 2 * count[FOR] > n and not count[AGAINST],
        "no difference": count[EQUAL] == n,
        "unresolved": count[OPEN] == n,
        "not supported": not count[FOR] and not count[SOMETIMES],
    }
    return next((word for word, applies in rules.items() if applies), "mixed")


def solver_change(loose, tight) -> float:
    """Largest relative change of a median; loose, tight: (..., seed), or dicts of such."""
    if isinstance(loose, dict):
        return max(solver_change(loose[name], tight[name]) for name in loose)
    loose, tight = (np.median(np.asarray(values, float), -1) for values in (loose, tight))
    return float(np.abs(loose / tight - 1).max())


def _order(a, b, paired, by, delta, equal, points, never, pair=""):
    if paired:
        effect, low, high, left_out = median_interval(log_ratio(a, b, points, never))
        silent = left_out / a.shape[-1]
    else:
        logs = _log10(a, points), _log10(b, points)
        effect, low, high = shift_interval(*logs)
        worst = np.inf if never is None else np.log10(never)
        silent = np.prod([(x >= worst).mean(-1) for x in logs], 0)
        left_out = np.zeros_like(effect, int)  # a tie is a tie: nothing is left out
    bar = -np.log10(by)
    inside = (by == 1) & (low > -delta) & (high < delta)
    cases = [silent > 0.5, inside, high < bar, low > bar]
    word = np.select(cases, [OPEN, equal, FOR, AGAINST], OPEN)
    return Outcome(word, effect, low, high, left_out)


def _share(values, condition, limit):
    n, hits = values.shape[-1], CONDITIONS[condition](values, limit).sum(-1)
    low, high = np.moveaxis(np.array([share_interval(h, n) for h in range(n + 1)])[hits], -1, 0)
    word = np.select([hits >= 0.9 * n - 1e-9, high < 0.5], [FOR, AGAINST], SOMETIMES)
    return Outcome(word, hits / n, low, high, np.zeros_like(hits))


def _sign(values):
    effect, low, high, left_out = median_interval(values)
    word = np.select([low > 0, high < 0], [FOR, AGAINST], OPEN)
    return Outcome(word, effect, low, high, left_out)


def _exact(error, tol):
    word = np.where(error <= tol, FOR, AGAINST)  # nan is not within any limit
    return Outcome(word, error, error, error, np.zeros_like(error, int))


def _log10(values, points):
    values = np.where(np.isfinite(values), values, np.inf)  # the worst of its kind
    values = np.where(values == 0, 0.5 / points, values) if points else values
    return np.log10(np.maximum(values, 1e-300))


RULES: dict[str, Callable] = {"order": _order, "share": _share, "sign": _sign, "exact": _exact}
