"""No dead link: each leads to something in the book and the checkout, or has a proper form."""

import html
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
ATTRIBUTES = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src"}
ELSEWHERE = re.compile(r"https://([a-z\d-]+\.)+[a-z]{2,}(:\d+)?(/[^\s<>\"{}\\^`|]*)?")
MARKDOWN = sorted(path.name for path in ROOT.glob("*.md"))


@cache
def text_of(page):
    return re.sub(r"<!--.*?-->", "", page.read_text("utf8"), flags=re.S)


@cache
def anchors(page):
    return {
        html.unescape(name) for name in re.findall(r'\s(?:id|name)="([^"]*)"', text_of(page))
    }


def links(page):
    """Every address that a page of the book names, outside its scripts' own text."""
    text = re.sub(r"(<script[^>]*>).*?</script>", r"\1", text_of(page), flags=re.S)
    for tag, attribute in ATTRIBUTES.items():
        found = re.findall(rf'<{tag}\s[^>]*?\b{attribute}="([^"]*)"', text)
        yield from {html.unescape(address) for address in found}


def dead(page, address):
    """Why a link of the page leads nowhere; "" if it leads somewhere."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return "" if ELSEWHERE.fullmatch(address) else "not the form of an address"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor.startswith("task=") and 'data-figure="laboratory"' in text_of(target):
        return ""  # an experiment that the laboratory sets up; test_laboratory.py starts each
    known = not anchor or target.suffix != ".html" or anchor in anchors(target)
    return "" if known else "no such place on that page"


def test_every_link_of_every_page_leads_to_something(pages):
    found = {
        (page.relative_to(pages).as_posix(), address): dead(page, address)
        for page in sorted(pages.rglob("*.html"))
        if "_static" not in page.parts
        for address in links(page)
        if not address.startswith(("data:", "javascript:"))
    }
    assert len(found) > 3000
    assert not {place: why for place, why in found.items() if why}


@pytest.mark.parametrize(
    "address, why",
    [
        ("b.html#there", ""),
        ("#here", ""),
        ("sub/../b.html", ""),
        ("https://doi.org/10.1000/x(1)?y=2#z", ""),
        ("c.html", "no such file"),
        ("b.html#nowhere", "no such place on that page"),
        ("#there", "no such place on that page"),
        ("sub/laboratory.html#task=sine", ""),
        ("b.html#task=sine", "no such place on that page"),
        ("http://example.org", "not the form of an address"),
        ("https://example", "not the form of an address"),
        ("https://example.org/{pages}", "not the form of an address"),
        ("ftp://example.org/", "not the form of an address"),
    ],
)
def test_a_dead_link_is_found(address, why, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.html").write_text('<p id="here">')
    (tmp_path / "b.html").write_text('<p id="there">')
    (tmp_path / "sub/laboratory.html").write_text('<div data-figure="laboratory">')
    assert dead(tmp_path / "a.html", address) == why


def headings(page):
    """The places of a Markdown page that a forge makes of its headings."""
    text = re.sub(r"```.*?```", "", page.read_text("utf8"), flags=re.S)
    lines = [line.lstrip("# ") for line in text.splitlines() if re.match("#+ ", line)]
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("name", MARKDOWN)
def test_every_link_of_the_checkouts_own_pages_leads_to_something(name):
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / name).read_text("utf8"), flags=re.S)
    for address in re.findall(r"\]\(([^)\s]*)\)", text):
        place, _, anchor = address.partition("#")
        if re.match("[a-z]+:", place):
            assert ELSEWHERE.fullmatch(address), address
            continue
        target = ROOT / (place or name)
        assert target.exists(), address
        assert not anchor or anchor in headings(target), address


def test_the_readme_leads_to_what_a_newcomer_needs():
    text = (ROOT / "README.md").read_text("utf8")
    for place in ("CITATION.cff", "LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "book/data.md"):
        assert f"]({place})" in text
