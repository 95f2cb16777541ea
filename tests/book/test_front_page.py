"""The front page says where the paper is, and borrows a figure that a notebook stored."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book/_ext"))
import interactive  # noqa: E402

PARITY = ROOT / "notebooks/02_parity.ipynb"
SOURCES = (
    "https://papers.nips.cc/paper_files/paper/2020/hash/418db2ea5d227a9ea8db8e5357ca2084-Abstract.html",
    "https://arxiv.org/abs/2006.07220",
    "https://github.com/a-norcliffe/sonode",
    "https://www.nonlinearbenchmark.org/benchmarks/silverbox",
    "https://www.nonlinearbenchmark.org/benchmarks/f-16-gvt",
    "https://github.com/cvdfoundation/mnist",
    "#cite-this-book",
    "report.html#how-to-cite",
)


@pytest.fixture(scope="module")
def front(pages):
    return (pages / "book/intro.html").read_text("utf8")


@pytest.mark.parametrize("address", SOURCES)
def test_the_front_page_links_to_the_paper_its_code_its_data_and_how_to_cite(address, front):
    assert f'href="{address}"' in front


def test_the_front_page_names_the_paper_and_what_to_cite(front, pages):
    assert "<em>On Second Order Behaviour in Augmented Neural ODEs</em>" in front
    assert 'id="cite-this-book"' in front and "date-released" in front
    assert 'id="how-to-cite"' in (pages / "book/report.html").read_text("utf8")


def test_the_three_buttons_lead_to_pages_of_the_book(front, pages):
    (buttons,) = re.findall(r'<div class="buttons[^>]*>(.*?)</div>', front, re.S)
    links = re.findall(r'href="([^"#]+)[^>]*>(?:<[^>]*>)*([^<]+)', buttons)
    assert [text for _, text in links] == ["Play", "Scorecard", "Start reading"]
    assert all((pages / "book" / address).exists() for address, _ in links)
    assert links[-1][0] == "../notebooks/00_models.html"


def test_the_front_page_holds_the_stored_networks_of_one_dimension(front):
    figure, data = interactive.STORED.search(front).groups()
    assert figure == "parity" and 'alt="Two points' in front  # the still picture's
    kept = json.loads(data)
    assert [*kept["flows"]] == [*kept["starts"]] == ["1"]
    assert [*kept["flows"]["1"]] == ["NODE", "ANODE", "SONODE"]
    weight = json.dumps(kept["flows"]["1"]["SONODE"], separators=(",", ":"))
    assert json.dumps(weight)[1:-1] in PARITY.read_text("utf8")


def test_a_figure_that_no_notebook_stored_is_named():
    with pytest.raises(ValueError, match=r"02_parity\.ipynb has no .* fig-none"):
        interactive.borrow(PARITY, "fig-none", "1", "")
