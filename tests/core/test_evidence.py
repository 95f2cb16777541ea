"""A notebook's run: what it keeps, prints, compares and shows; and the scorecard's data."""

import json
import re

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from sonode_utils.evidence import records, report, scorecard, tables
from sonode_utils.evidence.__main__ import main
from sonode_utils.evidence.report import CATALOGUE, Run
from sonode_utils.evidence.rules import exact, order, share, solver_change
from sonode_utils.evidence.verdicts import judge_claim

LOW = np.array([1.0, 1.2, 0.9, 1.1, 1.05, 0.95, 1.0, 1.15, 0.9, 1.0])


def run(profile="paper", folder="", data="synthetic"):
    made = Run("test", profile, range(10), str(folder))
    made.data = data
    made.judge("P1", share(LOW, ">", 0.5), ours="about 1", solver_check=0.02, diverged=1)
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
    assert claim["ours"] == "about 1" and claim["diverged"] == 1
    assert claim["anchor"] == "test.html#claim-P1" and claim["solver_artefact"]
    options = {"condition": ">", "limit": 0.5}
    assert claim["parts"] == {"": {"rule": "share", "rows": {"": "P1"}, "options": options}}
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
    made.judge("P2", share(LOW, ">", 0.5), ours="", solves=solves, trainings=[Training()] * 2)
    assert made.claims["P2"]["solver_check"] == 0 and made.claims["P2"]["diverged"] == 2


@pytest.fixture
def book(tmp_path, monkeypatch):
    """An empty checkout, and a notebook's place in it."""
    (tmp_path / "book/results").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.delenv("SONODE_RESULTS_DIR", raising=False)
    return tmp_path / "book/results"


@pytest.mark.parametrize("profile", ["paper", "quick", "custom"])
def test_a_run_that_is_given_no_folder_writes_nothing(profile, book):
    run(profile).close()
    assert not list(book.rglob("*.json"))


def test_a_folder_that_cannot_be_written_is_named_before_any_computing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"results_dir = '.*file/x': nothing can be written"):
        Run("test", "paper", range(10), str(tmp_path / "file/x"))
    monkeypatch.setenv("SONODE_RESULTS_DIR", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"SONODE_RESULTS_DIR = .*Name another folder"):
        Run("test", "paper", range(10))


@pytest.mark.parametrize("name", ["test.json", "confirm/test.json"])
def test_a_damaged_record_is_named_before_any_computing(name, book):
    (book / "confirm").mkdir()
    (book / name).write_text('{"claims": [')
    with pytest.raises(ValueError, match=r"test\.json is damaged .*git checkout -- "):
        Run("test", "paper", range(10))


def test_a_run_on_stand_ins_that_would_replace_a_real_record_stops_when_it_loads_them(
    book, monkeypatch
):
    class Simulated:
        data = "simulated"

    (book / "test.json").write_text('{"data": "real"}')
    run().use(Simulated)  # a reader may look at the chapter without the data
    monkeypatch.setenv("SONODE_REPLACES", "1")
    with pytest.raises(RuntimeError, match=r"cannot replace the stored.*SONODE_DATA_DIR"):
        run().use(Simulated)


@pytest.mark.parametrize(
    "old, new, why",
    [
        (None, ("paper", "simulated"), ""),
        ("real", ("paper", "real"), ""),
        ("simulated", ("paper", "real"), ""),
        ("synthetic", ("confirm", "synthetic"), ""),
        ("real", ("paper", "simulated"), "it ran on stand-ins"),
        (None, ("quick", "real"), "it ran with the profile quick"),
        ("simulated", ("custom", "real"), "it ran with the profile custom"),
    ],
)
def test_a_record_is_replaced_only_by_a_better_one(old, new, why):
    found = records.worse(old and {"data": old}, dict(zip(("profile", "data"), new)))
    assert found.startswith(why) and bool(found) == bool(why)


def test_the_records_are_found_from_the_working_directory(book, tmp_path_factory, monkeypatch):
    assert records.records_folder() == book
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(FileNotFoundError, match="work inside a checkout of the book"):
        records.records_folder()


def test_networks_kept_for_the_playground_are_saved_with_the_record(tmp_path):
    made = run(folder=tmp_path)
    made.networks["oscillators"] = {"NODE": [[0.5]]}
    made.close()
    assert json.loads((tmp_path / "play/test.json").read_text()) == made.networks


