"""The book builds with warnings as errors, and says what the records say."""

import re
import sys
from pathlib import Path

from sonode_utils import scorecard

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import update_readme  # noqa: E402


def test_the_book_builds_without_a_warning(pages):
    assert (pages / "index.html").exists()
    assert (pages / "notebooks/02_parity.html").exists()


def test_the_scorecard_page_counts_what_the_records_hold(pages):
    text = (pages / "book/scorecard.html").read_text()
    rows = scorecard.scorecard()
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
    table = scorecard.readme_table(scorecard.scorecard())
    assert table in (ROOT / "README.md").read_text()
    stored = update_readme.figure(ROOT / "notebooks/02_parity.ipynb", "fig-parity")
    assert (ROOT / "book/parity.png").read_bytes() == stored
