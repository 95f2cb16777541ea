"""A notebook's parameters: three profiles of them, and a clear word when one is wrong.

parameters.toml has a table per notebook: the value of each parameter under the profiles
paper, quick and smoke (as in paper where a profile is silent), and what it accepts.
"""

import ast
import difflib
import os
import tomllib
from pathlib import Path

LIMITS = tomllib.loads(Path(__file__).with_name("parameters.toml").read_text("utf8"))
PROFILES = ("paper", "quick", "smoke")


def apply_profile(notebook: str, namespace: dict) -> str:
    """Check the notebook's parameters and put the profile's values in their place.

    namespace: the notebook's globals(). A value that was set twice, or that is not the paper's,
    was set by hand and stays. Stops at the first parameter that is wrong, missing or misspelt.
    Returns the profile: quick, smoke, paper (more seeds are allowed), or else "custom".
    """
    rules, profile = LIMITS[notebook], current_profile()
    names = _assigned(namespace.get("In", []))
    _refuse_strangers(names, rules)
    for name, rule in rules.items():
        if name not in namespace:
            raise ValueError(f"parameter {name} is missing; it accepts {accepted(rule)}")
        if not _accepts(rule, namespace[name]):
            raise ValueError(f"{name} = {namespace[name]!r}: {name} accepts {accepted(rule)}")
    changed = {name for name, rule in rules.items() if namespace[name] != rule["paper"]}
    if profile != "paper":
        for name in rules.keys() - changed:
            if names.count(name) < 2:
                namespace[name] = rules[name].get(profile, rules[name]["paper"])
        return profile
    if namespace["seeds"] >= rules["seeds"]["paper"]:
        changed -= {"seeds"}
    return "custom" if changed - {"results_dir"} else "paper"


def current_profile() -> str:
    """The profile that SONODE_PROFILE names; `paper` where it is not set."""
    name = os.environ.get("SONODE_PROFILE") or "paper"
    if name not in PROFILES:
        raise ValueError(f"SONODE_PROFILE is {name!r}; it accepts {', '.join(PROFILES)}")
    return name


def accepted(rule: dict) -> str:
    """What a parameter accepts, in words."""
    if "choices" in rule:
        return "one of " + ", ".join(map(repr, rule["choices"]))
    if isinstance(rule["paper"], str):
        return "a string"
    most = f", {rule['most']} at most" if "most" in rule else ""
    return f"a whole number, {rule['least']} or more{most}"


def _accepts(rule, value):
    if "choices" in rule:
        return value in rule["choices"]
    if isinstance(rule["paper"], str):
        return isinstance(value, str)
    number = isinstance(value, int) and not isinstance(value, bool)
    return number and rule["least"] <= value <= rule.get("most", value)


def _assigned(cells):
    """The names that were set just before this cell, by cells that hold nothing but literals.

    These are the notebook's own parameters and those that papermill puts after them.
    cells: the sources of all cells that have run, this one last.
    """
    names = []
    for source in reversed(cells[:-1]):
        try:
            body = ast.parse(source).body
            _ = [ast.literal_eval(assignment.value) for assignment in body]
            names += [target.id for assignment in body for target in assignment.targets]
        except (SyntaxError, AttributeError, ValueError):
            break  # not a cell of plain assignments
    return names


def _refuse_strangers(names, rules):
    for name in names:
        if name not in rules:
            near = difflib.get_close_matches(name, rules, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            known = ", ".join(rules)
            raise ValueError(f"unknown parameter {name}: {hint}This notebook has {known}")