@pytest.mark.parametrize(
    "data, claim, judged",
    [("real", "B2", True), ("simulated", "P2", True), ("simulated", "B2", False)],
)
def test_only_a_claim_about_real_data_goes_unjudged_without_them(data, claim, judged):
    made = run(data=data)
    made.judge(claim, share(LOW, ">", 0.5), ours="")
    record = made.as_dict()
    words = {c["id"]: judge_claim(record, c)["word"] for c in record["claims"]}
    assert (words[claim] != "not judged") == judged


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
        run().judge("P1", share(LOW, ">", 0.5), ours="")
    with pytest.raises(ValueError, match="catalogue"):
        run().judge("P99", share(LOW, ">", 0.5), ours="")


def test_a_run_that_replaces_its_record_agrees_with_it(book, monkeypatch, capsys):
    monkeypatch.setenv("SONODE_REPLACES", "1")
    made = run()
    made.judge("P2", share(LOW, "<", 0.5), ours="")
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
    run(folder=book).close()
    made = Run("test", "paper", range(10), str(tmp_path / "elsewhere"))
    made.judge("P1", share(LOW + 5, ">", 0.5), ours="")
    made.close()
    assert re.search(r"P1 differs: the whole, p = \de-05\n$", capsys.readouterr().out)
    assert json.loads((book / "test.json").read_text())["values"]["P1"] == LOW.tolist()


def test_outside_a_checkout_there_is_no_record_to_compare_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(folder=tmp_path).close()
    assert capsys.readouterr().out.endswith("P1 not compared: no record\n")


def test_every_value_behind_a_verdict_is_recorded_once(tmp_path):
    made = run(folder=tmp_path)
    table = made.record("table", np.stack([LOW, 2 * LOW]))
    parts = {"x": order(table[0], table[1], "A / B"), "y": share(3 * LOW, "<", 1)}
    beside = {"test": {"x": share(3 * LOW, ">", 1)}}
    made.judge("P2", parts | {"z": exact(1e-9, 1e-8)}, ours="", beside=beside)
    made.record("later", 4 * LOW)
    made.judge("P3", share(4 * LOW, ">", 1), ours="")
    made.close()
    record = json.loads((tmp_path / "test.json").read_text())
    p1, p2, p3 = ({n: p["rows"] for n, p in c["parts"].items()} for c in record["claims"])
    assert p1 == {"": {"": "table[0]"}} and p3 == {"": {"": "later"}}
    assert p2 == {"x": {"a": "table[0]", "b": "table[1]"}, "y": {"": "P2 y"}, "z": {"": "P2 z"}}
    assert record["claims"][1]["beside"]["test"]["x"]["rows"] == {"": "P2 y"}
    assert set(record["values"]) == {"loss", "table", "later", "P2 y", "P2 z"}
    assert record["values"]["P2 y"] == (3 * LOW).tolist() and record["values"]["P2 z"] == 1e-9


def test_a_record_is_judged_as_its_run_was(capsys):
    made = run()
    parts = {"x": order(LOW, 3 * LOW, "A / B"), "y": order(LOW, 2 * LOW, "A / B")}
    made.judge("P2", parts, ours="", beside={"test": {"x": order(LOW, LOW / 2, "A / B")}})
    assert "P2: A / B 0.41 (0.41 to 0.41)" in capsys.readouterr().out
    record = json.loads(json.dumps(made.as_dict()))
    judged = judge_claim(record, record["claims"][1])
    assert judged["word"] == "supported" and judged["beside"]["test"]["word"] == "contradicted"
    assert judged["replication"] == 1 and not judged["fragile"]


def test_a_run_far_below_the_papers_budget_gets_no_word():
    made = run()
    made.judge("P2", share(LOW, ">", 0.5), ours="", scale="3 of 120 epochs")
    record = made.as_dict()
    judged = judge_claim(record, record["claims"][1])
    assert judged["word"] == "not tested at scale" and judged["replication"] is None
    assert judged["parts"][""]["word"] == "for"  # the effect is shown


def test_a_recorded_value_does_not_follow_its_array():
    values = LOW.copy()
    made = run()
    made.record("x", values)
    made.judge("P2", share(values, "<", 1), ours="")
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
    wanted = re.findall(r"\w+", "P9 S2 F3 M3 I3 O2 N3 A3 B3 V3 T2 E1 D6 G2 H1 Q12 X2")
    ids = {f"{w[0]}{i}" for w in wanted for i in range(1, int(w[1:]) + 1)}
    assert set(CATALOGUE) == ids
    fields = {"group", "where", "statement", "rule"}
    assert all(set(entry) >= fields for entry in CATALOGUE.values())
    measured = {id for id, entry in CATALOGUE.items() if entry.get("real_data")}
    assert measured == {"A1", "A2", "A3", "B1", "B2", "B3", "T1", "T2", "X1", "X2"}


