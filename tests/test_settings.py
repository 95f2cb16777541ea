"""A wrong parameter is named, with what it accepts."""

import pytest

from sonode_utils import settings
from sonode_utils.settings import check, one_of, profile, text, whole

RULES = {"seeds": whole(1), "model": one_of("NODE", "SONODE"), "folder": text()}
GOOD = {"seeds": 10, "model": "NODE", "folder": ""}


@pytest.fixture(autouse=True)
def paper_profile(monkeypatch):
    monkeypatch.delenv("SONODE_PROFILE", raising=False)
    monkeypatch.setattr(settings, "_defaults", {})


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"seeds": 0}, "seeds accepts a whole number, 1 or more"),
        ({"seeds": "ten"}, "seeds accepts a whole number"),
        ({"seeds": True}, "seeds accepts"),
        ({"seeds": 2.0}, "seeds accepts"),
        ({"model": "RNN"}, "model accepts one of 'NODE', 'SONODE'"),
        ({"folder": 3}, "folder accepts a string"),
        ({"sedes": 3}, "unknown parameter sedes: did you mean seeds"),
        ({"zebra": [1]}, "unknown parameter zebra: This notebook has seeds, model, folder"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_it_accepts(wrong, words):
    with pytest.raises(ValueError, match=words):
        check(GOOD | wrong, **RULES)


def test_a_missing_parameter_is_named():
    with pytest.raises(ValueError, match="seeds is missing"):
        check({}, **RULES)


def test_what_a_notebook_imports_is_no_parameter():
    assert check(GOOD | {"pytest": pytest, "check": check, "_i": "x", "In": []}, **RULES)


def test_the_profile_is_told_from_the_values(monkeypatch):
    assert profile("seeds", 10, fast=2) == 10
    assert check(GOOD, **RULES) == "paper"
    assert check(GOOD | {"seeds": 20}, **RULES) == "paper"
    assert check(GOOD | {"seeds": 3}, **RULES) == "custom"
    monkeypatch.setenv("SONODE_PROFILE", "fast")
    assert profile("seeds", 10, fast=2) == 2
    assert check(GOOD, **RULES) == "fast"


def test_an_unknown_profile_is_refused(monkeypatch):
    monkeypatch.setenv("SONODE_PROFILE", "quick")
    with pytest.raises(ValueError, match="'paper' or 'fast'"):
        profile("seeds", 10, fast=2)
