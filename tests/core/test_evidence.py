"""The verdict rules on made-up values whose verdict is known, both ways."""

import json
import re

import numpy as np
import pytest

from sonode_utils.evidence import report, scorecard, tables
from sonode_utils.evidence.report import CATALOGUE, Run
from sonode_utils.evidence.rules import (
    Part,
    above,
    below,
    between,
    combine,
    exact,
    order,
    solver_change,
)

LOW = np.array([1.0, 1.2, 0.9, 1.1, 1.05, 0.95, 1.0, 1.15, 0.9, 1.0])


@pytest.mark.parametrize("paired", [True, False])
def test_order_follows_the_side_the_values_lie_on(paired):
    assert order(LOW, 3 * LOW, paired).verdict == "reproduced"
    assert order(3 * LOW, LOW, paired).verdict == "contradicted"
    assert order(LOW, LOW[::-1], paired).verdict == "inconclusive"


def test_order_sees_a_small_difference_only_where_seeds_are_paired():
    spread = 10.0 ** np.arange(10)
    assert order(spread, 1.5 * spread).verdict == "reproduced"
    assert order(spread, 1.5 * spread, paired=False).verdict == "inconclusive"


def test_order_is_about_the_median_not_the_mean():
    one_bad_seed = LOW.copy()
    one_bad_seed[0] = 1e6
    assert order(one_bad_seed, 3 * LOW).verdict == "reproduced"


def test_order_gives_the_same_interval_every_time():
    assert order(LOW, LOW[::-1])[:2] == order(LOW, LOW[::-1])[:2]


def test_order_counts_an_unsolvable_member_as_infinitely_bad():
    assert order(LOW, np.full(10, np.inf)).verdict == "reproduced"


