"""A notebook's parameters: their two profiles, and a clear word when one is wrong."""

import difflib
import os

_defaults = {}


def profile(name, paper, fast):
    """The paper's value of a parameter, or a small one where SONODE_PROFILE=fast."""
    _defaults[name] = paper
    return {"paper": paper, "fast": fast}[current_profile()]


def current_profile():
    """`paper` unless the environment says `fast`."""
    name = os.environ.get("SONODE_PROFILE", "paper")
    if name not in ("paper", "fast"):
        raise ValueError(f"SONODE_PROFILE is {name!r}; it accepts 'paper' or 'fast'")
    return name


def whole(least, most=None):
    """Accepts whole numbers from `least` on, up to `most`."""
    limit = f"a whole number, {least} or more" + (f", {most} at most" if most else "")

    def accepts(value):
        number = isinstance(value, int) and not isinstance(value, bool)
        return number and value >= least and (most is None or value <= most)

    return accepts, limit


def one_of(*choices):
    """Accepts one of the given values."""
    return (lambda value: value in choices), "one of " + ", ".join(map(repr, choices))


def text():
    """Accepts a string."""
    return (lambda value: isinstance(value, str)), "a string"


def check(namespace, **rules):
    """Stop at the first parameter that is wrong, missing or misspelt; name the profile.

    namespace: the notebook's globals(); rules: name = whole(1), one_of(...), text().
    Returns "paper" where every value is the paper's (or there are more seeds), "fast"
    under that profile, else "custom".
    """
    _refuse_strangers(namespace, rules)
    for name, (accepts, wanted) in rules.items():
        if name not in namespace:
            raise ValueError(f"parameter {name} is missing; it accepts {wanted}")
        if not accepts(namespace[name]):
            raise ValueError(f"{name} = {namespace[name]!r}: {name} accepts {wanted}")
    if current_profile() == "fast":
        return "fast"
    changed = {n for n, v in _defaults.items() if n in rules and namespace[n] != v}
    if namespace.get("seeds", 0) >= _defaults.get("seeds", 0):
        changed -= {"seeds"}
    return "custom" if changed else "paper"


def _refuse_strangers(namespace, rules):
    """A misspelt parameter arrives as a plain variable that no rule knows."""
    plain = (bool, int, float, str, list, tuple, dict, type(None))
    for name, value in namespace.items():
        ours = name.startswith("_") or name in ("In", "Out") or name in rules
        if not ours and isinstance(value, plain):
            near = difflib.get_close_matches(name, rules, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            known = ", ".join(rules)
            raise ValueError(f"unknown parameter {name}: {hint}This notebook has {known}")
