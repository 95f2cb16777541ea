"""Does a run agree with its record? Made-up records whose answer is known."""

import re

import numpy as np
import pytest

from sonode_utils.evidence import compare as module
from sonode_utils.evidence.compare import compare
from sonode_utils.evidence.report import Run
from sonode_utils.evidence.rules import exact, order, share

rng = np.random.default_rng(1)
SPREAD = rng.normal(size=(9, 10))  # (quantity, seed)


def record(rows, first_seed=0, error=0.0, data="synthetic", profile="paper", **settings):
    """A record with claim B2, a part for each row, and claim Q4, an exact one."""
    seeds = range(first_seed, first_seed + len(rows[0]))
    made = Run("test", profile, seeds, settings={"iterations": 5, **settings})
    made.data = data
    made.judge("B2", {f"part {i}": share(row, ">", 0) for i, row in enumerate(rows)}, ours="")
    made.judge("Q4", {"angle": exact(error, 1e-8), "distance": exact(0, 0)}, ours="")
    return made.as_dict()


def line(old, new, id="B2"):
    return compare(id, old, new)


def p_value(old, new):
    quantities = [{i: tuple(row) for i, row in enumerate(rows)} for rows in (old, new)]
    return module.exchange_test(*quantities)[1]


def test_equal_values_agree_without_a_test(monkeypatch):
    monkeypatch.setattr(module, "exchange_test", None)
    assert line(record(SPREAD), record(SPREAD)) == "B2 agrees"


def test_values_of_other_draws_agree():
    assert line(record(SPREAD), record(rng.normal(size=(9, 10)))) == "B2 agrees"


def test_a_shift_differs_and_the_quantity_that_moved_is_named():
    moved = SPREAD[:2] + [[0], [10]]
    said = line(record(SPREAD[:2]), record(moved))
    assert re.fullmatch(r"B2 differs: part 1, p = \de-05", said)


@pytest.mark.parametrize("n", [9, 10, 20, 100])
def test_rows_without_any_overlap_differ_from_nine_seeds_on(n):
    row = rng.normal(size=(1, n))
    assert p_value(row, row + 100) < 1e-4


@pytest.mark.parametrize("sign", [1, -1])
def test_values_that_moved_down_differ_as_those_that_moved_up(sign):
    assert p_value(SPREAD, SPREAD + 5 * sign) < 1e-4


def test_runs_of_one_distribution_rarely_differ():
    """360 pairs: p is small no more often than it says."""
    draw = np.random.default_rng(2)
    p = [p_value(*draw.normal(size=(2, 3, 10))) for _ in range(360)]
    assert min(p) > 1e-4 and np.mean(np.array(p) < 0.05) < 0.08


def test_a_shift_of_two_standard_deviations_is_mostly_found_over_nine_quantities():
    draw, found = np.random.default_rng(3), 0
    for _ in range(40):
        old, new = draw.normal(size=(2, 9, 10))
        found += p_value(old, new + 2) < 1e-4
    assert found >= 32


def test_one_moved_quantity_among_nine_is_seen_by_the_largest_rank_sum():
    """With 20 seeds; with ten no single quantity of nine is enough, however far it moved."""
    old, new = np.random.default_rng(4).normal(size=(2, 9, 20))
    new[2] += 100
    assert p_value(old, new) < 1e-4 < p_value(old[:, :10], new[:, :10])


@pytest.mark.parametrize("shift", [100, -100])
def test_one_of_many_quantities_is_seen_whichever_way_it_moved(shift):
    old, new = np.random.default_rng(7).normal(size=(2, 40, 20))
    new[3] += shift
    assert p_value(old, new) < 1e-4


def test_divisions_that_tie_with_the_one_seen_count():
    """Three of twenty stand out, all in the new run: as likely as 2 C(17,7) / C(20,10)."""
    old, new = np.zeros((2, 1, 10))
    new[0, :3] = 1 / 3
    assert p_value(old, new) == pytest.approx(2 * 0.2105, rel=0.03)


def test_all_quantities_of_a_seed_are_divided_together():
    """Nine copies of one weak shift say no more than one; copied rows are not even equal."""
    new = SPREAD[:1] + 1.2
    alone = p_value(SPREAD[:1], new)
    noise = 1 + 1e-9 * np.arange(9)[:, None]
    assert p_value(SPREAD[:1] * noise, new * noise) == pytest.approx(alone, rel=0.2)


def test_a_row_that_serves_several_parts_counts_once(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "_ranks", lambda *pair: seen.append(pair) or np.zeros(20))
    p_value(SPREAD[[0, 0, 1, 0]], SPREAD[[2, 2, 3, 2]])
    assert len(seen) == 2


def test_a_value_near_its_own_seeds_value_is_taken_as_that_value():
    """Alone, a shift of all of ten tight groups by 1e-4 would be a perfect separation."""
    tight = 1 + 1e-8 * np.arange(10.0)[None]
    assert line(record(tight), record(tight * (1 + 0.9e-4))) == "B2 agrees"
    assert "differs" in line(record(tight), record(tight * (1 + 1.1e-4)))


