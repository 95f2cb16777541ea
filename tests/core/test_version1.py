"""The words of version 1 are kept for good: complete, and as they were."""

import hashlib
import json
import re
from pathlib import Path

FROZEN = Path(__file__).parents[2] / "book/results/version1.json"
SHA256 = "d0fbdd59338f53d2d9cdcd61ce489df899d0b98a21fff2b758904632ac53d3f8"
FIELDS = {"notebook", "verdict", "parts", "seeds", "detail", "ours"}


def test_nothing_has_changed_the_words_of_version_1():
    assert hashlib.sha256(FROZEN.read_bytes()).hexdigest() == SHA256


def test_every_claim_of_version_1_is_there_with_its_word_parts_date_and_commit():
    frozen = json.loads(FROZEN.read_text("utf8"))
    counts = dict(zip("PSFMIONABVTEDQX", (8, 2, 3, 3, 3, 2, 2, 3, 3, 3, 2, 1, 4, 12, 2)))
    wanted = {f"{letter}{i + 1}" for letter, n in counts.items() for i in range(n)}
    assert set(frozen["claims"]) == wanted
    assert re.fullmatch("4878d42[0-9a-f]{33}", frozen["commit"])
    for claim in frozen["claims"].values():
        assert set(claim) == FIELDS and claim["verdict"] and claim["ours"]
        good, all_parts = claim["parts"].split(" of ")
        assert len(claim["detail"]) == int(all_parts) >= int(good)
        assert frozen["dates"][claim["notebook"]].startswith("2026-")
