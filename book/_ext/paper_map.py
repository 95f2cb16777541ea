"""The map of the paper: what tools/paper_labels.py numbered, and where the book treats it."""

import json
import tomllib
from pathlib import Path

from chapter_numbers import number

BOOK = Path(__file__).parents[1]
SHORT = {"equation": "Eq.", "figure": "Fig.", "table": "Table", "proposition": "Prop."}
SHORT |= {"corollary": "Cor.", "lemma": "Lemma"}
STATEMENTS = ("proposition", "corollary", "lemma")
WHAT = {"fig": "figure", "equation": "formula", "prop": "proposition", "adj": "proposition"}
WHAT |= {"cor": "corollary", "thm": "theorem"}


def paper_map(rows, records, folder, ids):
    """One line per part of the paper, in its order; a part without an entry is an error."""
    claims = {row["id"]: row for row in rows}
    places = expand(tomllib.loads((BOOK / "places.toml").read_text("utf8")))
    lines = {}
    for part in json.loads((BOOK / "paper.json").read_text("utf8")):
        kind = part["kind"]
        key, place = places[kind, part.get("number") or part["title"]]
        lines[kind, key] = {
            "kind": kind, "key": key, "name": name(kind, key),
            "id": f"{kind}-{key}".replace(" ", "-"),
            "says": place["says"], "why": place.get("why", ""),
            "places": [link(target) for target in place["at"]],
            "claims": [claims[id] for id in place.get("claims", [])],
        }  # fmt: skip
    lines = list(lines.values())
    kinds = {"figures": ["figure"], "table": ["table"], "statements": STATEMENTS}
    kinds["equations"] = ["equation"]
    return {
        "lines": lines,
        "sections": [line for line in lines if line["kind"] == "section"],
        "index": {k: [line for line in lines if line["kind"] in v] for k, v in kinds.items()},
    }


def expand(places):
    """{(kind, number): (key, place)}, with a key such as 14-16 under each of its numbers."""
    found = {}
    for kind, by_key in places.items():
        for key, place in by_key.items():
            first, _, last = key.partition("-") if kind == "equation" else (key, "", "")
            numbers = range(int(first), int(last) + 1) if last else [first]
            found |= {(kind, str(n)): (key.replace("-", "–"), place) for n in numbers}
    return found


def name(kind, key):
    if kind == "section":
        numbered = "Section" if key[0].isdigit() else "Appendix"
        return key if key[1:2].isalpha() else f"{numbered} {key}"
    return f"{'Eqs.' if '–' in key else SHORT[kind]} {key}"


def link(target):
    """notebooks/02_parity#fig-parity -> its address from a page of book/, and what it is."""
    docname, _, anchor = target.partition("#")
    own = number(docname)
    place = docname.partition("/")[2].replace("_", " ").capitalize()
    if own:
        place = f"{'Chapter' if own[0].isdigit() else 'Appendix'} {own}"
    what = WHAT.get(anchor.partition("-")[0], "")
    return {"href": f"../{docname}.html{'#' * bool(anchor)}{anchor}",
            "text": f"{place}, {what}" if what else place}  # fmt: skip