def test_a_value_is_taken_as_that_of_its_own_seed_only():
    old = 1 + np.arange(10.0)
    near = tuple(old * (1 + 0.9e-4))
    ranks = module._ranks(tuple(old), near)
    assert ranks[:10].tolist() == ranks[10:].tolist()
    assert len(set(module._ranks(tuple(old), near[::-1]))) == 20
    more = module._ranks(tuple(old), (*near, 99.0))  # a run of more seeds than were recorded
    assert more[:10].tolist() == more[10:20].tolist() and len(more) == 21


def test_ties_share_their_average_rank():
    ranks = module._ranks((1.0, 2.0), (2.0, 3.0))
    assert ranks[1] == ranks[2] == 0 and ranks[0] == -ranks[3] < 0


def test_rank_sums_have_variance_one():
    ranks = module._ranks(tuple(SPREAD[0]), tuple(SPREAD[1]))
    sums = [rng.permutation(ranks)[:10].sum() for _ in range(4000)]
    assert np.var(sums) == pytest.approx(1, rel=0.1)


def test_a_quantity_without_spread_says_nothing():
    same = np.ones((1, 10))
    assert module._ranks(tuple(same[0]), tuple(same[0])).tolist() == [0] * 20
    both = [np.r_[same, rows] for rows in (SPREAD[:1], SPREAD[:1] + 1)]
    assert p_value(*both) == p_value(SPREAD[:1], SPREAD[:1] + 1)


def test_what_is_not_finite_is_the_largest_and_equal_to_its_like():
    bad = SPREAD.copy()
    bad[:, :5] = np.inf
    worse = np.full_like(SPREAD, np.nan)
    assert line(record(bad), record(bad)) == "B2 agrees"
    assert "differs" in line(record(SPREAD), record(worse))
    half = SPREAD[:1].copy()
    half[:, :5] = np.nan  # above all others, not below
    assert line(record(half), record(SPREAD[:1] + 9)) == "B2 agrees"
    ranks = module._ranks((1.0, np.inf), (np.inf, 2.0))
    assert ranks[1] == ranks[2] == max(ranks)


def test_rows_of_another_length_are_divided_by_themselves_and_still_count():
    starts = np.random.default_rng(5).normal(size=30)
    old, same, moved = (
        {0: tuple(SPREAD[0]), 1: tuple(row)} for row in (starts, starts[::-1], starts + 3)
    )
    assert module.exchange_test(old, same)[1] > 0.5
    key, p = module.exchange_test(old, moved)
    assert key == 1 and p < 1e-4


def test_runs_of_different_size_are_compared():
    many = np.random.default_rng(6).normal(size=(9, 20))
    assert line(record(SPREAD), record(many, seeds=20)) == "B2 agrees"
    assert "differs" in line(record(SPREAD), record(many + 3, seeds=20))


def test_exact_parts_must_keep_their_word_and_no_more():
    old = record(SPREAD, error=1e-12)
    assert line(old, record(SPREAD, error=5e-9), "Q4") == "Q4 agrees"
    said = line(old, record(SPREAD, error=2e-8), "Q4")
    assert said == "Q4 differs: angle was for, is against"


def test_exact_parts_need_no_seeds():
    few = record(SPREAD[:, :3])
    assert line(few, few, "Q4") == "Q4 agrees"


def test_a_quantity_that_came_or_went_is_a_difference():
    said = line(record(SPREAD), record(SPREAD[:8]))
    assert said == "B2 differs: part 8 was there, is missing"
    said = line(record(SPREAD[:8]), record(SPREAD))
    assert said == "B2 differs: part 8 was missing, is there"


def test_rows_are_matched_by_part_whatever_name_they_were_recorded_under():
    def named(first, second):
        made = Run("test", "paper", range(10))
        made.record("first", first)
        made.record("second", second)
        made.judge("P3", order(first, second, "A / B"), ours="")
        return made.as_dict()

    a, b = np.abs(SPREAD[:2])
    assert compare("P3", named(a, a), named(a, b)) == "P3 agrees"


@pytest.mark.parametrize(
    "old, new, why",
    [
        ({}, {"profile": "smoke"}, "profile smoke"),
        ({}, {"profile": "quick", "iterations": 2}, "profile quick"),
        ({}, {"iterations": 2}, "other iterations"),
        ({}, {"profile": "custom", "rate": 1}, "other rate"),
        ({"first": 0}, {"first": 1000}, "other first"),
        ({"rate": 1}, {}, "other rate"),
        ({}, {"data": "simulated"}, "stand-ins"),
        ({"data": "simulated"}, {"data": "real"}, "stand-ins"),
    ],
)
def test_what_cannot_be_compared_says_why(old, new, why):
    said = line(record(SPREAD, **old), record(SPREAD + 9, **new))
    assert said == f"B2 not compared: {why}"


def test_fewer_than_nine_seeds_are_not_compared():
    for n, said in ((8, "B2 not compared: 8 seeds"), (9, "B2 agrees")):
        assert line(record(SPREAD[:, :n]), record(SPREAD[:, :n])) == said
    assert line(record(SPREAD), record(SPREAD[:, :3])) == "B2 not compared: 3 seeds"


def test_without_a_record_nothing_is_compared():
    assert line(None, record(SPREAD)) == "B2 not compared: no record"
    empty = record(SPREAD) | {"claims": []}
    assert line(empty, record(SPREAD)) == "B2 not compared: no record"


def test_the_divisions_are_the_same_every_time():
    assert p_value(SPREAD, SPREAD + 1) == p_value(SPREAD, SPREAD + 1)
