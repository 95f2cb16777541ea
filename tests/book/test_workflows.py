"""The workflows fit the published schema, and every command in them is a make target."""

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book/_ext"))
import launch  # noqa: E402

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCHEMAS = files("check_jsonschema") / "builtin_schemas/vendor"
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def workflow(name):
    """YAML 1.2 reads the key `on` as a word; PyYAML, which reads 1.1, as True."""
    read = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text("utf8"))
    return {"on": read.pop(True), **read}


def steps(name):
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def commands(name):
    return [step["run"] for step in steps(name) if "run" in step]


def faults(schema, content):
    """What the schema, as check-jsonschema carries it, says against the content."""
    validator = Draft7Validator(json.loads((SCHEMAS / f"{schema}.json").read_text("utf8")))
    return [error.message for error in validator.iter_errors(content)]


@each_workflow
def test_a_workflow_fits_the_published_schema(path):
    content = workflow(path.stem)
    assert not faults("github-workflows", content)
    (job,) = content["jobs"].values()
    assert faults("github-workflows", {**content, "jobs": {"a": {**job, "run": "make"}}})


@each_workflow
def test_a_workflow_calls_make_and_nothing_else(path):
    assert commands(path.stem)
    for command in commands(path.stem):
        assert re.fullmatch("make [a-z]+", command), command
        done = subprocess.run(
            [*command.split(), "-n"], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_every_workflow_is_known_and_does_its_part():
    assert {path.stem: commands(path.stem) for path in WORKFLOWS} == {
        "check": ["make lint", "make unit", "make quick"],
        "full": ["make test"],
        "publish": ["make site"],
    }
    assert workflow("check")["on"]["push"] == {"branches": ["**"]}
    nightly = workflow("full")["on"]
    assert nightly["push"] == {"branches": ["main"]} and len(nightly["schedule"]) == 1
    assert workflow("publish")["on"]["push"] == {"branches": ["main"]}


def test_the_check_covers_both_processors_macos_and_the_pythons_we_promise():
    (job,) = workflow("check")["jobs"].values()
    machines, pythons = job["strategy"]["matrix"].values()
    for kind in (r"ubuntu-[\d.]+", r"ubuntu-[\d.]+-arm", r"macos-\d+"):
        assert [m for m in machines if re.fullmatch(kind, m)], kind
    assert pythons == ["3.11", "3.12", "3.13"]
    text = (ROOT / "pyproject.toml").read_text("utf8")
    wanted = SpecifierSet(re.search(r'requires-python = "(.*)"', text)[1])
    assert all(wanted.contains(python) for python in pythons)


@each_workflow
def test_an_action_is_pinned_by_the_tag_of_its_version(path):
    used = [step["uses"] for step in steps(path.stem) if "uses" in step]
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+)*", name) for name in used)


@each_workflow
def test_a_workflow_may_write_only_where_it_publishes(path):
    allowed = workflow(path.stem)["permissions"]
    assert allowed == {"contents": "write" if path.stem == "publish" else "read"}
    assert all("timeout-minutes" in job for job in workflow(path.stem)["jobs"].values())


def test_what_is_published_is_what_make_site_lays_out():
    (publishing,) = [s["with"] for s in steps("publish") if "peaceiris" in s.get("uses", "")]
    assert publishing["publish_dir"] == "_build/site"
    assert publishing["publish_branch"] == launch.PUBLISHED
