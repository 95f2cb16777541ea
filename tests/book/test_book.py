"""The book builds with warnings as errors, and says what the records say."""

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from docutils import nodes

from sonode_utils.evidence import exact, order, scorecard, share
from sonode_utils.evidence.records import write_json
from sonode_utils.evidence.report import Run

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "book/_ext")]
import forest  # noqa: E402
import glossary_links  # noqa: E402
import no_breaks  # noqa: E402
import records  # noqa: E402
import update_readme  # noqa: E402

RESULTS, AXES = ROOT / "book/results", forest.Axes(forest.WIDE)


def test_the_book_builds_without_a_warning(pages):
    assert (pages / "index.html").exists()
    assert (pages / "notebooks/02_parity.html").exists()


def test_the_scorecard_page_counts_what_the_records_hold(pages):
    text = (pages / "book/scorecard.html").read_text()
    rows = scorecard.scorecard(RESULTS)
    for verdict, n in scorecard.counts(rows):
        assert f">{verdict}</span> {n}" in text
    assert all(f'id="claim-{row["id"]}"' in text for row in rows)
    assert ". Beside it, " in text and ".Beside it" not in text
    assert ": </td>" not in text  # a part without a name


def test_links_from_the_scorecard_lead_to_the_claim_and_its_figure(pages):
    text = (pages / "book/scorecard.html").read_text()
    links = set(re.findall(r'href="(\.\./notebooks/\w+\.html|\w+\.html)#([\w-]+)"', text))
    assert len(links) > 60
    for page, anchor in links:
        assert f'id="{anchor}"' in (pages / "book" / page).read_text(), (page, anchor)
    for name in set(re.findall(r'src="\.\./_static/thumbs/([\w-]+\.png)"', text)):
        assert (pages / "_static/thumbs" / name).stat().st_size > 500, name


def test_no_glued_number_is_missing_from_the_pages(pages):
    for page in pages.glob("*/*.html"):
        assert "glue:" not in re.sub(r"<(script|pre).*?</\1>", "", page.read_text(), flags=re.S)


def test_the_readme_shows_the_counts_and_the_picture_of_the_records():
    """Fails when a record changes: run tools/update_readme.py (make reproduce does)."""
    table = update_readme.count_table(scorecard.scorecard(RESULTS))
    assert table in (ROOT / "README.md").read_text()
    stored = update_readme.figure(ROOT / "notebooks/02_parity.ipynb", "fig-parity")
    assert (ROOT / "book/parity.png").read_bytes() == stored


@pytest.fixture
def judged(tmp_path):
    """Records of a notebook and of its confirming run: P1 supported, P2 mixed, Q4 holds."""
    for profile, folder, n in (("paper", tmp_path, 10), ("confirm", tmp_path / "confirm", 50)):
        run = Run("test", profile, range(n), str(folder))
        ones, spread = [1.0] * n, np.linspace(1, 2, n)
        run.judge("P1", share(ones, ">", 0.5), ours="about 1", solver_check=0.02)
        parts = {"a": share(ones, "<", 0.5), "b": order(spread, 3 * spread, "A / B")}
        run.judge("P2", parts, ours="", paper="none reaches it")
        run.judge("Q4", exact(0, 1e-8), ours="zero")
        run.close()
    return tmp_path


def test_the_readme_counts_the_claims_that_got_each_word(judged):
    rows = scorecard.scorecard(judged)
    head, _, line = update_readme.count_table(rows).splitlines()
    found = dict(zip(head.strip("| ").split(" | "), line.strip("|").split(" | ")))
    assert found["supported"].strip() == found["mixed"].strip() == "1"
    numbers = [int(n) for n in line.split("|") if n.strip()]
    assert sum(numbers) == len(rows) == int(head.split()[2])


def test_the_scorecard_has_a_switch_for_every_word(judged):
    html = records.render("scorecard", judged)
    rows = scorecard.scorecard(judged)
    switches = re.findall(r'data-show="([^"]+)".*?(\d+)</button>', html)
    assert dict(switches) == {
        "all": str(len(rows)), "not confirmed yet": str(len(rows) - 5), "supported": "1",
        "mixed": "1", "holds": "1", "shown": "2",
    }  # fmt: skip
    assert 'id="claim-P2" data-verdict="mixed"' in html
    assert "none reaches it" in html and "over 1 %: quoted at 1e-8" in html
    assert 'href="../notebooks/test.html#claim-P1"' in html
    assert html.count("<article") == len(rows)


def test_the_parts_of_a_claim_are_a_bar_with_a_word_and_a_glyph_each(judged):
    html = records.render("scorecard", judged)
    (bar,) = re.findall(r'aria-label="2 parts: 1 for, 1 against">(.*?)</span></span>', html)
    assert "✓&thinsp;1 for" in bar and "✗&thinsp;1 against" in bar
    assert html.count('class="part part-for"') == 3  # of P1, P2 and Q4


def test_the_forest_plot_draws_effects_where_they_are(judged):
    plot = forest.forest(scorecard.scorecard(judged))
    by_id = {line["row"]["id"]: line["marks"] for line in plot["lines"]}
    assert set(by_id) == {"P1", "P2"} and [row["id"] for row in plot["exact"]] == ["Q4"]
    (whole,), (none, third) = by_id["P1"], by_id["P2"]
    assert whole["x"] == AXES.share(1) and none["x"] == AXES.share(0)
    third_place = AXES.left + AXES.ratios * (2 - np.log10(3)) / 4
    assert third["x"] == third["low"] == third["high"] == pytest.approx(third_place, abs=0.1)
    assert len(forest.forest(scorecard.scorecard(judged), ["P2"])["lines"]) == 1
    html = records.render("forest", judged)
    assert html.count("<circle") == 6  # three, once for a wide page and once for a phone
    assert html.count('scorecard.html#claim-P2"') == 2


