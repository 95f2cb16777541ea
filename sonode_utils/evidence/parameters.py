"""A notebook's parameters (parameters.toml): three profiles, and a word when one is wrong."""

import ast
import difflib
import os
import tomllib
from pathlib import Path

LIMITS = tomllib.loads(Path(__file__).with_name("parameters.toml").read_text("utf8"))
PROFILES = ("paper", "quick", "smoke")
CONFIRM = {"first_seed": 20_000, "seeds": 50}  # of the confirming runs; run by no one else


def apply_profile(notebook: str, namespace: dict) -> str:
    """Check the notebook's parameters and put the profile's values in their place.

    namespace: the notebook's globals(). A value that was set twice, or that is not the paper's,
    was set by hand and stays. Stops at the first parameter that is wrong, missing or misspelt.
    Returns the profile: quick, smoke, paper (more seeds are allowed), confirm (the paper's
    settings on the seeds of the confirming run), or else "custom".
    """
    rules, profile = LIMITS[notebook], os.environ.get("SONODE_PROFILE") or "paper"
    if profile not in PROFILES:
        raise ValueError(f"SONODE_PROFILE is {profile!r}; it accepts {', '.join(PROFILES)}")
    names = _assigned(namespace.get("In", []))
    for name in [name for name in names if name not in rules]:
        near = difflib.get_close_matches(name, rules, n=1)
        hint = (f"did you mean {near[0]}? " if near else "") + "This notebook has "
        raise ValueError(f"unknown parameter {name}: {hint}{', '.join(rules)}")
    for name, rule in rules.items():
        if name not in namespace:
            raise ValueError(f"parameter {name} is missing; it accepts {accepted(rule)}")
        if not _accepts(rule, namespace[name]):
            raise ValueError(f"{name} = {namespace[name]!r}: {name} accepts {accepted(rule)}")
    changed = {name for name, rule in rules.items() if namespace[name] != rule["paper"]}
    if profile != "paper":
        for name in [n for n in rules.keys() - changed if names.count(n) < 2]:
            namespace[name] = rules[name].get(profile, rules[name]["paper"])
        return profile
    if changed <= {*CONFIRM, "results_dir"} and namespace.items() >= CONFIRM.items():
        return "confirm"
    more = {"seeds"} if namespace["seeds"] >= rules["seeds"]["paper"] else set()
    return "custom" if changed - more - {"results_dir"} else "paper"


def accepted(rule: dict) -> str:
    """What a parameter accepts, in words."""
    if "choices" in rule:
        return "one of " + ", ".join(map(repr, rule["choices"]))
    if isinstance(rule["paper"], str):
        return "a string"
    most = f", {rule['most']} at most" if "most" in rule else ""
    return f"a whole number, {rule['least']} or more{most}"


def _accepts(rule, value):
    if type(value) is not type(rule["paper"]) or value not in rule.get("choices", [value]):
        return False
    return isinstance(value, str) or rule["least"] <= value <= rule.get("most", value)


def _assigned(cells):
    """The names that cells of plain assignments set just before the last cell."""
    names = []
    for source in reversed(cells[:-1]):
        try:
            body = ast.parse(source).body
            _ = [ast.literal_eval(assignment.value) for assignment in body]
            names += [target.id for assignment in body for target in assignment.targets]
        except (SyntaxError, AttributeError, ValueError):
            break
    return names
