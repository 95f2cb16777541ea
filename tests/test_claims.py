"""The verdict rules on made-up values whose verdict is known, both ways."""

import json
import re

import numpy as np
import pytest

from sonode_utils import claims, scorecard, tables
from sonode_utils.claims import Part, above, below, combine, exact, order, within

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
    assert order(LOW, LOW[::-1]) == order(LOW, LOW[::-1])


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
    assert within(values, -0.1, 0.1).verdict == verdict


def test_a_value_on_the_limit_is_on_no_side():
    on = [0.1] * 3
    parts = below(on, 0.1), above(on, 0.1), within(on, 0.1, 1), within(on, 0, 0.1)
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
    assert combine([Part(words[v], "") for v in verdicts]) == combined


def report(profile="paper", **options):
    made = claims.Report("test", profile=profile, seeds=10, **options)
    made.judge("P1", above(LOW, 0.5), ours="about 1", solver_check=0.02, diverged=1)
    made.record("loss", [[1.0, np.inf], [0.1234567891, 2.0]])
    return made


def test_a_record_is_plain_json_with_the_promised_fields(tmp_path):
    report().save(tmp_path)
    record = json.loads((tmp_path / "test.json").read_text())
    assert set(record) >= {"notebook", "profile", "data", "seeds", "seconds", "versions"}
    (claim,) = record["claims"]
    assert claim["verdict"] == "reproduced" and claim["diverged"] == 1
    assert claim["anchor"] == "test.html#verdict" and claim["solver_artefact"]
    assert record["values"]["loss"] == [[1.0, None], [0.123457, 2.0]]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("profile", ["fast", "custom"])
