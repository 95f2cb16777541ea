"""The results are a data set: every record fits the published schema, and the page says so."""

import contextlib
import copy
import html
import io
import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "book/results"
SCHEMA = json.loads((ROOT / "book/record.schema.json").read_text("utf8"))
PAGE = (ROOT / "book/data.md").read_text("utf8")
NOTEBOOKS = {path.stem for path in ROOT.glob("notebooks/*.ipynb")}
RECORDS = [p for p in sorted(RESULTS.glob("**/[0-9AE]*.json")) if p.parent.name != "play"]
each_record = pytest.mark.parametrize(
    "path", RECORDS, ids=lambda p: p.relative_to(RESULTS).as_posix()
)


def faults(record):
    return [error.message for error in Draft7Validator(SCHEMA).iter_errors(record)]


@each_record
def test_a_record_fits_the_schema(path):
    assert not faults(json.loads(path.read_text("utf8")))


@each_record
def test_the_rows_that_a_part_compares_are_among_the_values(path):
    record = json.loads(path.read_text("utf8"))
    for claim in record["claims"]:
        groups = [claim["parts"], *claim["beside"].values()]
        for row in [
            r for parts in groups for part in parts.values() for r in part["rows"].values()
        ]:
            values = record["values"]
            name, *indices = (
                [row] if row in values else re.split(r"\[|\]\[|\]", row.rstrip("]"))
            )
            found = values[name]
            for index in indices:
                found = found[int(index)]
            assert not isinstance(found, dict), (claim["id"], row)


def test_every_notebook_has_its_record_and_nothing_else_is_one():
    assert {p.stem for p in RECORDS} == NOTEBOOKS and Draft7Validator.check_schema(
        SCHEMA
    ) is None


@pytest.mark.parametrize("field", SCHEMA["required"])
def test_a_record_that_lacks_a_field_or_has_a_strange_one_does_not_fit(field):
    record = json.loads((RESULTS / "02_parity.json").read_text("utf8"))
    less = {name: value for name, value in record.items() if name != field}
    assert (
        faults(less)
        and faults(record | {field + "s": 1})
        and faults(record | {field: {"a": {}}})
    )


def test_a_claim_without_a_rule_does_not_fit():
    record = json.loads((RESULTS / "02_parity.json").read_text("utf8"))
    broken = copy.deepcopy(record)
    del next(iter(broken["claims"][0]["parts"].values()))["rule"]
    assert faults(broken) and not faults(record)


def test_the_page_says_what_each_field_holds(pages):
    text = html.unescape((pages / "book/data.html").read_text("utf8"))
    plain = re.sub("<[^>]+>", "", text).replace("\u00a0", " ")  # book/_ext/no_breaks.py
    fields = {**SCHEMA["properties"]}
    for kind in ("claim", "part"):
        fields |= {
            f"{kind}: {n}": f for n, f in SCHEMA["definitions"][kind]["properties"].items()
        }
    for name, field in fields.items():
        assert f"<code>{name}</code>" in text and field["description"] in plain, name
    numbers = int(re.search(r"hold ([\d,]+) numbers", text)[1].replace(",", ""))
    assert numbers > 10_000 and f"{len(RECORDS)} records hold" in text
    (schema,) = re.findall(r'href="([^"]*record\.schema\.json)"', text)
    assert json.loads((pages / "book" / schema).read_text("utf8")) == SCHEMA


def test_the_page_names_every_kind_of_file():
    folders = {p.parent.relative_to(ROOT).as_posix() for p in RESULTS.rglob("*.json")}
    assert not [folder for folder in folders if f"`{folder}/" not in PAGE]
    others = {p.name for p in RESULTS.glob("*.json")} - {f"{name}.json" for name in NOTEBOOKS}
    assert not [name for name in others if name not in PAGE]


def test_the_lines_that_read_a_record_run(monkeypatch):
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    monkeypatch.chdir(ROOT)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(lines, {})  # ours, from the page above
    assert said.getvalue() == "10 50\n"
