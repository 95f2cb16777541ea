"""The rules of version 2 on made-up values whose word is known, and the intervals' coverage."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sonode_utils.evidence import intervals, rules, verdicts
from sonode_utils.evidence.rules import exact, order, share, sign, word_of_parts

rng = np.random.default_rng(0)
NOISE = 10 ** (0.1 * rng.normal(size=50))  # a factor of 1.26 up or down
OTHER = 10 ** (0.1 * rng.normal(size=50))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    "factor, word", [(2.0, "for"), (0.5, "against"), (1.0, "equal"), (1.08, "open")]
)
def test_order_follows_the_side_the_values_lie_on(paired, factor, word):
    tight = {"for": 1, "against": 1, "equal": 0.2, "open": 1}[word]  # less noise to be equal
    a, b = NOISE**tight, factor * OTHER**tight
    assert order(a, b, "A / B", paired=paired).word == word


def test_a_small_difference_that_is_certain_is_equal_and_not_for():
    assert order(NOISE, 1.05 * NOISE, "A / B").word == "equal"
    assert order(NOISE, 1.05 * NOISE, "A / B", delta=0.0043).word == "for"
    assert order(NOISE, 1.005 * NOISE, "A / B", delta=0.0043).word == "equal"


def test_where_the_paper_needs_a_lead_equal_counts_as_against():
    assert order(NOISE, NOISE, "A / B", equal="against").word == "against"
    assert order(NOISE, 2 * NOISE, "A / B", equal="against").word == "for"


@pytest.mark.parametrize("ratio, word", [(3.0, "for"), (1.0, "against"), (2.0, "open")])
def test_much_larger_asks_for_a_factor_and_knows_no_equality(ratio, word):
    values = NOISE / np.median(NOISE)
    assert order(values, ratio * np.ones(50), "A / B", by=2).word == word
    assert order(values, 1.9 * values, "A / B", by=2).word == "against"


def test_order_sees_a_small_difference_only_where_seeds_are_paired():
    spread = 10.0 ** np.linspace(0, 9, 50)
    assert order(spread, 1.5 * spread, "A / B").word == "for"
    assert order(spread, 1.5 * spread, "A / B", paired=False).word == "open"


def test_one_bad_seed_does_not_decide_an_order():
    bad = np.r_[1e6, NOISE[1:]]
    assert order(bad, 3 * OTHER, "A / B").word == "for"
    assert order(np.r_[np.nan, NOISE[1:]], 3 * OTHER, "A / B", paired=False).word == "for"


def test_what_is_not_finite_is_the_worst_and_pairs_of_such_say_nothing():
    worst = np.full(50, np.nan)
    assert order(NOISE, worst, "A / B").word == "for"
    assert order(np.full(50, np.inf), NOISE, "A / B").word == "against"
    half = np.where(np.arange(50) < 20, np.nan, NOISE)
    outcome = order(half, np.where(np.isnan(half), np.inf, 3 * half), "A / B").outcome()
    assert outcome.word == "for" and outcome.left_out == 20
    most = np.where(np.arange(50) < 26, np.nan, NOISE)
    assert order(most, np.where(np.isnan(most), np.nan, 3 * most), "A / B").word == "open"
    assert order(worst, worst, "A / B", paired=False).word == "open"


@pytest.mark.parametrize("paired", [True, False])
def test_a_threshold_that_neither_reached_says_nothing(paired):
    a = np.r_[np.full(20, 10.0), np.full(30, 101.0)]
    b = np.r_[np.full(20, 40.0), np.full(30, 101.0)]
    part = order(a, b, "A / B", paired=paired, never=101)
    assert part.word == "open" if paired else part.outcome().effect == 0
    assert order(a[:39], b[:39], "A / B", never=101).outcome().left_out == 19


def test_an_error_rate_of_zero_counts_as_half_a_point():
    a, b = np.zeros(50), np.full(50, 0.002)
    effect = order(a, b, "A / B", points=2000, by=2).outcome().effect
    assert 10**effect == pytest.approx(0.5 / 2000 / 0.002)


def test_order_refuses_what_it_cannot_compare():
    with pytest.raises(ValueError, match="same seeds: 2 against 1"):
        order([1.0, 1.0], [1.0], "A / B")
    with pytest.raises(ValueError, match="positive"):
        order([-1.0], [1.0], "A / B")


@pytest.mark.parametrize(
    "hits, word",
    [(50, "for"), (45, "for"), (44, "sometimes"), (18, "sometimes"), (17, "against")],
)
def test_shares_have_their_thresholds_at_nine_tenths_and_at_an_upper_end_of_one_half(
    hits, word
):
    values = np.r_[np.zeros(hits), np.ones(50 - hits)]
    assert share(values, "<", 0.5).word == word
    assert share(-values, ">", -0.5).word == word
    assert share(values, "between", (-0.1, 0.1)).word == word


def test_nan_and_a_value_on_the_limit_meet_no_condition():
    on = [0.1] * 50
    parts = [share(on, "<", 0.1), share(on, ">", 0.1), share(on, "between", (0.1, 1))]
    parts += [share([np.nan] * 50, c, 0) for c in "<>"]
    assert {part.word for part in parts} == {"against"}


def test_share_names_the_conditions_it_knows():
    with pytest.raises(ValueError, match=r"'=='.*<, >, between"):
        share([1.0], "==", 1)


def test_sign_follows_the_interval_of_the_median():
    values = rng.normal(size=100)
    words = [sign(values + shift).word for shift in (1, -1, -np.median(values))]
    assert words == ["for", "against", "open"]


def test_exact_holds_up_to_its_tolerance():
    assert exact(1e-9, 1e-8).word == exact(1e-8, 1e-8).word == "for"
    assert exact(2e-8, 1e-8).word == exact(np.nan, 1e-8).word == "against"


def test_a_part_says_its_effect_with_two_digits():
    ten = np.arange(1.0, 11)
    assert order(ten, 2 * ten, "A / B").text == "0.5 (0.5 to 0.5)"
    assert share(ten, "<", 9.5).text == "9 of 10 seeds (55% to 100%)"
    assert exact(1e-9, 1e-8).text == "error 1.0e-09, limit 1e-08"
    assert exact(np.inf, 1e-8).text == "error not finite, limit 1e-08"
    assert sign(ten).text == "5.5 (2 to 9)"
    two = order(np.r_[np.inf, ten], np.r_[np.inf, 2 * ten], "A / B").text
    assert two == "0.5 (0.5 to 0.5); 1 pairs left out"


@pytest.mark.parametrize(
    "parts, word",
    [
        ("fff", "supported"),
        ("aaf", "contradicted"),
        ("aa", "contradicted"),
        ("aafo", "mixed"),  # half is not more than half
        ("ffo", "mostly supported"),
        ("ffe", "mostly supported"),
        ("ffs", "mostly supported"),
        ("ffa", "mixed"),
        ("ee", "no difference"),
        ("oo", "unresolved"),
        ("eo", "not supported"),
        ("aooo", "not supported"),
        ("s", "mixed"),
        ("fo", "mixed"),
        ("aos", "mixed"),
    ],
)
def test_the_word_of_a_claim_is_the_first_of_the_table_that_applies(parts, word):
    spelt = dict(zip("faeos", rules.WORDS))
    counts = {spelt[p]: parts.count(p) for p in parts}
    assert word_of_parts(counts) == word


def test_claims_of_exact_parts_only_hold_or_fail():
    assert word_of_parts({"for": 3}, all_exact=True) == "holds"
    assert word_of_parts({"for": 3, "against": 1}, all_exact=True) == "fails"


# The intervals: their ranks against tables, their coverage by simulation.


def test_fifty_seeds_give_the_18th_and_the_33rd_value():
    values = rng.permutation(np.arange(1.0, 51))
    middle, low, high, _ = intervals.median_interval(values)
    assert (middle, low, high) == (25.5, 18, 33)


@pytest.mark.parametrize("n, k", [(5, 0), (6, 1), (10, 2), (20, 6), (50, 18)])
def test_the_rank_of_a_median_is_that_of_the_sign_test(n, k):
    assert intervals._median_rank(n) == k
    assert 2 * stats.binom.cdf(k, n, 0.5) > 0.05 and (
        not k or 2 * stats.binom.cdf(k - 1, n, 0.5) <= 0.05
    )


def p_of_pairs_the_other_way(m, n, u):
    """Both sides: how rare are samples in which u pairs (a, b) have a above b?"""
    passed = np.clip(u - n * np.arange(m), 0, n)  # how many of b each of a lies above
    return stats.mannwhitneyu(
        passed + 0.1 * np.arange(m) / m, np.arange(n) + 0.5, method="exact"
    ).pvalue


@pytest.mark.parametrize("m, n", [(3, 3), (4, 4), (5, 8), (10, 10), (9, 20)])
def test_the_rank_of_a_shift_is_that_of_the_exact_mann_whitney_test(m, n):
    k = intervals._shift_rank(m, n)
    assert p_of_pairs_the_other_way(m, n, k) > 0.05
    assert k == 0 or p_of_pairs_the_other_way(m, n, k - 1) <= 0.05


def test_a_shift_is_the_median_of_all_differences():
    a, b = rng.normal(size=(2, 7))
    middle, low, high = intervals.shift_interval(a, b)
    gaps = np.sort(np.subtract.outer(a, b).ravel())
    k = intervals._shift_rank(7, 7)
    assert middle == np.median(gaps) and (low, high) == (gaps[k - 1], gaps[-k])


def coverage(n, draw, interval, truth, runs=4000):
    own = np.random.default_rng(n)
    _, low, high = interval(draw(own, (runs, n)))[:3]
    return ((low <= truth) & (truth <= high)).mean()


SHAPES = {
    "normal": (lambda r, size: r.normal(size=size), 0.0),
    "skewed": (lambda r, size: r.exponential(size=size), np.log(2)),
    "two kinds": (lambda r, size: r.normal(size=size) + 6 * (r.random(size) < 0.3), None),
}


@pytest.mark.parametrize("n", [10, 20, 50])
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_of_a_median_cover_it_in_94_of_100_cases_or_more(n, shape):
    draw, truth = SHAPES[shape]
    if truth is None:
        truth = np.median(draw(np.random.default_rng(1), 4_000_001))
    assert coverage(n, draw, intervals.median_interval, truth) >= 0.94


@pytest.mark.parametrize("n", [10, 20, 50])
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_of_a_shift_cover_it_in_94_of_100_cases_or_more(n, shape):
    draw, _ = SHAPES[shape]
    other = draw(np.random.default_rng(n + 1), (1000, n)) + 0.5
    found = coverage(n, draw, lambda a: intervals.shift_interval(a, other), -0.5, runs=1000)
    assert found >= 0.94


@pytest.mark.parametrize("n", [10, 20, 50])
@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_intervals_of_a_share_cover_it_in_94_of_100_cases_or_more(n, p):
    def interval(draws):
        return share(draws, "<", p).outcome()[1:4]

    found = coverage(n, lambda r, size: r.random(size), lambda d: interval(d), p)
    assert found >= 0.94


# Claims from records.


def test_the_pooled_effect_is_the_median_over_seeds_of_their_median_over_parts():
    base, sizes = NOISE, (1.0, 4.0, 2.0)
    parts = {f"{f}": order(f * base, base, "A / B") for f in sizes}
    parts["other"] = order(base, base, "A / C")
    ((pair, (effect, low, high)),) = verdicts.pooled_effects(parts).items()
    assert pair == "A / B" and 10**effect == 10**low == 10**high == pytest.approx(2)


def test_a_seed_that_says_nothing_in_one_part_is_pooled_over_the_others():
    a, b = NOISE.copy(), 2 * NOISE
    a[0] = b[0] = np.inf
    parts = {"x": order(a, b, "A / B"), "y": order(NOISE, 2 * NOISE, "A / B")}
    assert verdicts.pooled_effects(parts)["A / B"][0] == pytest.approx(np.log10(0.5))


def test_a_clear_claim_replicates_always_and_one_on_the_edge_does_not():
    clear = {"": order(NOISE, 9 * OTHER, "A / B")}
    assert verdicts.replication(clear, "supported") == 1
    edge = {"": share(np.arange(50.0), "<", 44.5)}  # 45 of 50: exactly nine tenths
    chance = verdicts.replication(edge, "supported")
    expected = stats.binom.sf(44, 50, 0.9)
    assert chance == pytest.approx(expected, abs=0.03) and chance < 0.9


def test_a_seeds_values_are_drawn_together():
    """Two parts that always go together: resampled apart, both would hold less often."""
    row = np.arange(50.0)
    one, two = ({n: share(row, "<", 44.5) for n in names} for names in ("a", "ab"))
    assert verdicts.replication(one, "supported") == verdicts.replication(two, "supported")


def test_every_word_of_the_book_follows_from_its_records_in_seconds():
    from sonode_utils.evidence.scorecard import scorecard

    folder = Path(__file__).parents[2] / "book/results"
    rows = scorecard(folder)
    words = {row["id"]: row["word"] for row in rows}
    known = "supported|mostly supported|mixed|no difference|unresolved|not supported"
    known += "|contradicted|holds|fails|not judged|not tested at scale|shown"
    assert len(words) == 60 and set(words.values()) <= set(known.split("|"))
    json.dumps(rows)  # plain data
    for row in rows:  # where the two versions differ, one sentence says why
        differs = bool(row["before"]["word"]) and not row["same"]
        assert ("changed" in row) == differs, row["id"]
