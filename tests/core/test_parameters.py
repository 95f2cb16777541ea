"""A wrong parameter is named, with what it accepts; a profile replaces the paper's values."""

import pytest

from sonode_utils.evidence import parameters
from sonode_utils.evidence.parameters import apply_profile

LIMITS = {
    "x": {
        "seeds": {"paper": 10, "quick": 3, "smoke": 2, "least": 1},
        "dims": {"paper": 4, "smoke": 2, "least": 1, "most": 10},
        "model": {"paper": "NODE", "choices": ["NODE", "SONODE"]},
        "results_dir": {"paper": ""},
    }
}
GOOD = {"seeds": 10, "dims": 4, "model": "NODE", "results_dir": ""}
CELLS = ["import torch", "seeds = 10\ndims = 4", "run = begin('x', globals())"]


@pytest.fixture(autouse=True)
def limits(monkeypatch):
    monkeypatch.delenv("SONODE_PROFILE", raising=False)
    monkeypatch.setattr(parameters, "LIMITS", LIMITS)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"seeds": 0}, "seeds accepts a whole number, 1 or more"),
        ({"seeds": "ten"}, "seeds accepts a whole number"),
        ({"seeds": True}, "seeds accepts"),
        ({"seeds": 2.0}, "seeds accepts"),
        ({"dims": 11}, "dims accepts a whole number, 1 or more, 10 at most"),
        ({"model": "RNN"}, "model accepts one of 'NODE', 'SONODE'"),
        ({"results_dir": 3}, "results_dir accepts a string"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_it_accepts(wrong, words):
    with pytest.raises(ValueError, match=words):
        apply_profile("x", GOOD | wrong)


def test_a_missing_parameter_is_named():
    with pytest.raises(ValueError, match="parameter seeds is missing; it accepts a whole"):
        apply_profile("x", {})


@pytest.mark.parametrize(
    "cell, words",
    [
        ("# Parameters\nsedes = 3", "unknown parameter sedes: did you mean seeds"),
        ("zebra = [1]", "unknown parameter zebra: This notebook has seeds, dims"),
    ],
)
def test_a_misspelt_parameter_is_found_in_the_cells_that_set_them(cell, words):
    cells = [*CELLS[:2], cell, CELLS[2]]
    with pytest.raises(ValueError, match=words):
        apply_profile("x", GOOD | {"In": cells})


def test_what_the_rest_of_the_notebook_defined_before_is_no_parameter():
    ran = ["zebra = 1", *CELLS, "rows = 3", *CELLS]
    assert apply_profile("x", GOOD | {"In": ran, "zebra": 1, "rows": 3}) == "paper"


def test_the_profile_is_told_from_the_values():
    assert apply_profile("x", dict(GOOD)) == "paper"
    assert apply_profile("x", GOOD | {"seeds": 20, "results_dir": "out"}) == "paper"
    assert apply_profile("x", GOOD | {"seeds": 3}) == "custom"
    assert apply_profile("x", GOOD | {"dims": 3}) == "custom"


@pytest.mark.parametrize("profile, values", [("quick", (3, 4)), ("smoke", (2, 2))])
def test_a_profile_replaces_what_was_not_set_by_hand(profile, values, monkeypatch):
    monkeypatch.setenv("SONODE_PROFILE", profile)
    namespace = dict(GOOD)
    assert apply_profile("x", namespace) == profile
    assert (namespace["seeds"], namespace["dims"]) == values
    namespace = GOOD | {"dims": 7}
    apply_profile("x", namespace)
    assert namespace["dims"] == 7


def test_the_papers_value_set_by_hand_stays_under_another_profile(monkeypatch):
    monkeypatch.setenv("SONODE_PROFILE", "smoke")
    for cells in (
        [*CELLS[:2], "seeds = 10", CELLS[2]],
        [CELLS[0], "seeds = 1\nseeds = 10", ""],
    ):
        namespace = GOOD | {"In": cells}
        apply_profile("x", namespace)
        assert (namespace["seeds"], namespace["dims"]) == (10, 2)
    namespace = GOOD | {"In": [*CELLS, *CELLS]}  # run all, twice
    apply_profile("x", namespace)
    assert namespace["seeds"] == 2


def test_an_unknown_profile_is_refused(monkeypatch):
    monkeypatch.setenv("SONODE_PROFILE", "fast")
    with pytest.raises(ValueError, match="it accepts paper, quick, smoke"):
        apply_profile("x", dict(GOOD))
