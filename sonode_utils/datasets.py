"""Silverbox, F-16 and MNIST: the real files where they can be had, and said so where not.

`fetch.py` looks for the pinned files. Without them the two measured systems fall back on a
simulation of the same physics (`standins.py`), labelled data="simulated"; MNIST has no
double and raises `DataMissing`. Nothing of the data is committed.
"""

import gzip
import io
from dataclasses import dataclass

import numpy as np

from sonode_utils import standins
from sonode_utils.fetch import DataMissing, Source, WrongFile, find, say

__all__ = ["F16", "MNIST", "DataMissing", "Silverbox", "WrongFile", "f16", "mnist", "silverbox"]

REPOSITORY = (  # the authors' public one; both files are unchanged since this commit
    "https://raw.githubusercontent.com/a-norcliffe/sonode/"
    "d373ebf7f8ce43aba91ab1c78e88a3a43e89875b/experiments/"
)
SILVERBOX_FILE = Source(
    name="SNLS80mV.csv",
    sha256="ae62d5a91230c10f76e6dd02c8a4fac3c9d4d8a95fbf50e87cb0c4885003e0f1",
    size=2_649_634,
    urls=(REPOSITORY + "silverbox/SNLS80mV.csv",),
)
F16_FILE = Source(
    name="F16Data_FullMSine_Level1.csv",
    sha256="b72a9d063e392570bb20c26f4763232e30262e5914d946e475e67df40880db6d",
    size=3_361_461,
    urls=(REPOSITORY + "plane_vibrations/F16Data_FullMSine_Level1.csv",),
)
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MNIST_FILES = {
    part: Source(name, sha256, size, tuple(mirror + name for mirror in MIRRORS))
    for part, name, size, sha256 in (
        ("train_images", "train-images-idx3-ubyte.gz", 9_912_422,
         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        ("train_labels", "train-labels-idx1-ubyte.gz", 28_881,
         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ("test_images", "t10k-images-idx3-ubyte.gz", 1_648_877,
         "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        ("test_labels", "t10k-labels-idx1-ubyte.gz", 4_542,
         "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    )
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Silverbox:
    """An electronic Duffing oscillator: input V1 and output V2 in volts, (131072,) each.

    Rows 0 to 40,500 are the arrow-head (noise of growing amplitude), then come ten odd
    random multisines of 8,692 rows. data is "real", or "simulated" for the stand-in.
    """

    u: np.ndarray
    y: np.ndarray
    rate: float  # Hz
    data: str
    provenance: str
    licence: str = (
        "No explicit licence found: the benchmark's page asks to be cited. The MIT licence "
        "of the repository that holds the file speaks of software."
    )
    citation: str = (
        "T. Wigren and J. Schoukens, Three free data sets for development and benchmarking "
        "in nonlinear system identification, European Control Conference, 2013"
    )


@dataclass(frozen=True, eq=False)
class F16:
    """Ground vibration of an F-16: shaker force (N) and voltage (V), accelerations at the
    shaker (1) and at both sides of the wing-to-payload joint (2, 3), (73728,) each.

    Nine periods of 8,192 rows of a multisine from 2 to 15 Hz at the lowest level. data is
    "real", or "simulated" for the stand-in.
    """

    force: np.ndarray
    voltage: np.ndarray
    acceleration1: np.ndarray
    acceleration2: np.ndarray
    acceleration3: np.ndarray
    rate: float  # Hz
    data: str
    provenance: str
    licence: str = (
        "No explicit licence found with the file: the MIT licence of the repository that "
        "holds it speaks of software, and the terms of the benchmark's archive "
        "(4TU.ResearchData 12954911) were not verified."
    )
    citation: str = (
        "J.-P. Noel and M. Schoukens, F-16 aircraft benchmark based on ground vibration "
        "test data, Workshop on Nonlinear System Identification Benchmarks, 2017"
    )


@dataclass(frozen=True, eq=False)
class MNIST:
    """Handwritten digits: images uint8 (n, 28, 28), labels uint8 (n,), n = 60000 and 10000."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    data: str
    provenance: str
    licence: str = (
        "No licence is stated with the original files; some who pass them on name CC BY-SA 3.0."
    )
    citation: str = (
        "Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Gradient-based learning applied to "
        "document recognition, Proceedings of the IEEE 86 (11), 1998"
    )


def silverbox():
    """The Silverbox record, or its simulated stand-in. -> Silverbox"""
    columns, data, provenance = _signals(SILVERBOX_FILE, ("V1", "V2"), 131_072)
    u, y = columns or standins.silverbox_signals()
    return Silverbox(u, y, standins.SILVERBOX_RATE, data, provenance)


def f16():
    """The F-16 record at the lowest level, or its simulated stand-in. -> F16"""
    names = "Force", "Voltage", "Acceleration1", "Acceleration2", "Acceleration3"
    columns, data, provenance = _signals(F16_FILE, names, 73_728)
    columns = columns or [standins.f16_signals()[name.lower()] for name in names]
    return F16(*columns, standins.F16_RATE, data, provenance)


def mnist():
    """The four MNIST files. Raises DataMissing where they cannot be had. -> MNIST"""
    found = {part: find(source) for part, source in MNIST_FILES.items()}
    arrays = {part: read_idx(gzip.decompress(f.content)) for part, f in found.items()}
    for part, n in ("train", 60_000), ("test", 10_000):
        shapes = arrays[f"{part}_images"].shape, arrays[f"{part}_labels"].shape
        if shapes != ((n, 28, 28), (n,)):
            raise WrongFile(f"MNIST {part}: shapes {shapes}, not {n} digits of 28 by 28")
    places = ", ".join(dict.fromkeys(f.place for f in found.values()))
    return MNIST(**arrays, data="real", provenance=f"original idx files, {places}")


def _signals(source, names, rows):
    """(columns or None, "real" or "simulated", provenance) of a pinned CSV file."""
    try:
        found = find(source)
    except DataMissing as missing:
        say(f"{missing}\nUsing a SIMULATED stand-in; claims about real data are not judged.")
        return None, "simulated", f"simulated stand-in for {source.name}"
    columns = read_csv(found.content, names)
    if len(columns[0]) != rows:
        raise WrongFile(f"{source.name}: {len(columns[0]):,} rows, not {rows:,}")
    return columns, "real", f"{source.name}, {found.place}, sha256 {source.sha256[:12]}..."


def read_csv(content, names):
    """The named columns of a CSV file with a header line: one array (row,) a name.

    Only the leading columns are read; trailing commas and blank lines do not matter.
    """
    header = content.split(b"\n", 1)[0].decode("utf8", "replace")
    found = tuple(field.strip().strip('"') for field in header.split(","))
    if found[: len(names)] != tuple(names):
        raise WrongFile(f"the header is {header[:80]!r}, not {', '.join(names)}")
    columns = range(len(names))
    table = np.loadtxt(io.BytesIO(content), delimiter=",", skiprows=1, usecols=columns, ndmin=2)
    table.flags.writeable = False
    return list(table.T)


def read_idx(content):
    """The array in an idx file of bytes: magic 0 0 8 ndim, the sizes, then the bytes."""
    ndim = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    start = 4 + 4 * ndim
    shape = np.frombuffer(content[4:start].ljust(4 * ndim, b"\0"), ">u4")
    if not ndim or len(content) != start + int(np.prod(shape)):
        raise WrongFile("not an idx file of bytes, or not all of it")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
