"""Silverbox, F-16 and MNIST: the pinned files (files.toml), and said so where not.

Without them the two measured systems fall back on a simulation of the same physics, labelled
data="simulated"; MNIST has no double and raises `DataMissing`. No data is committed.
"""

import gzip
import io
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from sonode_utils.data import standins
from sonode_utils.data.fetch import DataMissing, Source, WrongFile, find, warn_once

TABLE = tomllib.loads(Path(__file__).with_name("files.toml").read_text("utf8"))
FILES = {key: Source(**{**row, "urls": tuple(row["urls"])}) for key, row in TABLE.items()}
MNIST = ("train_images", "train_labels", "test_images", "test_labels")


class Record(SimpleNamespace):
    """Arrays by name, rate in Hz, data ("real", or "simulated" for a stand-in), provenance."""


def silverbox() -> Record:
    """An electronic Duffing oscillator: input u and output y in volts, (131072,) each.

    First the arrow-head (40,500 rows of growing noise), then ten multisines of 8,692 rows.
    """
    columns, source = _signals("silverbox", ("V1", "V2"))
    u, y = columns or standins.silverbox_signals()
    return Record(u=u, y=y, rate=standins.SILVERBOX_RATE, **source)


def f16() -> Record:
    """Ground vibration of an F-16, nine periods of a multisine from 2 to 15 Hz, lowest level.

    Shaker force (N) and voltage (V), accelerations at the shaker (1) and at both sides of the
    wing-to-payload joint (2, 3): (73728,) each.
    """
    names = ("Force", "Voltage", "Acceleration1", "Acceleration2", "Acceleration3")
    columns, source = _signals("f16", names)
    fields = [name.lower() for name in names]
    signals = dict(zip(fields, columns)) if columns else standins.f16_signals()
    return Record(**{f: signals[f] for f in fields}, rate=standins.F16_RATE, **source)


def mnist() -> Record:
    """Handwritten digits: images uint8 (n, 28, 28), labels uint8 (n,), n = 60000 and 10000."""
    found = {part: find(FILES[part]) for part in MNIST}
    arrays = {part: read_idx(gzip.decompress(content)) for part, (content, _) in found.items()}
    places = ", ".join(dict.fromkeys(place for _, place in found.values()))
    return Record(**arrays, data="real", provenance=f"original idx files, {places}")


def _signals(key, names):
    """(columns or None, {data, provenance}) of a pinned CSV file."""
    source = FILES[key]
    try:
        content, place = find(source)
    except DataMissing as missing:
        warn_once(f"{missing}\nUsing a SIMULATED stand-in of the same physics.")
        return None, {"data": "simulated", "provenance": f"stand-in for {source.name}"}
    return read_csv(content, names), {"data": "real", "provenance": f"{source.name}, {place}"}


def read_csv(content: bytes, names: Sequence[str]) -> list[np.ndarray]:
    """The leading columns of a CSV file, whose header must name them: (row,) each."""
    header = content.split(b"\n", 1)[0].decode("utf8", "replace")
    found = tuple(field.strip().strip('"') for field in header.split(","))
    if found[: len(names)] != tuple(names):
        raise WrongFile(f"the header is {header[:80]!r}, not {', '.join(names)}")
    columns = range(len(names))
    table = np.loadtxt(io.BytesIO(content), delimiter=",", skiprows=1, usecols=columns, ndmin=2)
    table.flags.writeable = False
    return list(table.T)


def read_idx(content: bytes) -> np.ndarray:
    """The array in an idx file of bytes: magic 0 0 8 ndim, the sizes, then the bytes."""
    ndim = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    start = 4 + 4 * ndim
    shape = np.frombuffer(content[4:start].ljust(4 * ndim, b"\0"), ">u4")
    if not ndim or len(content) != start + int(np.prod(shape)):
        raise WrongFile("not an idx file of bytes, or not all of it")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
