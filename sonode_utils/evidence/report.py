"""A notebook's run: its parameters, the values behind its verdicts, its claims, its record."""

import os
import platform
import time
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path
from typing import Any

import numpy as np

from sonode_utils.evidence import verdicts
from sonode_utils.evidence.compare import compare
from sonode_utils.evidence.parameters import LIMITS, apply_profile
from sonode_utils.evidence.records import (
    KEPT,
    read_json,
    records_folder,
    worse,
    writable,
    write_json,
)  # fmt: skip
from sonode_utils.evidence.rules import Part, solver_change
from sonode_utils.evidence.tables import claim_row, parts_rows, table_html

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


def later() -> Any:
    """Keep a place here that a later cell fills: `picture = later()`, `picture.update(...)`."""
    from IPython.display import Markdown, display

    return display(
        Markdown("*Run the cells below: what belongs here appears.*"), display_id=True
    )


class Run:
    """What one notebook computed; data: "synthetic", "real" or "simulated".

    Its record goes to results_dir, or else to the folder SONODE_RESULTS_DIR, or else nowhere:
    `make reproduce` alone writes to book/results, a notebook and its record together. What
    would stop the record from being written or compared at the end is an error at the start.
    """

    def __init__(self, notebook, profile, seeds, results_dir="", settings=None) -> None:
        self.notebook, self.profile, self.seeds = notebook, profile, seeds
        self.settings, self.data = settings or {}, "synthetic"
        self.started = time.perf_counter(), time.process_time()
        self.old = _stored(f"{notebook}.json")
        self.confirming = _stored(f"confirm/{notebook}.json") or {"claims": []}
        name = "results_dir" if results_dir else "SONODE_RESULTS_DIR"
        folder = results_dir or os.environ.get("SONODE_RESULTS_DIR")
        self.folder = writable(Path(folder).resolve(), name) if folder else None
        self.claims: dict[str, dict] = {}
        self.groups: dict[str, dict] = {}  # the parts of each claim, and those beside it
        self.values: dict[str, np.ndarray] = {}
        self.quotes: dict[str, float | str] = {}
        self.networks: dict[str, object] = {}  # for the playground, saved in play/

    def use(self, *records) -> None:
        """Say which measured data sets this run is about; one stand-in makes it simulated."""
        self.data = "real" if {record.data for record in records} == {"real"} else "simulated"
        if self.replaces and (why := worse(self.old, {"profile": "paper", "data": self.data})):
            raise RuntimeError(f"this run cannot replace the stored record: {why}")
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
        solves: tuple | None = None, solver_check: float | None = None, quoted: str = "at 1e-8",
        trainings: Iterable = (), diverged=0, rejected=0, scale: str = "",
        beside: dict[str, dict[str, Part]] | None = None,
    ) -> None:  # fmt: skip
        """Record what judges a claim of the catalogue: a Part, or {name: Part}.

        ours: what we found, in one plain sentence; paper: its number where it has one;
        solves: (loose, tight), headline values per seed as trained and at rtol 1e-8, or
        solver_check: the relative change of their medians; quoted: the tolerance of `ours`;
        trainings: what `fit` returned, to count diverged members, or diverged: their number;
        beside: {what: {name: Part}}, recorded, compared and shown with no say in the word;
        scale: "3 of 120 epochs" where the run is far below the paper's budget.
        """
        if id not in CATALOGUE or id in self.claims:
            raise ValueError(f"{id} is not in the catalogue (claims.toml), or judged already")
        check = solver_check if solves is None else solver_change(*solves)
        self.claims[id] = {
            "id": id, "seeds": len(self.seeds), "paper": paper, "ours": ours, "scale": scale,
            "diverged": int(diverged) + sum(int(t.diverged.sum()) for t in trainings),
            "rejected": int(rejected), "solver_check": _plain(check), "quoted": quoted,
            "solver_artefact": bool(check and check > 0.01),
            "real_data": bool(CATALOGUE[id].get("real_data")),
            "anchor": f"{self.notebook}.html#claim-{id}", "parts": {}, "beside": {},
        }  # fmt: skip
        groups = {"": {"": parts} if isinstance(parts, Part) else parts, **(beside or {})}
        self.groups[id] = {  # what is judged is what the values are now
            group: {name: p._replace(rows=_copies(p.rows)) for name, p in own.items()}
            for group, own in groups.items()
        }
        print(f"{id}: {verdicts.headline(self._judged(id))}")

    def _judged(self, id):
        fixed = verdicts.word_without_rule(self.data, self.claims[id])
        return verdicts.judge_groups(self.groups[id], fixed, resample=False)

    def table(self) -> object:
        """Every claim with its word from the confirming run and what this run found."""
        from IPython.display import HTML

        confirming = self.confirming
        confirmed = {c["id"]: verdicts.judge_claim(confirming, c) for c in confirming["claims"]}
        shown = [
            CATALOGUE[id] | c | {"now": self._judged(id), "confirmed": confirmed.get(id)}
            for id, c in self.claims.items()
        ]
        fold = "<summary>Every part of every claim: effect, 95 % interval and word</summary>"
        fold += table_html(
            ("claim", "part", "this run", ""), [r for c in shown for r in parts_rows(c)]
        )
        head = ("claim", "paper", "word", "what this run found")
        whole = table_html(head, map(claim_row, shown), ids=[f"claim-{c['id']}" for c in shown])
        return HTML(f"{whole}<details class='parts'>{fold}</details>")

    @property
    def replaces(self) -> bool:
        """Does `make reproduce` run it, to put its record in the place of the stored one?"""
        return "SONODE_REPLACES" in os.environ and self.profile in KEPT

    def close(self) -> None:
        """Write the record, if there is a folder for it; print a line per claim.

        A run that replaces the stored record agrees with it.
        """
        record = self.as_dict()
        if self.folder:
            write_json(self.folder / f"{self.notebook}.json", record)
            if self.networks:
                write_json(self.folder / f"play/{self.notebook}.json", self.networks, None)
        old = record if self.replaces else self.old
        lines = [compare(id, old, record) for id in self.claims]
        print(*lines or ["no claim is judged here"], sep="\n")

    def as_dict(self) -> dict:
        """The record, ready for JSON."""
        import torch

        wall, cpu = self.started
        names = {row.tobytes(): name for name, row in verdicts.rows_of(self.values).items()}

        def name_of(id, row, key):  # name the rows behind a claim, or record them
            if row.tobytes() not in names:
                names[row.tobytes()] = f"{id} {key}".strip()
                self.record(names[row.tobytes()], row)
            return names[row.tobytes()]

        for id, claim in self.claims.items():
            claim.update(_described(self.groups[id], partial(name_of, id)))
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


def _copies(rows):
    return {side: np.array(row, float) for side, row in rows.items()}


def _described(groups, name_of):
    """Parts as a record keeps them: rule, names of rows, options."""

    def described(group, name, part):
        keys = {side: " ".join(filter(None, (group, name, side))) for side in part.rows}
        rows = {side: name_of(row, keys[side]) for side, row in part.rows.items()}
        return {"rule": part.rule, "rows": rows, "options": dict(part.options)}

    named = {
        g: {n: described(g, n, p) for n, p in parts.items()} for g, parts in groups.items()
    }
    return {"parts": named.pop(""), "beside": named}


def _stored(name):
    """A record of the book; None where there is none, or no book."""
    with suppress(FileNotFoundError):
        return read_json(records_folder() / name)
    return None


def _processor():
    text = "".join(path.read_text("utf8") for path in Path("/proc").glob("cpuinfo"))
    names = [line.split(": ")[1] for line in text.splitlines() if line[:10] == "model name"]
    return names[0] if names else platform.processor() or platform.machine()


def _plain(values):
    """Numbers for JSON to the last digit, None where one is not finite."""
    numbers = np.array(values, float)
    return np.where(np.isfinite(numbers), numbers, None).tolist()
