"""A notebook's run: its parameters, the values behind its verdicts, its claims, its record."""

import json
import os
import platform
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path

import numpy as np

from sonode_utils.evidence.parameters import apply_profile
from sonode_utils.evidence.rules import Part, combine, solver_change
from sonode_utils.evidence.tables import claim_row, table_html

CATALOGUE = tomllib.loads(Path(__file__).with_name("claims.toml").read_text("utf8"))
AUTHORS = tomllib.loads(Path(__file__).with_name("authors.toml").read_text("utf8"))


def begin(notebook: str, namespace: dict) -> "Run":
    """Check the parameters in the notebook's globals(), apply the profile, start the clock.

    SONODE_PROFILE names the profile: paper (the notebook's own values), quick or smoke.
    """
    profile = apply_profile(notebook, namespace)
    first, n = namespace.get("first_seed", 0), namespace["seeds"]
    return Run(notebook, profile, range(first, first + n), namespace["results_dir"])


def say(text: str) -> None:
    """Show a piece of Markdown that this run wrote, numbers and all.

    The common indent of the text is dropped, so that it may be a triple-quoted string.
    """
    from IPython.display import Markdown, display

    display(Markdown(cleandoc(text)))


def records_folder() -> Path:
    """book/results, in the working directory or above it."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "book" / "results").is_dir():
            return folder / "book" / "results"
    raise FileNotFoundError(
        f"no folder book/results at {here} or above it: work inside a checkout of the book"
    )


class Run:
    """What one notebook computed: values per seed, claims, settings and versions.

    seeds: the seeds of this run, as a range; data: "synthetic", "real" or "simulated".
    """

    def __init__(self, notebook: str, profile: str, seeds: range, results_dir: str = ""):
        self.notebook, self.profile, self.seeds = notebook, profile, seeds
        self.results_dir, self.data = results_dir, "synthetic"
        self.started = time.perf_counter(), time.process_time()
        self.claims: dict[str, dict] = {}
        self.values: dict[str, list] = {}
        self.quotes: dict[str, float | str] = {}
        self.networks: dict[str, object] = {}

    def use(self, *records) -> None:
        """Say which measured data sets this run is about; one stand-in makes it simulated."""
        real = all(record.data == "real" for record in records)
        self.data = "real" if real else "simulated"
        if not real:
            print("SIMULATED stand-in of the same physics: claims are not judged.")

    def record(self, name: str, values):
        """Keep the values behind a verdict, one per seed (or a table of them); return them."""
        self.values[name] = _rounded(np.asarray(values, float))
        return values

    def quote(self, **numbers) -> None:
        """Keep numbers (or short texts) that pages of the book quote from this run's record."""
        for name, number in numbers.items():
            self.quotes[name] = number if isinstance(number, str) else _rounded(float(number))

    def store_networks(self, name: str, data) -> None:
        """Keep trained networks for the playground: saved as play/<name>.json."""
        self.networks[name] = data

    def judge(
        self, id: str, parts: Part | dict[str, Part], *, ours: str, paper: str | None = None,
        solves: tuple | None = None, solver_check: float | None = None,
        trainings: Iterable = (), diverged: int = 0, rejected: int = 0, fragile: bool = False,
    ) -> None:  # fmt: skip
        """Judge a claim of the catalogue by its parts: a Part, or {name: Part}.

        ours: what we found, in words and numbers; paper: its number where it has one;
        solves: (loose, tight), the headline values per seed as trained and at rtol 1e-8, or
        solver_check: the largest relative change of their medians, worked out already (over
        1 %: a solver artefact, so `ours` must be the values at 1e-8);
        trainings: what `fit` returned, to count diverged members, or diverged: their number;
        fragile: True where the verdict is known to turn with fresh seeds.
        """
        if id not in CATALOGUE:
            raise KeyError(f"{id} is no claim of the catalogue (claims.toml)")
        if id in self.claims:
            raise ValueError(f"{id} was judged already")
        parts = {"": parts} if isinstance(parts, Part) else parts
        verdict, count = combine(list(parts.values()))
        if CATALOGUE[id].get("real_data") and self.data == "simulated":
            verdict = "not judged"
        check = solver_check if solves is None else solver_change(*solves)
        self.claims[id] = {
            "id": id, "verdict": verdict, "parts": count, "seeds": len(self.seeds),
            "diverged": int(diverged) + sum(int(t.diverged.sum()) for t in trainings),
            "rejected": int(rejected), "paper": paper, "ours": ours,
            "solver_check": _rounded(check), "solver_artefact": bool(check and check > 0.01),
            "fragile": fragile,
            "detail": {name: f"{p.verdict}: {p.text}" for name, p in parts.items()},
            "anchor": f"{self.notebook}.html#verdict",
        }  # fmt: skip
        print(f"{id}: {verdict}, {count} parts" if len(parts) > 1 else f"{id}: {verdict}")

    def table(self) -> object:
        """The verdicts with their numbers, and every part of every claim folded below them."""
        from IPython.display import HTML

        head = ("claim", "paper", "verdict", "what we found")
        rows = [claim_row({**CATALOGUE[id], **claim}) for id, claim in self.claims.items()]
        parts = [
            (claim["id"], name or "the whole", outcome)
            for claim in self.claims.values()
            for name, outcome in claim["detail"].items()
        ]
        fold = table_html(("claim", "part", "outcome"), parts)
        return HTML(
            f"{table_html(head, rows)}<details class='parts'><summary>Every part of every "
            f"claim: which comparison went which way</summary>{fold}</details>"
        )

    def close(self) -> None:
        """Write the record, to book/results only with the paper's settings; print the words."""
        folder = Path(
            self.results_dir or os.environ.get("SONODE_RESULTS_DIR") or records_folder()
        )
        if self.profile == "paper" or folder.resolve().parts[-2:] != ("book", "results"):
            write_json(folder / f"{self.notebook}.json", self.as_dict())
            for name, data in self.networks.items():
                write_json(folder / "play" / f"{name}.json", data, indent=None)
        for c in self.claims.values():
            print(c["id"], "fragile" if c["fragile"] else c["verdict"])

    def as_dict(self) -> dict:
        """The record, ready for JSON."""
        wall, cpu = self.started
        return {
            "notebook": self.notebook, "profile": self.profile, "data": self.data,
            "seeds": len(self.seeds), "seconds": round(time.perf_counter() - wall),
            "cpu_seconds": round(time.process_time() - cpu),
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in ("torch", "torchdiffeq", "numpy")},
            "claims": list(self.claims.values()), "quotes": self.quotes, "values": self.values,
        }  # fmt: skip


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """A draft to write to; it takes the place of `path` when the block is left in peace.

    Killed at any moment, a process leaves the old file as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")  # a killed writer's draft is written over
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_json(path: Path, content, indent: int | None = 1) -> None:
    """Write JSON whole or not at all."""
    with write_whole(path) as draft:
        draft.write_text(json.dumps(content, indent=indent, allow_nan=False) + "\n", "utf8")


def _rounded(values):
    """Six digits, and None where a number is not finite (JSON has no infinity)."""
    if values is None:
        return None
    if np.ndim(values):
        return [_rounded(v) for v in values]
    return float(f"{values:.6g}") if np.isfinite(values) else None
