"""Whoever wants to cite the book finds one and the same answer everywhere."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator
from pybtex.database import parse_file

ROOT = Path(__file__).parents[2]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf8"))
ARCHIVE = json.loads((ROOT / ".zenodo.json").read_text("utf8"))
FORMAT = files("check_jsonschema") / "builtin_schemas/vendor/citation-file-format.json"
(PAPER,) = CITATION["references"]


def faults(citation):
    """What the published schema of the format says against it; dates as the file has them."""
    plain = json.loads(json.dumps(citation, default=str))
    validator = Draft7Validator(json.loads(FORMAT.read_text("utf8")))
    return [error.message for error in validator.iter_errors(plain)]


def test_the_citation_fits_the_format():
    assert not faults(CITATION)


@pytest.mark.parametrize(
    "wrong", [{"license": "mine"}, {"authors": []}, {"repository-code": "nowhere"}, {"typ": ""}]
)
def test_a_wrong_citation_does_not_fit(wrong):
    assert faults(CITATION | wrong)


def test_the_paper_is_cited_as_the_books_own_list_of_references_has_it():
    entry = parse_file(ROOT / "book/references.bib").entries["norcliffe2020"]
    authors = [
        (" ".join(person.last_names), " ".join(person.first_names))
        for person in entry.persons["author"]
    ]
    plain = [(last.replace("{\\`o}", "ò"), first) for last, first in authors]
    assert plain == [(a["family-names"], a["given-names"]) for a in PAPER["authors"]]
    assert PAPER["title"] == entry.fields["title"].replace("{", "").replace("}", "")
    assert PAPER["collection-title"] == entry.fields["booktitle"]
    assert [str(PAPER["year"]), str(PAPER["volume"])] == [
        entry.fields["year"],
        entry.fields["volume"],
    ]
    assert PAPER["url"] == entry.fields["url"]


def test_the_archive_is_told_what_the_citation_says():
    for ours, theirs in (("title", "title"), ("license", "license"), ("keywords", "keywords")):
        assert CITATION[ours] == ARCHIVE[theirs]
    assert ARCHIVE["description"] == CITATION["abstract"]
    assert ARCHIVE["creators"] == CITATION["authors"]
    (paper,) = ARCHIVE["related_identifiers"]
    assert paper["identifier"] in [found["value"] for found in PAPER["identifiers"]]


def test_the_front_page_shows_the_citation_and_none_of_its_comments(pages):
    text = (pages / "book/intro.html").read_text("utf8")
    shown = text[text.index('id="cite-this-book"') :]
    assert "date-released" in shown and "tools/address.py" not in shown
