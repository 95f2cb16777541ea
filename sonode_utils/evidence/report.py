"""A notebook's run: its parameters, the values behind its verdicts, its claims, its record."""

import json
import os
import platform
import time
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path

import numpy as np

from sonode_utils.evidence.compare import compare, rows_of
from sonode_utils.evidence.parameters import LIMITS, apply_profile
from sonode_utils.evidence.rules import EXACT, Part, combine, solver_change
from sonode_utils.evidence.tables import claim_row, table_html

CATALOGUE = tomllib.loads(Path(__file__).with_name("claims.toml").read_text("utf8"))
AUTHORS = tomllib.loads(Path(__file__).with_name("authors.toml").read_text("utf8"))
NAMES = ("torch", "torchdiffeq", "numpy")
PINS = ("MKL_CBWR", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA")


def begin(notebook: str, namespace: dict) -> "Run":
    """Check the parameters in the notebook's globals(), apply the profile, start the clock."""
    profile = apply_profile(notebook, namespace)
    settings = {name: namespace[name] for name in LIMITS[notebook]}
    first, folder = settings.get("first_seed", 0), settings.pop("results_dir")
    return Run(notebook, profile, range(first, first + settings["seeds"]), folder, settings)


def say(text: str) -> None:
    """Show a piece of Markdown that this run wrote, without the common indent of its lines."""
    from IPython.display import Markdown, display

    display(Markdown(cleandoc(text)))


def records_folder() -> Path:
    """book/results, in the working directory or above it."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (found := folder / "book" / "results").is_dir():
            return found
    raise FileNotFoundError("no book/results here or above: work inside a checkout of the book")


class Run:
    """What one notebook computed; data: "synthetic", "real" or "simulated"."""

    def __init__(self, notebook, profile, seeds, results_dir="", settings=None) -> None:
        self.notebook, self.profile, self.seeds = notebook, profile, seeds
        self.results_dir, self.settings, self.data = results_dir, settings or {}, "synthetic"
        self.started = time.perf_counter(), time.process_time()
        self.claims: dict[str, dict] = {}
        self.behind: list[tuple] = []  # claim, part, values per seed
        self.values: dict[str, np.ndarray] = {}
        self.quotes: dict[str, float | str] = {}
        self.networks: dict[str, object] = {}  # for the playground, saved as play/<name>.json

    def use(self, *records) -> None:
        """Say which measured data sets this run is about; one stand-in makes it simulated."""
        self.data = "real" if {record.data for record in records} == {"real"} else "simulated"
        if self.data == "simulated":
            print("SIMULATED stand-in of the same physics: claims are not judged.")

    def record(self, name: str, values):
        """Keep values of this run, one per seed (or a table of them); return them."""
        self.values[name] = np.array(values, float)
        return values

    def quote(self, **numbers) -> None:
        """Keep numbers (or short texts) that pages of the book quote from this run's record."""
        for name, value in numbers.items():
            self.quotes[name] = value if isinstance(value, str) else _plain(f"{value:.6g}")

    def judge(
        self, id: str, parts: Part | dict[str, Part], *, ours: str, paper: str | None = None,
        solves: tuple | None = None, solver_check: float | None = None,
        trainings: Iterable = (), diverged=0, rejected=0, beside: dict[str, Part] | None = None,
    ) -> None:  # fmt: skip
        """Judge a claim of the catalogue by its parts: a Part, or {name: Part}.

        ours: what we found, in words and numbers; paper: its number where it has one;
        solves: (loose, tight), headline values per seed as trained and at rtol 1e-8, or
        solver_check: the relative change of their medians (over 1 %: `ours` is at 1e-8);
        trainings: what `fit` returned, to count diverged members, or diverged: their number;
        beside: parts that are recorded and compared with no say in the verdict.
        """
        if id not in CATALOGUE or id in self.claims:
            raise ValueError(f"{id} is not in the catalogue (claims.toml), or judged already")
        parts = {"": parts} if isinstance(parts, Part) else parts
        compared, (verdict, count) = parts | (beside or {}), combine([*parts.values()])
        if CATALOGUE[id].get("real_data") and self.data == "simulated":
            verdict = "not judged"
        check = solver_check if solves is None else solver_change(*solves)
        self.claims[id] = {
            "id": id, "verdict": verdict, "parts": count, "seeds": len(self.seeds),
            "diverged": int(diverged) + sum(int(t.diverged.sum()) for t in trainings),
            "rejected": int(rejected), "paper": paper, "ours": ours,
            "solver_check": _plain(check), "solver_artefact": bool(check and check > 0.01),
            "detail": {name: f"{p.verdict}: {p.text}" for name, p in parts.items()},
            "anchor": f"{self.notebook}.html#verdict", "quantities": {},
            "words": {n: p.verdict for n, p in compared.items() if p.verdict in EXACT},
        }  # fmt: skip
        for name, part in compared.items():
            for side, values in part.values.items():
                self.behind.append((id, f"{name} {side}".strip(), np.array(values, float)))
        print(f"{id}: {verdict}, {count} parts" if len(parts) > 1 else f"{id}: {verdict}")

    def table(self) -> object:
        """The verdicts with their numbers, and every part of every claim folded below them."""
        from IPython.display import HTML

        claims = self.claims.items()
        rows = [claim_row(CATALOGUE[id] | claim) for id, claim in claims]
        parts = [(id, n or "the whole", t) for id, c in claims for n, t in c["detail"].items()]
        fold = "<summary>Every part of every claim: which comparison went which way</summary>"
        fold += table_html(("claim", "part", "outcome"), parts)
        shown = table_html(("claim", "paper", "verdict", "what we found"), rows)
        return HTML(f"{shown}<details class='parts'>{fold}</details>")

    def close(self) -> None:
        """Write the record, to book/results only with the paper's settings; a line per claim.

        A run that replaces the stored record (there, or by `make reproduce`) agrees with it.
        """
        folder = self.results_dir or os.environ.get("SONODE_RESULTS_DIR") or records_folder()
        folder, record = Path(folder).resolve(), self.as_dict()
        in_book = folder.parts[-2:] == ("book", "results")
        replaces = self.profile == "paper" and (in_book or "SONODE_REPLACES" in os.environ)
        old = record if replaces else None
        with suppress(FileNotFoundError):  # of the record, or of the whole folder
            path = records_folder() / f"{self.notebook}.json"
            old = old or json.loads(path.read_text("utf8"))
        if self.profile == "paper" or not in_book:
            write_json(folder / f"{self.notebook}.json", record)
            for name, data in self.networks.items():
                write_json(folder / "play" / f"{name}.json", data, indent=None)
        print(*(compare(id, old, record) for id in self.claims), sep="\n")

    def as_dict(self) -> dict:
        """The record, ready for JSON."""
        import torch

        wall, cpu = self.started
        names = {row.tobytes(): name for name, row in rows_of(self.values).items()}
        for id, key, values in self.behind:  # name the rows behind a claim, or record them
            if (row := values.tobytes()) not in names:
                names[row] = f"{id} {key}".strip()
                self.record(names[row], values)
            self.claims[id]["quantities"][key] = names[row]
        return {
            "notebook": self.notebook, "profile": self.profile, "data": self.data,
            "seeds": len(self.seeds), "first_seed": self.seeds[0], "settings": self.settings,
            "date": time.strftime("%Y-%m-%d"), "seconds": round(time.perf_counter() - wall),
            "cpu_seconds": round(time.process_time() - cpu), "quotes": self.quotes,
            "machine": f"{_processor()}, {os.cpu_count()} cores",
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "pins": {name: os.environ.get(name) for name in PINS},
            "versions": {"python": platform.python_version()} | {n: version(n) for n in NAMES},
            "claims": list(self.claims.values()),
            "values": {name: _plain(values) for name, values in self.values.items()},
        }  # fmt: skip


def write_json(path: Path, content, indent: int | None = 1) -> None:
    """Write JSON whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")  # a killed writer's draft is written over
    draft.write_text(json.dumps(content, indent=indent, allow_nan=False) + "\n", "utf8")
    os.replace(draft, path)


def _processor():
    text = "".join(path.read_text("utf8") for path in Path("/proc").glob("cpuinfo"))
    names = [line.split(": ")[1] for line in text.splitlines() if line[:10] == "model name"]
    return names[0] if names else platform.processor() or platform.machine()


def _plain(values):
    """Numbers for JSON to the last digit, None where one is not finite."""
    numbers = np.array(values, float)
    return np.where(np.isfinite(numbers), numbers, None).tolist()
