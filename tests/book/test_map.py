"""The map has every part of the paper, and each of its links leads to something."""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from sonode_utils.evidence.report import CATALOGUE

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "book/_ext")]
import paper_labels  # noqa: E402
import paper_map  # noqa: E402
import records  # noqa: E402

SOURCE = ROOT.parent / "shared/paper/paper.tex"  # beside a checkout, as .ci/run has the data
PAPER = json.loads((ROOT / "book/paper.json").read_text("utf8"))
OURS = {"X1", "X2"}  # claims that the paper does not make
UNTREATED = {"Broader Impact"}


@pytest.fixture(scope="module")
def lines():
    return paper_map.paper_map(*records.judged(ROOT / "book/results"), None, ())["lines"]


@pytest.fixture(scope="module")
def page(pages):
    return (pages / "book/map.html").read_text("utf8")


def numbers(*kinds):
    return [part.get("number", "") for part in PAPER if part["kind"] in kinds]


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not beside the checkout")
def test_the_stored_numbers_are_those_of_the_papers_source():
    """Fails when the script changes: run tools/paper_labels.py."""
    assert paper_labels.entries(SOURCE.read_text("utf8")) == PAPER


def test_numbers_are_counted_as_latex_does():
    tex = r"""
    \section{One} \begin{equation}\label{a}\end{equation} \section*{Aside}
    % \begin{equation}\end{equation}
    \subsection{Deep} \label{deep} \begin{proposition} \begin{equation}\label{b}\end{equation}
    \end{proposition} \begin{corollary}\end{corollary} \begin{lemma}\label{c}\end{lemma}
    \begin{wrapfigure}\caption{A curve of ours and $x$}\end{wrapfigure}
    \section{Two} \begin{lemma}\end{lemma} \begin{corollary}\end{corollary}
    \appendix \section{Three} \subsection{Deeper} \begin{lemma}\end{lemma}
    \begin{equation}\end{equation} \begin{figure}\end{figure}"""
    found = [(part["kind"], part.get("number", "")) for part in paper_labels.entries(tex)]
    assert found == [
        ("section", "1"), ("equation", "1"), ("section", ""), ("section", "1.1"),
        ("proposition", "1.1"), ("equation", "2"), ("corollary", "1.1.1"), ("lemma", "1.2"),
        ("figure", "1"), ("section", "2"), ("lemma", "2.1"), ("corollary", "2.1.1"),
        ("section", "A"), ("section", "A.1"), ("lemma", "A.1"), ("equation", "3"),
        ("figure", "2"),
    ]  # fmt: skip
    by_number = {(p["kind"], p.get("number")): p for p in paper_labels.entries(tex)}
    assert by_number["section", "1.1"]["label"] == "deep"
    assert "label" not in by_number["proposition", "1.1"]
    assert by_number["figure", "1"]["title"] == "A curve of ours"


def test_every_part_of_the_paper_is_counted():
    assert numbers("figure") == [str(n) for n in range(1, 16)]
    assert numbers("table") == ["1"]
    assert numbers("equation") == [str(n) for n in range(1, 119)]  # 1 to 13 in the main text
    statements = "3.1 3.2 4.1 4.2 5.1 5.1.1 5.2 5.3 A.1"
    assert numbers(*paper_map.STATEMENTS) == statements.split()
    sections = "1 2 3 4 4.1 4.1.1 5 5.1 5.2 5.3 5.4 6 6.1 6.2 7 8 A B B.1 B.2 B.3 C D D.1 D.2"
    sections += " E E.1 E.2 E.3 E.4"
    assert [number for number in numbers("section") if number] == sections.split()
    order = [(part["kind"], part.get("number")) for part in PAPER]
    assert order.index(("equation", "13")) < order.index(("section", "A"))
    assert order.index(("section", "B.1")) < order.index(("equation", "14"))


def test_every_part_has_a_place_and_every_place_a_part(lines):
    assert {line["key"] for line in lines if not line["places"]} == UNTREATED
    assert all(line["says"] and (line["places"] or line["why"]) for line in lines)
    known = {(part["kind"], part.get("number") or part["title"]) for part in PAPER}
    places = paper_map.tomllib.loads((ROOT / "book/places.toml").read_text("utf8"))
    assert paper_map.expand(places).keys() == known


def test_the_main_text_has_a_line_per_equation_and_only_derivations_are_joined(lines):
    names = [line["name"] for line in lines]
    assert [f"Eq. {n}" for n in range(1, 14)] == [n for n in names if re.match(r"Eq\.", n)][:13]
    spans = [[int(n) for n in re.findall(r"\d+", name)] for name in names if "Eq" in name]
    ends = [(span[0], span[-1]) for span in spans]
    assert all(b + 1 == a for (_, b), (a, _) in zip(ends, ends[1:])) and ends[-1][1] == 118


def test_every_claim_of_the_paper_is_on_the_map(lines):
    carried = Counter(row["id"] for line in lines for row in line["claims"])
    assert carried.keys() == CATALOGUE.keys() - OURS


def test_links_of_the_map_lead_to_something_that_exists(pages, page):
    body = re.search(r'<nav class="jumps".*?</ol>', page, re.S)[0]
    links = set(re.findall(r'href="([^"#]*)#?([^"]*)"', body))
    assert len(links) > 120
    for target, anchor in sorted(links):
        text = (pages / "book" / target).read_text("utf8") if target else page
        assert not anchor or f'id="{anchor}"' in text, (target, anchor)


def test_figure_nine_and_equation_eleven_are_one_click_from_the_top(page, lines):
    top = re.search(r'<nav class="jumps".*?</nav>', page, re.S)[0]
    assert re.search(r'href="[^"]*/08_real_systems\.html#fig-real-f16"[^>]*>9</a>', top)
    assert re.search(r'href="\.\./notebooks/04_[^"]*"[^>]*>11</a>', top)
    equations = sum(line["kind"] == "equation" for line in lines)
    counts = {"Equations": equations, "Figures": 15, "Table": 1, "Statements": 9}
    for kind, n in counts.items():
        assert re.search(rf"<b>{kind}.*?</p>", top, re.S)[0].count("<a ") == n, kind


def test_a_part_without_a_place_stops_the_build(tmp_path, monkeypatch):
    (tmp_path / "places.toml").write_text("[section]\n")
    (tmp_path / "paper.json").write_text('[{"kind": "equation", "number": "1"}]')
    monkeypatch.setattr(paper_map, "BOOK", tmp_path)
    with pytest.raises(KeyError):
        paper_map.paper_map([], [], None, ())
