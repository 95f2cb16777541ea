"""The book builds with warnings as errors, and says what the records say."""

import re
import sys
from pathlib import Path

import pytest

from sonode_utils.evidence import above, below, scorecard
from sonode_utils.evidence.report import Run, write_json

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "book/_ext")]
import records  # noqa: E402
import update_readme  # noqa: E402

RESULTS = ROOT / "book/results"


def test_the_book_builds_without_a_warning(pages):
    assert (pages / "index.html").exists()
    assert (pages / "notebooks/02_parity.html").exists()


def test_the_scorecard_page_counts_what_the_records_hold(pages):
    text = (pages / "book/scorecard.html").read_text()
    rows = scorecard.scorecard(RESULTS)
    for verdict, n in scorecard.counts(rows):
        assert f">{verdict}</span> {n}" in text
    assert all(f"<b>{row['id']}</b>" in text for row in rows)


def test_links_from_the_scorecard_lead_to_a_heading(pages):
    text = (pages / "book/scorecard.html").read_text()
    for page, anchor in set(re.findall(r'href="\.\./notebooks/(\w+\.html)#(\w+)"', text)):
        assert f'id="{anchor}"' in (pages / "notebooks" / page).read_text()


def test_no_glued_number_is_missing_from_the_pages(pages):
    for page in pages.glob("*/*.html"):
        assert "glue:" not in re.sub(r"<(script|pre).*?</\1>", "", page.read_text(), flags=re.S)


def test_the_readme_shows_the_verdicts_and_the_picture_of_the_records():
    """Fails when a record changes: run tools/update_readme.py (make reproduce does)."""
    table = update_readme.verdict_table(scorecard.scorecard(RESULTS))
    assert table in (ROOT / "README.md").read_text()
    stored = update_readme.figure(ROOT / "notebooks/02_parity.ipynb", "fig-parity")
    assert (ROOT / "book/parity.png").read_bytes() == stored


@pytest.fixture
def judged(tmp_path):
    """A folder with one record: one claim reproduced, one partly."""
    run = Run("test", "paper", range(10), str(tmp_path))
    run.judge("P1", above([1.0] * 10, 0.5), ours="about 1", solver_check=0.02)
    parts = {"a": below([1.0] * 10, 0.5), "b": above([1.0] * 10, 0.5)}
    run.judge("P2", parts, ours="", paper="none reaches it")
    run.close()
    return tmp_path


def test_the_readme_table_says_the_verdict_and_the_parts(judged):
    lines = update_readme.verdict_table(scorecard.scorecard(judged)).splitlines()
    assert [line.split(":")[0] for line in lines[2:]] == ["| P1", "| P2"]
    assert lines[2].endswith("| **reproduced** |")
    assert lines[3].endswith("| **partly**, 1 of 2 |")


def test_the_scorecard_has_a_switch_for_every_verdict(judged):
    html = records.render("scorecard", judged)
    rows = scorecard.scorecard(judged)
    switches = re.findall(r'data-show="([^"]+)".*?(\d+)</button>', html)
    assert dict(switches) == {
        "all": str(len(rows)), "not judged yet": str(len(rows) - 2), "reproduced": "1",
        "partly": "1",
    }  # fmt: skip
    assert 'id="claim-P2" data-verdict="partly"' in html
    assert "none reaches it" in html and "over 1 %, so quoted at 1e-8" in html
    assert 'href="../notebooks/test.html#verdict"' in html and html.count("<tr id=") == len(
        rows
    )


def test_the_status_page_lists_every_notebook_and_the_sum_of_their_times(judged):
    (record,) = scorecard.load_results(judged)
    for name in ("test", "two"):
        changed = {**record, "notebook": name, "cpu_seconds": 40}
        write_json(judged / f"{name}.json", changed | {"claims": []})
    html = records.render("status", judged)
    assert "<td>test</td>" in html and "<td>two</td>" in html and "1 min 20 s" in html
    assert html.count("<td>a</td>") == 2 and html.count("a: ") == html.count("torch ") == 1


def test_the_comparison_shows_which_faults_it_sees_and_where_it_is_quiet(judged):
    assert "<tr>" not in records.render("comparison", judged)  # nothing is stored yet
    seen = {"notebook": "02_parity", "fault": "ten times", "compared": 8}
    teeth = [seen | {"differ": ["P4 differs: NODE.train_mse[2], p = 2e-05", "P5 differs"]}]
    quiet = [{"run": "AVX2", "changed": 7, "seeds": 10, "line": "P1 agrees"}]
    write_json(judged / "comparison.json", {"teeth": teeth, "quiet": quiet})
    html = records.render("comparison", judged)
    assert "<td>ten times</td><td>2 of 8</td><td>P4 differs: NODE" in html
    assert "<td>AVX2</td><td>7 of 10</td><td>P1 agrees</td>" in html
    assert len(scorecard.load_results(judged)) == 1  # it is no record of a notebook


def test_the_intro_counts_every_verdict(judged):
    text = re.sub("<[^>]+>", "", records.render("counts", judged))
    assert re.findall(r"(\w+) (\d+)", text)[1:] == [("reproduced", "1"), ("partly", "1")]


@pytest.mark.parametrize("name", records.VIEWS)
def test_markup_in_a_record_never_reaches_a_page(name, judged):
    (record,) = scorecard.load_results(judged)
    bad = "<script>alert(1)</script>"
    for claim in record["claims"]:
        claim |= {"ours": bad, "paper": bad, "anchor": bad, "verdict": bad, "parts": bad}
    record |= {"notebook": bad, "machine": bad, "date": bad, "data": bad}
    write_json(judged / "test.json", record)
    assert "<script" not in records.render(name, judged)