def test_the_word_of_a_claim_comes_from_the_confirming_run_and_that_of_theory_does_not(
    tmp_path,
):
    made = run(folder=tmp_path)
    made.judge("Q4", exact(0, 1e-8), ours="")
    made.close()
    rows = {row["id"]: row for row in scorecard.scorecard(tmp_path)}
    assert rows["P1"]["word"] == "not confirmed yet" and rows["Q4"]["word"] == "holds"
    confirming = Run("test", "confirm", range(50), str(tmp_path / "confirm"))
    confirming.judge("P1", share(np.ones(50), ">", 2), ours="at 1")
    confirming.judge("Q4", exact(1, 1e-8), ours="")
    confirming.close()
    rows = {row["id"]: row for row in scorecard.scorecard(tmp_path)}
    assert rows["P1"]["word"] == "contradicted" and rows["P1"]["ours"] == "at 1"
    assert rows["Q4"]["word"] == "holds" and rows["G2"]["word"] == "shown"
    assert dict(scorecard.counts(rows.values()))["contradicted"] == 1


def test_the_word_of_version_1_stands_beside_with_its_date(tmp_path):
    claim = {"notebook": "test", "verdict": "reproduced", "parts": "1 of 1"}
    first = {"claims": {"P1": claim}, "dates": {"test": "2026-11-17"}}
    (tmp_path / "version1.json").write_text(json.dumps(first))
    for high, same in ((0.5, True), (2, False)):
        made = Run("test", "confirm", range(50), str(tmp_path / "confirm"))
        made.judge("P1", share(np.ones(50), ">", high), ours="")
        made.close()
        row = next(row for row in scorecard.scorecard(tmp_path) if row["id"] == "P1")
        assert row["before"]["date"] == "2026-11-17" and row["same"] == same


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


def test_a_run_shows_its_effects_and_the_confirming_runs_words(book):
    made = run()
    made.judge("P2", {"left": share(LOW, "<", 0.5), "right": share(LOW, ">", 0.5)}, ours="")
    made.judge("Q4", exact(0, 1e-8), ours="")
    html = made.table().data
    assert "<td>left</td><td>0 of 10 seeds" in html and "<td>against</td>" in html
    assert "<td>P1</td><td>the whole</td>" in html and '<tr id="claim-P1">' in html
    assert "over 1 %: quoted at 1e-8" in html and html.count("not confirmed yet") == 2
    assert html.count("verdict-holds") == 1
    confirming = Run("test", "confirm", range(50), str(book / "confirm"))
    confirming.judge("P1", share(np.arange(50.0), "<", 44.5), ours="")
    confirming.close()
    made.confirming = run().confirming
    html = made.table().data
    assert html.count("not confirmed yet") == 1 and "verdict-supported" in html
    assert re.search(r"fragile: same word in \d\d% of resamples", html)


def test_every_cell_of_a_table_is_escaped():
    html = tables.table_html(["<a>"], [["<script>"], [tables.Html("<b>ours</b>")]])
    assert "<script>" not in html and "&lt;a&gt;" in html and "<b>ours</b>" in html


def test_a_claim_cannot_bring_markup_of_its_own_into_a_table():
    bad = "<script>"
    row = {"id": bad, "statement": bad, "rule": bad, "where": bad, "scale": bad}
    row |= {"ours": bad, "paper": bad, "seeds": bad, "diverged": bad, "quoted": bad}
    row |= {"rejected": bad, "solver_check": 1.0, "solver_artefact": True}
    judged = {"word": bad, "counts": {bad: bad}, "replication": None}
    row |= {"now": judged, "confirmed": judged}
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


def test_every_word_is_printed_from_the_records_alone(book, capsys):
    confirming = Run("test", "confirm", range(50), str(book / "confirm"))
    parts = {"left": share(np.arange(50.0), "<", 44.5), "right": share(np.ones(50), ">", 0)}
    confirming.judge("P1", parts, ours="", beside={"test loss": {"left": parts["right"]}})
    confirming.close()
    capsys.readouterr()
    assert main([]) == 0
    said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"P1  supported +\d\d% fragile +2 parts: 2 for  \[new\]", said[0])
    assert len(said) == len(CATALOGUE) + 1 and "supported 1" in said[-1]
    assert main(["P1"]) == 0
    assert "for       test loss, left: 50 of 50 seeds" in capsys.readouterr().out
    assert main(["P99"]) == 1 and "no such claim: P99" in capsys.readouterr().out


def test_a_later_cell_fills_the_place_that_an_earlier_one_kept():
    cells = [
        "from sonode_utils.evidence import later\nplace = later()",
        "from IPython.display import HTML\nplace.update(HTML('<b>filled</b>'))",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    NotebookClient(notebook, kernel_name="python3").execute()
    first, second = (cell.outputs for cell in notebook.cells)
    assert first[0].data["text/html"] == "<b>filled</b>" and not second
