"""The verdict rules, declared before the runs, and the record of what was judged.

A rule takes one value a seed and gives a `Part`; a claim is made of one or more parts.
"""

import json
import os
import platform
import time
import tomllib
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from IPython.display import HTML

from sonode_utils.files import whole
from sonode_utils.tables import plain_table_html, table_html

CATALOGUE = tomllib.loads(Path(__file__).with_name("claims.toml").read_text("utf8"))
AUTHORS = tomllib.loads(Path(__file__).with_name("authors.toml").read_text("utf8"))
RESULTS = Path(__file__).parents[1] / "book" / "results"
TINY, HUGE = 1e-300, 1e300


class Part(NamedTuple):
    """One comparison: its verdict, and the number it hangs on in words."""

    verdict: str
    text: str


def order(a, b, paired=True):
    """Is A below B? Bootstrap of the median of log10(A/B), 95 % interval.

    a, b: one value a seed, the same seeds in the same order where `paired` (they share
    data); else each side is resampled on its own and the medians of the logs compared.
    """
    a, b = _log10(a), _log10(b)
    if paired and len(a) != len(b):
        raise ValueError(f"paired values need the same seeds: {len(a)} against {len(b)}")
    rng = np.random.default_rng(0)
    i = rng.integers(len(a), size=(10_000, len(a)))
    if paired:
        medians = np.median((a - b)[i], axis=1)
    else:
        j = rng.integers(len(b), size=(10_000, len(b)))
        medians = np.median(a[i], axis=1) - np.median(b[j], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    verdict = "reproduced" if high < 0 else "contradicted" if low > 0 else "inconclusive"
    return Part(verdict, f"log10 ratio {low:.2f} to {high:.2f}")


def _log10(values):
    values = np.asarray(values, float)
    if np.isnan(values).any():
        raise ValueError(f"{np.isnan(values).sum()} values are NaN: count them as inf")
    if (values < 0).any():
        raise ValueError("order compares positive values only")
    return np.log10(np.clip(values, TINY, HUGE))


def below(values, tau):
    """Do the seeds stay below tau? 90 % or more: reproduced, under half: contradicted."""
    return _share(np.asarray(values, float) < tau, f"below {tau:g}")


def above(values, tau):
    """Do the seeds stay above tau? 90 % or more: reproduced, under half: contradicted."""
    return _share(np.asarray(values, float) > tau, f"above {tau:g}")


def within(values, low, high):
    """Do the seeds lie between low and high? The same shares as `below`."""
    values = np.asarray(values, float)
    return _share((values > low) & (values < high), f"within {low:g} to {high:g}")


def _share(hits, text):
    share = hits.mean()
    words = ("reproduced", "partly", "contradicted")
    verdict = words[0 if share >= 0.9 else 1 if share >= 0.5 else 2]
    return Part(verdict, f"{hits.sum()} of {len(hits)} seeds {text}")


def exact(error, tol):
    """Does a statement of theory hold to within tol?"""
    error = float(error)
    return Part("holds" if error <= tol else "fails", f"error {error:.1e}, limit {tol:g}")


def combine(parts):
    """The verdict of a claim with several parts, and its count: ("partly", "9 of 10")."""
    verdicts = Counter(part.verdict for part in parts)
    good = verdicts["reproduced"] + verdicts["holds"]
    bad = verdicts["contradicted"] + verdicts["fails"]
    count = f"{good} of {len(parts)}"
    if len(parts) == 1:
        return parts[0].verdict, count
    if good == len(parts):
        return ("holds" if verdicts["holds"] == good else "reproduced"), count
    if 2 * bad > len(parts):
        return ("fails" if verdicts["fails"] == bad else "contradicted"), count
    return "partly", count


class Report:
    """What one notebook judged: its claims, per-seed values, settings and versions."""

    def __init__(self, notebook, *, profile, seeds, data="synthetic"):
        self.notebook, self.profile, self.seeds, self.data = (
            notebook,
            profile,
            seeds,
            data,
        )
        self.started = time.perf_counter()
        self.claims, self.values, self.play = {}, {}, {}

    def record(self, name, values):
        """Keep the values behind a verdict, one for each seed (or a table of them)."""
        self.values[name] = _rounded(np.asarray(values, float))

    def keep(self, name, data):
        """Keep trained networks for the playground: saved as play/<name>.json."""
        self.play[name] = data

    def judge(
        self, id, parts, *, ours, paper=None, solver_check=None, diverged=0, rejected=0,
        fragile=False, needs_real_data=False,
    ):  # fmt: skip
        """Judge a claim of the catalogue by its parts: a Part, or {name: Part}.

        ours: what we found, in words and numbers; paper: its number where it has one;
        solver_check: largest relative change of the headline values when the trained
        weights are solved again at rtol 1e-8 (over 1 %: a solver artefact, so `ours` must
        be the values at 1e-8);
        fragile: True where the verdict is known to turn with fresh seeds.
        """
        if id not in CATALOGUE:
            raise KeyError(f"{id} is no claim of the catalogue (claims.toml)")
        if id in self.claims:
            raise ValueError(f"{id} was judged already")
        parts = {"": parts} if isinstance(parts, Part) else parts
        verdict, count = combine(list(parts.values()))
        if needs_real_data and self.data == "simulated":
            verdict = "not judged"
        self.claims[id] = {
            "id": id, "verdict": verdict, "parts": count, "seeds": self.seeds,
            "diverged": int(diverged), "rejected": int(rejected), "paper": paper,
            "ours": ours, "solver_check": _rounded(solver_check),
            "solver_artefact": bool(solver_check and solver_check > 0.01),
            "fragile": fragile,
            "detail": {name: f"{p.verdict}: {p.text}" for name, p in parts.items()},
            "anchor": f"{self.notebook}.html#verdict",
        }  # fmt: skip
        print(f"{id}: {verdict}, {count} parts" if len(parts) > 1 else f"{id}: {verdict}")

    def table(self):
        """The verdicts with their numbers, for display."""
        rows = [{**CATALOGUE[id], **claim} for id, claim in self.claims.items()]
        return HTML(table_html(rows))

    def details(self):
        """Every part of every claim: which comparison gave what."""
        parts = [
            (claim["id"], name or "the whole", outcome)
            for claim in self.claims.values()
            for name, outcome in claim["detail"].items()
        ]
        return HTML(plain_table_html(("claim", "part", "outcome"), parts))

    def verdicts(self):
        """Claim ids and verdict words and no more: what nbval compares."""
        for c in self.claims.values():
            print(c["id"], "fragile" if c["fragile"] else c["verdict"])

    def save(self, folder=""):
        """Write the record; only the paper's settings may write to book/results."""
        folder = Path(folder or os.environ.get("SONODE_RESULTS_DIR") or RESULTS)
        if folder.resolve() == RESULTS.resolve() and self.profile != "paper":
            return print(f"not saved: {self.profile} settings (give results_dir to keep them)")
        write_json(folder / f"{self.notebook}.json", self.as_dict())
        for name, data in self.play.items():
            write_json(folder / "play" / f"{name}.json", data, indent=None)

    def as_dict(self):
        return {
            "notebook": self.notebook, "profile": self.profile, "data": self.data,
            "seeds": self.seeds, "seconds": round(time.perf_counter() - self.started),
            "cpu_seconds": round(time.process_time()),
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in ("torch", "torchdiffeq", "numpy")},
            "claims": list(self.claims.values()), "values": self.values,
        }  # fmt: skip


def write_json(path, content, indent=1):
    """Write whole or not at all: a killed run leaves the old file."""
    with whole(path) as draft:
        draft.write_text(json.dumps(content, indent=indent, allow_nan=False) + "\n", "utf8")


def _rounded(values):
    """Six digits, and None where a number is not finite (JSON has no infinity)."""
    if values is None:
        return None
    if np.ndim(values):
        return [_rounded(v) for v in values]
    return float(f"{values:.6g}") if np.isfinite(values) else None