def test_what_lies_beyond_the_axis_stands_at_its_end():
    assert AXES.ratio(-np.inf) == AXES.ratio(-2) == AXES.left
    assert AXES.ratio(np.inf) == AXES.left + AXES.ratios
    mark = forest.mark(AXES.ratio, 0.0, -np.inf, np.inf, "open", "", by=2)
    assert mark["bar"] == AXES.ratio(-np.log10(2)) < mark["x"]


def test_the_status_page_lists_every_notebook_and_the_sum_of_their_times(judged):
    (record,) = scorecard.load_results(judged)
    for name in ("test", "two"):
        changed = {**record, "notebook": name, "cpu_seconds": 40}
        write_json(judged / f"{name}.json", changed | {"claims": []})
    shutil.rmtree(judged / "confirm")
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


def test_the_intro_counts_every_word(judged):
    text = re.sub("<[^>]+>", "", records.render("counts", judged))
    assert {("supported", "1"), ("mixed", "1"), ("holds", "1")} <= set(
        re.findall(r"(\w+) (\d+)", text)
    )


@pytest.mark.parametrize("name", records.VIEWS)
def test_markup_in_a_record_never_reaches_a_page(name, judged):
    (record,) = scorecard.load_results(judged)
    bad = "<script>alert(1)</script>"
    for claim in record["claims"]:
        claim |= {"ours": bad, "paper": bad, "anchor": bad, "scale": bad, "quoted": bad}
        claim["parts"] = {bad: next(iter(claim["parts"].values()))}
        claim["beside"] = {bad: claim["parts"]}
    fields = ("notebook", "machine", "instructions", "date", "data", "seeds")
    record |= dict.fromkeys(fields, bad)
    record |= {"versions": {bad: bad}, "quotes": {bad: bad}, "settings": {bad: bad}}
    for folder in (judged, judged / "confirm"):
        write_json(folder / "test.json", record)
    old = {"word": bad, "verdict": bad, "parts": bad, "notebook": bad}
    first = {"claims": {c["id"]: old for c in record["claims"]}, "dates": {bad: bad}}
    write_json(judged / "version1.json", first | {"commit": bad})
    for path in judged.glob("[cs]*.json"):  # comparison.json, simulated.json
        path.write_text(re.sub(r': "[^"]*"', f': "{bad}"', path.read_text()))
    assert "<script" not in records.render(name, judged)


@pytest.mark.parametrize(
    "name, own",
    [("02_parity", "2"), ("08b_silverbox_benchmark", "8b"), ("E1_van_der_pol", "E1")],
)
def test_a_chapter_its_figures_and_its_equations_carry_the_papers_number(name, own, pages):
    text = (pages / f"notebooks/{name}.html").read_text()
    assert f'<span class="section-number">{own}. </span>' in text
    assert f'<span class="caption-number">Fig. {own}.1 </span>' in text
    assert f">({own}.1)<" in text


def test_the_first_use_of_a_word_leads_to_the_glossary(pages):
    text, known = (pages / "book/glossary.html").read_text(), glossary_links.words(ROOT)
    for page in (pages / "notebooks").glob("*.html"):
        links = re.findall(r'class="term [^>]*glossary\.html#([\w-]+)"', page.read_text())
        assert len(links) == len(set(links)) > 0, page.name
        assert all(f'id="{anchor}"' in text for anchor in links)
    assert len(known) > 15


def test_a_word_inside_code_or_a_link_or_the_box_is_left_alone():
    seed = nodes.Text("two seeds and a seed")
    kept = [nodes.literal("", "seed"), nodes.reference("", "seed", refuri="x")]
    page = nodes.section("", nodes.paragraph("", "", *kept, seed))
    page += nodes.block_quote("", nodes.paragraph("", "a seed"))
    app = SimpleNamespace(env=SimpleNamespace(docname="notebooks/x"), srcdir=ROOT)
    glossary_links.link_first_uses(app, page)
    links = [node for node in page.findall(nodes.reference) if "term" in node["classes"]]
    assert [link.astext() for link in links] == ["seeds"]
    assert page[0].astext() == "seedseedtwo seeds and a seed"


def test_a_line_breaks_in_no_number_and_before_no_full_stop():
    formula = '<span class="math notranslate nohighlight">x</span>'
    kept = no_breaks.keep_whole(f"<p>within 3e-15, or 5 % of {formula}.</p>")
    number, end = '<span class="whole">3e-15,</span>', f'<span class="whole">{formula}.</span>'
    assert kept == f"<p>within {number} or 5\u00a0% of {end}</p>"
    same = '<pre>1e-8 5 %</pre><script>[1e-8]</script><a title="1e-8">a-1e-8, case-5</a>'
    assert no_breaks.keep_whole(same) == same


def test_the_pages_keep_numbers_whole(pages):
    text = (pages / "notebooks/A_phase_space.html").read_text()
    assert re.search(r'<span class="whole">\de-\d\d\.</span>', text)
    assert re.search(r'<span class="whole"><span class="math [^>]*>[^<]*</span>\.</span>', text)
