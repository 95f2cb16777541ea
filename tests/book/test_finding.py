"""What a reader looks for can be found: index, list of figures, references, descriptions."""

import html
import re
import sys
from pathlib import Path

import pytest
from pybtex.database import parse_file

from sonode_utils.evidence.report import CATALOGUE

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book/_ext"))
import bibliography  # noqa: E402
import figure_list  # noqa: E402
import glossary_links  # noqa: E402
import index_entries  # noqa: E402

REFERENCES = parse_file(ROOT / "book/references.bib").entries


def words(markup):
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", markup)).split())


@pytest.fixture(scope="module")
def texts(pages):
    """{docname: its HTML} of all chapters and other pages, and of what Sphinx adds."""
    found = [*pages.glob("book/*.html"), *pages.glob("notebooks/*.html")]
    found += [pages / f"{name}.html" for name in ("genindex", "search", "prf-prf")]
    return {str(p.relative_to(pages).with_suffix("")): p.read_text("utf8") for p in found}


@pytest.fixture(scope="module")
def index(texts):
    """{text: the addresses it leads to} of the entries of the index."""
    entries = {}
    for line in re.findall(r"<li>(.*?)(?=<li>|<ul>|</li>)", texts["genindex"], re.S):
        for address, text in re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', line, re.S)[:1]:
            entries.setdefault(words(text), []).append(html.unescape(address))
    return entries


def test_the_index_has_terms_claims_statements_and_functions(index, texts):
    titles = [
        words(re.sub(r"\(.*", "", title.rstrip(")")))
        for text in texts.values()
        for title in re.findall(r'<p class="admonition-title">.*?</span>\s*\((.*?)</p>', text)
    ]
    claims = [f"{claim} {row['statement']}" for claim, row in CATALOGUE.items()]
    assert len(titles) == 16 and "Gauge freedom" in titles
    wanted = [*glossary_links.words(ROOT), *titles, *[c.replace(";", ",") for c in claims]]
    assert not [entry for entry in wanted if entry not in index]
    assert "fit() (in module sonode_utils.train)" in index


def test_the_index_lists_the_chapters_of_every_model_and_data_set(texts):
    text = words(texts["genindex"])
    assert not [
        name for name in [*index_entries.MODELS, *index_entries.DATA] if name not in text
    ]
    under = re.search(r"F-16 airplane (.*?) failed", text)[1]
    assert "Real systems" in under and "Third order" in under


def test_every_entry_of_the_index_leads_to_something(index, texts):
    for address in {a for addresses in index.values() for a in addresses}:
        page, _, anchor = address.partition("#")
        assert f'id="{anchor}"' in texts[page.removesuffix(".html")], address


def test_the_list_of_figures_has_every_numbered_figure_once(texts):
    body = re.search(r'<ul class="figure-list.*?</ul>', texts["book/figures"], re.S)[0]
    listed = re.findall(r'href="([^"]*)"[^>]*><span>Fig. (\S+)</span></a>', body)
    numbered = [
        (page, number)
        for page, text in texts.items()
        for number in re.findall(r'<span class="caption-number">Fig. (\S+) </span>', text)
    ]
    assert len(listed) == len(numbered) == body.count("<li>") > 70
    assert sorted(n for _, n in listed) == sorted(n for _, n in numbered)
    for address, _ in listed:
        page, _, anchor = address.partition("#")
        page = page.removesuffix(".html")
        page = page.removeprefix("../") if "/" in page else f"book/{page}"
        assert f'id="{anchor}"' in texts[page], address
    order = [number for _, number in listed if re.search(r"\w+\.1$", number)]
    chapters = "0 1 2 3 4 5 6 7 8 8b A E1 E2 E3 E4"
    assert order == [f"{chapter}.1" for chapter in chapters.split()]


def test_a_caption_is_cut_after_its_first_sentence():
    caption = figure_list.nodes.caption("", "Swap (Fig. 1 of it), see ")
    caption += [figure_list.nodes.math("", r"\dot x"), figure_list.nodes.Text(". Dots: seeds.")]
    kept = figure_list.first_sentence(caption)
    assert "".join(part.astext() for part in kept) == r"Swap (Fig. 1 of it), see \dot x."


def test_the_contents_lead_to_the_figures_and_these_to_the_index(texts):
    assert 'href="figures.html"' in texts["book/intro"]
    assert 'href="../genindex.html"' in texts["book/figures"]


@pytest.mark.parametrize("key", REFERENCES)
def test_a_reference_has_an_address_and_shows_it_as_a_link(key, texts):
    fields = REFERENCES[key].fields
    address = f"https://doi.org/{fields['doi']}" if "doi" in fields else fields["url"]
    assert f'href="{address}"' in texts["book/references"]


def test_a_citation_and_the_list_call_an_entry_the_same(texts):
    entries = dict(
        re.findall(
            r'class="citation" id="(\w+)".*?class="label">(.*?)</span>\s*<p>',
            texts["book/references"], re.S,
        )
    )  # fmt: skip
    labels = {key: re.sub(r"\W+", " ", words(label)).strip() for key, label in entries.items()}
    known = [re.sub(r"\W+", " ", bibliography.label(e)) for e in REFERENCES.values()]
    assert sorted(labels.values()) == sorted(known)
    cited = re.compile(
        r'(.{80})<a [^>]*href="[^"]*references\.html#(id\d+)"[^>]*>(.*?)</a>', re.S
    )
    found = [place for text in texts.values() for place in cited.findall(text)]
    assert len(found) > 20
    for before, key, text in found:  # only the year is the link of "Chen et al. [2018]"
        shown = re.sub(r"\W+", " ", words(before + text)).strip()
        assert shown.endswith(labels[key]), shown


def test_every_page_says_in_plain_words_what_it_is_about(texts):
    for page, text in texts.items():
        (said,) = re.findall(r'<meta (?=[^>]*name="description")[^>]*content="([^"]*)"', text)
        assert 50 <= len(said) <= 300 and "\\" not in said and said[-1] in ".?!", page


def test_every_page_has_the_sign_of_the_book(texts, pages):
    assert (pages / "_static/favicon.svg").read_text().startswith("<svg")
    for page, text in texts.items():
        assert re.search(r'<link rel="icon" href="[./]*_static/favicon\.svg"', text), page


def test_the_cards_of_the_deviations_carry_the_heads_of_their_columns(texts):
    heads = re.findall(r'<th class="head"><p>(.*?)</p>', texts["book/deviations"])
    css = (ROOT / "assets/book.css").read_text("utf8")
    labels = re.findall(r'#deviations td:nth-child\(\d\)::before \{ content: "(.*?): "', css)
    assert heads == ["what", *labels] * (len(heads) // 6)
