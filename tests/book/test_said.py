"""Sentences of the pages that say which words are what: the records must give these words."""

from pathlib import Path

import pytest

from sonode_utils.evidence.scorecard import scorecard

BOOK = Path(__file__).parents[2] / "book"


@pytest.fixture(scope="module")
def rows():
    return {row["id"]: row for row in scorecard(BOOK / "results")}


@pytest.mark.parametrize(
    "sentence, group, same, other",
    [
        ("decides P4", "SONODE as coded", "P3", "P4"),
        ("none on M1 and M2", "width 10", "M2", ""),
        ("none on N1's word", "SONODE as coded", "N1", ""),
        (
            "B1's word changes; the other words do not",
            "reflected starts",
            "A1 A2 A3 B2 B3",
            "B1",
        ),
        ("none on the verdicts", "best checkpoint", "A1 A2 A3 B1 B2 B3", ""),
        ("decides V3; V2 is the same for both", "A = 1.4", "V1 V2", "V3"),
        ("T1 has the same word for both", "mirrored starts", "T1", ""),
    ],
)
def test_a_deviation_changes_the_words_that_its_page_names(sentence, group, same, other, rows):
    assert sentence in (BOOK / "deviations.md").read_text("utf8")
    for id in same.split():
        assert rows[id]["beside"][group]["word"] == rows[id]["word"], id
    for id in other.split():
        assert rows[id]["beside"][group]["word"] != rows[id]["word"], id


def test_the_first_order_sonode_of_the_code_has_the_words_of_the_text(rows):
    assert "| none on the verdict |" in (BOOK / "deviations.md").read_text("utf8")
    parts, coded = rows["E1"]["parts"], rows["E1"]["beside"]["as coded"]["parts"]
    for split in ("train", "test"):
        assert coded[f"as coded, {split}"]["word"] == parts[f"SONODE, {split}"]["word"]


@pytest.mark.parametrize(
    "sentence, word, claims",
    [
        ("SONODEs are not bound to homeomorphisms", "holds", "Q1 Q2 Q3 Q4 Q5"),
        ("Three statements need repair", "fails", "Q8 Q11 Q12"),
        ("SONODE takes the straighter path (P1 to P3)", "supported", "P1 P2 P3"),
        ("Under a NODE a ring stays around its points (S1, S2)", "supported", "S1 S2"),
        ("goes up and down with the dimension (P5, P6)", "supported", "P5 P6"),
        ("in the disguised form of Eq. 11 (F1 to F3)", "supported", "F1 F2 F3"),
        ("One augmented dimension is enough for one curve (M1, M2)", "supported", "M1 M2"),
        ("each further dimension helps", "supported", "M3"),
        ("SONODE finds the constants of the oscillators (G1)", "supported", "G1"),
        ("SONODE extrapolates better at every level", "supported", "N1"),
        ("On the Silverbox it extrapolates better too", "supported", "B2"),
        ("On the airplane ANODE is ahead", "supported", "A2"),
        ("an error within 10 % of ANODE's (A3", "contradicted", "A3"),
        ("is not much larger than SONODE's (V2", "contradicted", "V2"),
        ("makes it worse (T2", "contradicted", "T2"),
        ("do not make parity easier for NODEs in even dimensions (P8", "contradicted", "P8"),
    ],
)
def test_what_the_report_says_in_words_is_what_the_records_give(sentence, word, claims, rows):
    assert sentence in " ".join((BOOK / "report.md").read_text("utf8").split())
    assert {rows[id]["word"] for id in claims.split()} == {word}


def test_the_controls_of_the_optimiser_do_what_the_report_says(rows):
    assert "Restarting Adam or clipping gradients removes this lag" in (
        BOOK / "report.md"
    ).read_text("utf8")
    words = {
        c: rows["O1"]["beside"][f"Adam, {c}"]["word"] for c in ("plain", "restart", "clipping")
    }
    assert words == {"plain": "contradicted", "restart": "supported", "clipping": "supported"}
