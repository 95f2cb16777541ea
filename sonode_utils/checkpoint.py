"""Files of a long run: written whole or not at all, read without running any code."""

import csv
from pathlib import Path

import torch

from sonode_utils.files import Refused, alone, whole

TEXT = ("model", "device", "torch", "torchdiffeq")  # columns that are no numbers


def lock(path):
    """Keep a second process from the same checkpoint."""
    return alone(path.with_suffix(".lock"), f"another process is training {path}")


def load(path, settings):
    """The state saved at `path`, if it is of a run with these settings."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        saved = dict(state["run"])
    except Exception as error:
        raise Refused(
            f"{path} cannot be read as a checkpoint ({type(error).__name__}); "
            "move it away to begin this run again"
        ) from error
    other = [f"{k} {saved.get(k)}, not {v}" for k, v in settings.items() if saved.get(k) != v]
    if other:
        raise Refused(f"{path} is of another run: {'; '.join(other)}")
    return state


def save(path, state):
    with whole(path) as draft:
        torch.save(state, draft)


def save_rows(path, rows):
    """rows: dicts with the same keys, the columns of the table."""
    with whole(path) as draft, open(draft, "w", newline="", encoding="utf8") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def read_rows(folder):
    """The rows of all runs in a folder, numbers as floats, courses as lists of them."""
    rows = []
    for path in sorted(Path(folder).glob("*.csv")):
        with open(path, newline="", encoding="utf8") as file:
            rows += [{k: _value(k, v) for k, v in row.items()} for row in csv.DictReader(file)]
    return rows


def read_runs(folder, **settings):
    """{(model, seed): its rows, epoch by epoch} of the runs with these settings."""
    runs = {}
    for row in sorted(read_rows(folder), key=lambda row: row["epoch"]):
        if all(row[name] == value for name, value in settings.items()):
            runs.setdefault((row["model"], int(row["seed"])), []).append(row)
    return runs


def _value(name, text):
    if name in TEXT:
        return text
    return [float(v) for v in text.split()] if name.endswith("_course") else float(text)
