"""Records on the disk: found from the working directory, read with care, written whole."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEPT = ("paper", "confirm")  # the profiles whose records the book keeps


class Damaged(ValueError):
    """A file of records cannot be read; the message names it and says what to do."""


def records_folder() -> Path:
    """book/results, in the working directory or above it."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (found := folder / "book" / "results").is_dir():
            return found
    raise FileNotFoundError("no book/results here or above: work inside a checkout of the book")


def read_json(path: Path) -> Any:
    """What a file of JSON holds; Damaged where it is not all there."""
    try:
        return json.loads(Path(path).read_text("utf8"))
    except ValueError as error:
        raise Damaged(
            f"{path} is damaged ({error}). Take the stored version back with "
            f"`git checkout -- {path}`, or run its notebook again with `make reproduce`."
        ) from None


def writable(folder: Path, name: str) -> Path:
    """The folder, made if need be; ValueError with its name where nothing can be written."""
    probe = Path(folder, f".{os.getpid()}.draft")
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = f"nothing can be written there ({error.strerror})"
        raise ValueError(f"{name} = {str(folder)!r}: {reason}. Name another folder.") from None
    return Path(folder)


def worse(old: dict | None, new: dict) -> str:
    """Why a record may not take the place of a stored one; "" where it may."""
    if new["profile"] not in KEPT:
        return f"it ran with the profile {new['profile']}, and the book keeps the paper's"
    if old and old["data"] == "real" != new["data"]:
        return (
            "it ran on stand-ins of the data, and the stored record on the real ones; put "
            "them into a folder and name it in SONODE_DATA_DIR"
        )
    return ""


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


def write_json(path: Path, content: Any, indent: int | None = 1) -> None:
    """Write JSON whole or not at all."""
    with write_whole(path) as draft:
        draft.write_text(json.dumps(content, indent=indent, allow_nan=False) + "\n", "utf8")