def test_only_the_papers_settings_may_write_to_the_book(profile, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(claims, "RESULTS", tmp_path)
    monkeypatch.delenv("SONODE_RESULTS_DIR", raising=False)
    report(profile).save()
    assert not list(tmp_path.iterdir()) and "not saved" in capsys.readouterr().out
    report("paper").save()
    assert (tmp_path / "test.json").exists()


def test_networks_kept_for_the_playground_are_saved_with_the_record(tmp_path):
    made = report()
    made.keep("oscillators", {"NODE": [[0.5]]})
    made.save(tmp_path)
    assert json.loads((tmp_path / "play/oscillators.json").read_text()) == {"NODE": [[0.5]]}


def test_a_claim_about_real_data_is_not_judged_on_a_stand_in():
    made = report(data="simulated")
    made.judge("B2", above(LOW, 0.5), ours="", needs_real_data=True)
    assert made.claims["B2"]["verdict"] == "not judged"


def test_a_claim_is_judged_once_and_must_be_in_the_catalogue():
    with pytest.raises(ValueError, match="already"):
        report().judge("P1", above(LOW, 0.5), ours="")
    with pytest.raises(KeyError, match="catalogue"):
        report().judge("P99", above(LOW, 0.5), ours="")


def test_the_checked_cell_prints_ids_and_words_only(capsys):
    made = report()
    made.judge("P2", below(LOW, 0.5), ours="", fragile=True)
    capsys.readouterr()
    made.verdicts()
    assert capsys.readouterr().out == "P1 reproduced\nP2 fragile\n"


@pytest.mark.parametrize(
    "data, needed, judged",
    [("real", True, True), ("simulated", False, True), ("simulated", True, False)],
)
def test_only_a_claim_about_real_data_goes_unjudged_without_them(data, needed, judged):
    made = claims.Report("test", profile="paper", seeds=10, data=data)
    made.judge("B1", above(LOW, 0.5), ours="", needs_real_data=needed)
    assert (made.claims["B1"]["verdict"] != "not judged") == judged


def test_the_catalogue_holds_every_claim():
    wanted = re.findall(r"\w+", "P8 S2 F3 M3 I3 O2 N2 A3 B3 V3 T2 E1 D4 Q12 X2")
    ids = {f"{w[0]}{i}" for w in wanted for i in range(1, int(w[1:]) + 1)}
    assert set(claims.CATALOGUE) == ids
    fields = {"group", "where", "statement", "rule"}
    assert all(set(entry) == fields for entry in claims.CATALOGUE.values())


def test_the_scorecard_shows_judged_and_unjudged_claims(tmp_path):
    report().save(tmp_path)
    rows = {row["id"]: row for row in scorecard.scorecard(tmp_path)}
    assert rows["P1"]["verdict"] == "reproduced" and rows["P2"]["verdict"] == "not judged yet"
    assert dict(scorecard.counts(rows.values()))["reproduced"] == 1
    html = tables.table_html(rows.values(), link="../")
    assert html.count("<tr ") == len(rows) and 'href="../test.html#verdict"' in html
    assert "over 1 %, so quoted at 1e-8" in html


def test_the_scorecard_has_a_switch_for_every_verdict_and_for_fragile_claims(tmp_path):
    made = report()
    made.judge("P2", below(LOW, 0.5), ours="", fragile=True, paper="none reaches it")
    made.save(tmp_path)
    rows = scorecard.scorecard(tmp_path)
    switches = re.findall(r'data-show="([^"]+)".*?(\d+)</button>', scorecard.filters_html(rows))
    unjudged = str(len(rows) - 2)
    assert dict(switches) == {
        "all": str(len(rows)), "not judged yet": unjudged, "reproduced": "1",
        "contradicted": "1", "fragile": "1",
    }  # fmt: skip
    html = tables.table_html(rows)
    assert 'id="claim-P2" data-verdict="contradicted" data-fragile' in html
    assert "none reaches it" in html


def test_the_status_page_lists_every_notebook_and_the_sum_of_their_times(tmp_path):
    for name in ("one", "two"):
        made = report()
        made.notebook = name
        record = {**made.as_dict(), "cpu_seconds": 40, "claims": []}
        claims.write_json(tmp_path / f"{name}.json", record)
    html = scorecard.status_html(scorecard.load_results(tmp_path))
    assert "<td>one</td>" in html and "<td>two</td>" in html and "1 min 20 s" in html
    assert html.count("<td>a</td>") == 2 and html.count("a: ") == html.count("torch ") == 1


def test_the_scorecard_refuses_a_claim_judged_twice(tmp_path):
    report().save(tmp_path)
    (tmp_path / "again.json").write_text((tmp_path / "test.json").read_text())
    with pytest.raises(ValueError, match="twice"):
        scorecard.scorecard(tmp_path)


def test_a_claim_that_turned_with_fresh_seeds_is_fragile_on_the_scorecard(tmp_path):
    made = claims.Report("x", profile="paper", seeds=10)
    made.judge("P1", below(LOW, 0.5), ours="")
    made.judge("P2", below(LOW, 0.5), ours="")
    made.save(tmp_path)
    verdict = made.claims["P1"]["verdict"]
    again = {"1000": {"date": "", "verdicts": {"P1": verdict, "P2": "inconclusive"}}}
    claims.write_json(tmp_path / "fresh/x.json", again)
    rows = {row["id"]: row for row in scorecard.scorecard(tmp_path)}
    assert not rows["P1"]["fragile"] and rows["P2"]["fragile"]
    html = tables.table_html([rows["P1"], rows["P2"]])
    assert "with seeds from 1000 on: the same" in html and "on: inconclusive" in html
    status = scorecard.again_html(list(rows.values()))
    assert "<td>seeds from 1000 on</td><td>2</td>" in status
    assert f"P2 ({verdict}, then inconclusive)" in status and "P1 (" not in status


def test_the_readme_table_says_the_verdict_the_parts_and_what_is_fragile(tmp_path):
    made = report()
    parts = {"a": below(LOW, 0.5), "b": above(LOW, 0.5)}
    made.judge("P2", parts, ours="", fragile=True)
    made.save(tmp_path)
    lines = scorecard.readme_table(scorecard.scorecard(tmp_path)).splitlines()
    assert [line.split(":")[0] for line in lines[2:]] == ["| P1", "| P2"]
    assert lines[2].endswith("| **reproduced** |")
    assert lines[3].endswith("| **partly** (fragile), 1 of 2 |")


def test_a_record_with_an_unknown_claim_is_refused(tmp_path):
    report().save(tmp_path)
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text().replace('"P1"', '"P99"'))
    with pytest.raises(ValueError, match=r"no such claims in the catalogue.*P99"):
        scorecard.scorecard(tmp_path)


def test_a_report_shows_its_verdicts_and_every_part(tmp_path):
    made = report()
    made.judge("P2", {"left": below(LOW, 0.5), "right": above(LOW, 0.5)}, ours="")
    assert made.table().data.count("<tr ") == 2
    details = made.details().data
    assert "<td>left</td><td>contradicted:" in details and "<td>right</td>" in details
    assert "<td>P1</td><td>the whole</td>" in details


def test_the_intro_counts_every_verdict():
    rows = [{"verdict": "partly"}, {"verdict": "partly"}, {"verdict": "reproduced"}]
    text = re.sub("<[^>]+>", "", scorecard.counts_html(rows))
    assert re.findall(r"(\w+) (\d)", text) == [("partly", "2"), ("reproduced", "1")]


def test_a_duration_is_said_in_the_unit_that_reads_well():
    said = [tables.duration(s) for s in (0.4, 59.6, 120, 121, 3600, 7200, 7201, 86400)]
    assert said == ["0 s", "60 s", "120 s", "2 min", "60 min", "120 min", "2 h", "24 h"]
