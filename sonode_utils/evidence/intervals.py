"""The 95 % intervals behind every word: exact, without a random number and without a model."""

from functools import cache
from math import comb

import numpy as np


def median_interval(values) -> tuple:
    """Median, its exact 95 % interval by order statistics, and how many are nan. (..., seed)"""
    values = np.sort(values, -1)  # nan last
    n = (~np.isnan(values)).sum(-1)
    k = np.array([_median_rank(m) for m in range(values.shape[-1] + 1)])[n]

    def at(i):
        i = np.clip(i, 0, values.shape[-1] - 1)[..., None]
        return np.take_along_axis(values, i, -1)[..., 0]

    middle = (at((n - 1) // 2) + at(n // 2)) / 2
    low, high = (np.where(k, at(i), end) for i, end in ((k - 1, -np.inf), (n - k, np.inf)))
    return np.where(n, middle, 0.0), low, high, values.shape[-1] - n


def shift_interval(a, b) -> tuple:
    """Hodges and Lehmann's shift of A against B, and Mann and Whitney's 95 % interval of it."""
    gaps = a[..., :, None] - b[..., None, :]
    gaps[np.isnan(gaps)] = 0.0  # two that are not finite tie
    gaps = gaps.reshape(*gaps.shape[:-2], -1)
    n, k = gaps.shape[-1], _shift_rank(a.shape[-1], b.shape[-1])
    gaps.partition(sorted({(n - 1) // 2, n // 2, max(k - 1, 0), min(n - k, n - 1)}), -1)
    middle = (gaps[..., (n - 1) // 2] + gaps[..., n // 2]) / 2
    if not k:
        return middle, np.full_like(middle, -np.inf), np.full_like(middle, np.inf)
    return middle, gaps[..., k - 1], gaps[..., n - k]


@cache
def share_interval(hits: int, n: int) -> tuple:
    """Clopper and Pearson's 95 % interval of a share: hits of n."""
    from scipy.stats import binomtest

    return tuple(binomtest(hits, n).proportion_ci(method="exact"))


@cache
def _median_rank(n):
    """The largest k with P(Binomial(n, 1/2) < k) at most 2.5 %; 0 where there is none."""
    below, k = 0, 0
    while 40 * (below + comb(n, k)) <= 2**n:
        below, k = below + comb(n, k), k + 1
    return k


@cache
def _shift_rank(m, n):
    """The largest k with P(U < k) at most 2.5 %, U being Mann and Whitney's, without ties."""
    ways = [1] + [0] * (m * n)  # the coefficients of a Gaussian binomial, exactly
    for i in range(1, m + 1):
        for j in range(m * n, n + i - 1, -1):
            ways[j] -= ways[j - n - i]
        for j in range(i, m * n + 1):
            ways[j] += ways[j - i]
    below, k = 0, 0
    while 40 * (below + ways[k]) <= comb(m + n, m):
        below, k = below + ways[k], k + 1
    return k