def test_order_refuses_what_it_cannot_compare():
    with pytest.raises(ValueError, match="NaN"):
        order([np.nan, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="same seeds"):
        order([1.0, 1.0], [1.0])
    with pytest.raises(ValueError, match="positive"):
        order([-1.0], [1.0])


@pytest.mark.parametrize(
    "hits, verdict",
    [(10, "reproduced"), (9, "reproduced"), (8, "partly"), (5, "partly"), (4, "contradicted")],
)
def test_shares_have_their_thresholds_at_nine_tenths_and_one_half(hits, verdict):
    values = np.r_[np.zeros(hits), np.ones(10 - hits)]
    assert below(values, 0.5).verdict == verdict
    assert above(-values, -0.5).verdict == verdict
    assert between(values, -0.1, 0.1).verdict == verdict


def test_a_value_on_the_limit_is_on_no_side():
    on = [0.1] * 3
    parts = below(on, 0.1), above(on, 0.1), between(on, 0.1, 1), between(on, 0, 0.1)
    assert {part.verdict for part in parts} == {"contradicted"}


def test_equal_values_give_no_order():
    assert order([1.0] * 5, [1.0] * 5).verdict == "inconclusive"


def test_nan_is_on_no_side():
    assert below([np.nan] * 3, 1).verdict == above([np.nan] * 3, 0).verdict == "contradicted"


def test_exact_holds_up_to_its_tolerance():
    assert exact(1e-9, 1e-8).verdict == exact(1e-8, 1e-8).verdict == "holds"
    assert exact(2e-8, 1e-8).verdict == exact(np.nan, 1e-8).verdict == "fails"


@pytest.mark.parametrize(
    "verdicts, combined",
    [
        ("rrr", ("reproduced", "3 of 3")),
        ("rri", ("partly", "2 of 3")),
        ("ccr", ("contradicted", "1 of 3")),
        ("ccrr", ("partly", "2 of 4")),
        ("iii", ("partly", "0 of 3")),
        ("i", ("inconclusive", "0 of 1")),
        ("hh", ("holds", "2 of 2")),
        ("hr", ("reproduced", "2 of 2")),
        ("hff", ("fails", "1 of 3")),
        ("hcf", ("contradicted", "1 of 3")),
        ("hhf", ("partly", "2 of 3")),
    ],
)
def test_several_parts_make_one_verdict(verdicts, combined):
    words = {"r": "reproduced", "c": "contradicted", "i": "inconclusive"}
    words |= {"h": "holds", "f": "fails"}
    assert combine([Part(words[v], "", {}) for v in verdicts]) == combined


def run(profile="paper", folder="", data="synthetic"):
    made = Run("test", profile, range(10), str(folder))
    made.data = data
    made.judge("P1", above(LOW, 0.5), ours="about 1", solver_check=0.02, diverged=1)
    made.record("loss", [[1.0, np.inf], [0.1234567891, 2.0]])
    return made


def test_the_solver_change_is_the_largest_of_the_medians():
    tight = np.array([[1.0, 1.0, 9.0], [2.0, 2.0, 2.0]])
    assert solver_change(tight * [[1.01], [0.9]], tight) == pytest.approx(0.1)
    assert solver_change({"a": [1.1], "b": [1.0]}, {"a": [1.0], "b": [2.0]}) == 0.5


def test_a_record_is_plain_json_with_the_promised_fields(tmp_path):
    made = run(folder=tmp_path)
    made.quote(floor=np.float32(1), count="3 of 4")
    made.close()
    record = json.loads((tmp_path / "test.json").read_text())
    assert set(record) >= {"notebook", "profile", "data", "seeds", "seconds", "versions"}
    (claim,) = record["claims"]
    assert claim["verdict"] == "reproduced" and claim["diverged"] == 1
    assert claim["anchor"] == "test.html#verdict" and claim["solver_artefact"]
    assert record["values"]["loss"] == [[1.0, None], [0.1234567891, 2.0]]
    assert record["quotes"] == {"floor": 1.0, "count": "3 of 4"}
    assert [path.name for path in tmp_path.iterdir()] == ["test.json"]


def test_record_returns_what_it_keeps():
    values = np.arange(3.0)
    assert run().record("x", values) is values


def test_solver_check_and_divergences_follow_from_solves_and_trainings():
    class Training:
        diverged = np.array([True, False])

    made = run()
    solves = ({"a": [1.0, 3.0]}, {"a": [2.0, 2.0]})
    made.judge("P2", above(LOW, 0.5), ours="", solves=solves, trainings=[Training()] * 2)
    assert made.claims["P2"]["solver_check"] == 0 and made.claims["P2"]["diverged"] == 2


@pytest.fixture
def book(tmp_path, monkeypatch):
    """An empty checkout, and a notebook's place in it."""
    (tmp_path / "book/results").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.delenv("SONODE_RESULTS_DIR", raising=False)
    return tmp_path / "book/results"


@pytest.mark.parametrize("profile", ["quick", "smoke", "custom"])
def test_only_the_papers_settings_may_write_to_the_book(profile, book):
    run(profile).close()
    assert not list(book.iterdir())
    run("paper").close()
    assert (book / "test.json").exists()


def test_the_records_are_found_from_the_working_directory(book, tmp_path_factory, monkeypatch):
    assert report.records_folder() == book
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(FileNotFoundError, match="work inside a checkout of the book"):
        report.records_folder()


def test_networks_kept_for_the_playground_are_saved_with_the_record(tmp_path):
    made = run(folder=tmp_path)
    made.networks["oscillators"] = {"NODE": [[0.5]]}
    made.close()
    assert json.loads((tmp_path / "play/oscillators.json").read_text()) == {"NODE": [[0.5]]}


@pytest.mark.parametrize(
    "data, claim, judged",
    [("real", "B2", True), ("simulated", "P2", True), ("simulated", "B2", False)],
)
def test_only_a_claim_about_real_data_goes_unjudged_without_them(data, claim, judged):
    made = run(data=data)
    made.judge(claim, above(LOW, 0.5), ours="")
    assert (made.claims[claim]["verdict"] != "not judged") == judged


def test_one_stand_in_makes_a_run_simulated(capsys):
    class Real:
        data = "real"

    class Simulated:
        data = "simulated"

    made = run()
    made.use(Real)
    assert made.data == "real" and "SIMULATED" not in capsys.readouterr().out
    made.use(Real, Simulated)
    assert made.data == "simulated" and "SIMULATED" in capsys.readouterr().out


def test_a_claim_is_judged_once_and_must_be_in_the_catalogue():
    with pytest.raises(ValueError, match="already"):
        run().judge("P1", above(LOW, 0.5), ours="")
    with pytest.raises(ValueError, match="catalogue"):
        run().judge("P99", above(LOW, 0.5), ours="")


def test_a_run_that_replaces_its_record_agrees_with_it(book, capsys):
    made = run()
    made.judge("P2", below(LOW, 0.5), ours="")
    capsys.readouterr()
    made.close()
    assert capsys.readouterr().out == "P1 agrees\nP2 agrees\n"


def test_make_reproduce_says_that_its_run_replaces_the_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SONODE_REPLACES", "1")
    run(folder=tmp_path).close()
    assert capsys.readouterr().out.endswith("P1 agrees\n")
    run("custom", folder=tmp_path).close()
    assert capsys.readouterr().out.endswith("P1 not compared: no record\n")


def test_a_run_that_leaves_the_record_is_compared_with_it(book, tmp_path, capsys):
    run().close()
    made = Run("test", "paper", range(10), str(tmp_path / "elsewhere"))
    made.judge("P1", above(LOW + 5, 0.5), ours="")
    made.close()
    assert re.search(r"P1 differs: P1, p = \de-05\n$", capsys.readouterr().out)
    assert json.loads((book / "test.json").read_text())["values"]["P1"] == LOW.tolist()


def test_outside_a_checkout_there_is_no_record_to_compare_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(folder=tmp_path).close()
    assert capsys.readouterr().out.endswith("P1 not compared: no record\n")


def test_every_value_behind_a_verdict_is_recorded_once(tmp_path):
    made = run(folder=tmp_path)
    table = made.record("table", np.stack([LOW, 2 * LOW]))
    parts = {"x": order(table[0], table[1]), "y": below(3 * LOW, 1), "z": exact(1e-9, 1e-8)}
    made.judge("P2", parts, ours="", beside={"w": above(3 * LOW, 1)})
    made.record("later", 4 * LOW)
    made.judge("P3", above(4 * LOW, 1), ours="")
    made.close()
    record = json.loads((tmp_path / "test.json").read_text())
    p1, p2, p3 = record["claims"]
    assert p1["quantities"] == {"": "table[0]"} and p3["quantities"] == {"": "later"}
    expected = {"x a": "table[0]", "x b": "table[1]", "y": "P2 y", "z": "P2 z", "w": "P2 y"}
    assert p2["quantities"] == expected and p2["words"] == {"z": "holds"}
    assert set(record["values"]) == {"loss", "table", "later", "P2 y", "P2 z"}
    assert record["values"]["P2 y"] == (3 * LOW).tolist() and record["values"]["P2 z"] == 1e-9
    assert "w" not in p2["detail"] and p2["parts"] == "2 of 3"


def test_a_recorded_value_does_not_follow_its_array():
    values = LOW.copy()
    made = run()
    made.record("x", values)
    made.judge("P2", below(values, 1), ours="")
    values[:] = 0
    assert made.as_dict()["values"]["x"] == LOW.tolist() and "P2" not in made.values


def test_a_record_says_what_it_ran_with(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    made = Run("test", "paper", range(5, 8), settings={"iterations": 3})
    record = made.as_dict()
    assert record["first_seed"] == 5 and record["settings"] == {"iterations": 3}
    assert record["pins"]["MKL_CBWR"] == "COMPATIBLE"
    assert record["pins"]["ONEDNN_MAX_CPU_ISA"] is None
    assert record["instructions"] and re.match(r"\S.*, \d+ cores", record["machine"])


def test_the_catalogue_holds_every_claim():
    wanted = re.findall(r"\w+", "P8 S2 F3 M3 I3 O2 N2 A3 B3 V3 T2 E1 D4 Q12 X2")
    ids = {f"{w[0]}{i}" for w in wanted for i in range(1, int(w[1:]) + 1)}
    assert set(CATALOGUE) == ids
    fields = {"group", "where", "statement", "rule"}
    assert all(set(entry) - {"real_data"} == fields for entry in CATALOGUE.values())
    measured = {id for id, entry in CATALOGUE.items() if entry.get("real_data")}
    assert measured == {"A1", "A2", "A3", "B1", "B2", "B3", "T1", "T2", "X1", "X2"}


def test_the_scorecard_shows_judged_and_unjudged_claims(tmp_path):
    run(folder=tmp_path).close()
    rows = {row["id"]: row for row in scorecard.scorecard(tmp_path)}
    assert rows["P1"]["verdict"] == "reproduced" and rows["P2"]["verdict"] == "not judged yet"
    assert dict(scorecard.counts(rows.values()))["reproduced"] == 1


def test_the_scorecard_refuses_a_claim_judged_twice(tmp_path):
    run(folder=tmp_path).close()
    (tmp_path / "again.json").write_text((tmp_path / "test.json").read_text())
    with pytest.raises(ValueError, match="twice"):
        scorecard.scorecard(tmp_path)


def test_a_record_with_an_unknown_claim_is_refused(tmp_path):
    run(folder=tmp_path).close()
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text().replace('"P1"', '"P99"'))
    with pytest.raises(ValueError, match=r"no such claims in the catalogue.*P99"):
        scorecard.scorecard(tmp_path)


def test_a_run_shows_its_verdicts_and_every_part():
    made = run()
    made.judge("P2", {"left": below(LOW, 0.5), "right": above(LOW, 0.5)}, ours="")
    html = made.table().data
    assert "<td>left</td><td>contradicted:" in html and "<td>right</td>" in html
    assert "<td>P1</td><td>the whole</td>" in html
    assert "over 1 %, so quoted at 1e-8" in html and html.count("verdict-reproduced") == 1


def test_every_cell_of_a_table_is_escaped():
    html = tables.table_html(["<a>"], [["<script>"], [tables.Html("<b>ours</b>")]])
    assert "<script>" not in html and "&lt;a&gt;" in html and "<b>ours</b>" in html


def test_a_claim_cannot_bring_markup_of_its_own_into_a_table():
    bad = "<script>"
    row = {"id": bad, "statement": bad, "rule": bad, "where": bad, "verdict": bad}
    row |= {"ours": bad, "paper": bad, "parts": bad, "seeds": bad, "diverged": bad}
    row |= {"rejected": bad, "solver_check": None}
    assert bad not in tables.table_html(["a"] * 4, [tables.claim_row(row)])


def test_values_are_told_by_their_extremes_quartiles_and_medians():
    assert tables.span([3, 1, 2]) == "1 to 3"
    assert tables.quartiles([0, 1, 2, 3, 4], ".0f") == "2 (1 to 3)"
    assert tables.medians({"A": [1, 5, 2], "B": [7]}) == "A 2, B 7"


def test_what_the_run_says_is_markdown_without_its_common_indent(capsys):
    report.say("""
        One **seed**
        of ten.
        """)
    assert "Markdown" in capsys.readouterr().out
