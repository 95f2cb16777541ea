"""Named random streams: no two uses of randomness in the book share one."""

import re
from collections import Counter
from hashlib import sha256
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

from sonode_utils.chapters.driven import DrivenModel
from sonode_utils.data import systems
from sonode_utils.ensemble import EnsembleMLP, normal, stream, streams, uniform

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SEEDS = [*range(50), *range(20_000, 20_050)]
ATTEMPTS = range(20)


def test_a_stream_has_the_same_numbers_whatever_was_drawn_before_or_beside_it():
    expected = stream("test", 3, 7).random(5)
    for neighbour in streams("test", range(5), 7):
        neighbour.random(11)
    np.testing.assert_array_equal(streams("test", [9, 3, 0], 7)[1].random(5), expected)


def test_the_state_of_a_stream_is_the_hash_of_its_name():
    name = b'["parity points", 7, 3, "NODE"]'
    seed = int.from_bytes(sha256(name).digest(), "big")
    assert state(stream("parity points", 7, 3, "NODE")) == state(np.random.PCG64(seed))


def state(rng):
    """The two numbers of 128 bits that decide all that is drawn."""
    return tuple(getattr(rng, "bit_generator", rng).state["state"].values())


NAMES = {
    "digits move between indices": (("a", 1, 23), ("a", 12, 3)),
    "digits move between seed and index": (("a", 1, 2), ("a", 12)),
    "purpose ends in digits": (("a1", 2), ("a", 12)),
    "purpose holds a separator": (("a, 1", 2), ("a", 1, 2)),
    "purpose holds a quote": (('a", 1, "b', 2), ("a", 1, "b", 2)),
    "a word that is a number": (("a", 1, "2"), ("a", 1, 2)),
    "indices change places": (("a", 1, 2, 3), ("a", 1, 3, 2)),
    "an index of 0": (("a", 1, 0), ("a", 1)),
    "an empty index": (("a", 1, ""), ("a", 1)),
    "a sign": (("a", -1), ("a", 1)),
    "capitals": (("A", 1), ("a", 1)),
    "the 32 bits that torch keeps": (("a", 1), ("a", 1 + 2**32)),
}


@pytest.mark.parametrize("one, other", NAMES.values(), ids=NAMES)
def test_names_that_look_alike_have_streams_of_their_own(one, other):
    assert state(stream(*one)) != state(stream(*other))


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert state(stream("a", np.int64(3), np.int32(4))) == state(stream("a", 3, 4))


WRONG = {
    "purpose": ((3, 3), "purpose accepts a string, not 3"),
    "fraction": (("a", 1.0), "seed accepts a whole number, not 1.0"),
    "word": (("a", "1"), "seed accepts a whole number, not '1'"),
    "sigma": (("a", 1, 0.1), r"indices accepts whole numbers and strings, not \(0.1,\)"),
    "nothing": (("a", 1, None), "indices accepts whole numbers and strings"),
}


@pytest.mark.parametrize("name, words", WRONG.values(), ids=WRONG)
def test_a_wrong_name_is_refused_with_what_is_accepted(name, words):
    with pytest.raises(TypeError, match=words):
        stream(*name)


def noise(rng):
    """(member, time)."""
    return systems.noisy_sine([1] * len(rng), rng, torch.arange(4.0))[..., 0, 0].T


DRAWS = {
    "weights": lambda rng: EnsembleMLP(3, 2, rng).layers[0].weight.detach(),
    "driven weights": lambda rng: DrivenModel("ANODE", rng).weight.detach(),
    "parity": lambda rng: systems.parity([2] * len(rng), rng, points=5),
    "spheres": lambda rng: systems.nested_spheres(2, rng, 6)[0],
    "starts": lambda rng: systems.oscillator_starts(rng, 5),
    "noise": noise,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_member_draws_the_same_alone_and_in_any_company(draw):
    alone, among = draw(streams("test", [4])), draw(streams("test", [9, 4, 0]))
    assert torch.equal(among[1:2], alone)


def test_uniform_and_normal_numbers_are_distributed_so():
    u, z = (draw(100_000, stream("test", 0)) for draw in (uniform, normal))
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.005
    assert abs(u.var() - 1 / 12) < 0.001
    assert abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.02 and abs((z**4).mean() - 3) < 0.2


# --- the whole book ---------------------------------------------------------------------


def shared_purposes(opened):
    """The purposes that more than one place in the code uses: {purpose: places}."""
    places = {}
    for purpose, _, _, place in opened:
        places.setdefault(purpose, set()).add(place)
    return {purpose: found for purpose, found in places.items() if len(found) > 1}


def opened_again(opened):
    """The purposes of which some stream is opened more than once."""
    count = Counter((purpose, seed, indices) for purpose, seed, indices, _ in opened)
    return {purpose for (purpose, *_), n in count.items() if n > 1}


def names(opened):
    """All names that follow: other seeds, and whole indices from 0 on, seen or not."""
    found = set()
    for purpose, indices in {(purpose, indices) for purpose, _, indices, _ in opened}:
        kinds = {indices}
        for k, index in enumerate(indices):
            if isinstance(index, int):
                kinds |= {(*indices[:k], n, *indices[k + 1 :]) for n in ATTEMPTS}
        found |= {(purpose, seed, *kind) for kind in kinds for seed in SEEDS}
    return found


@pytest.fixture(scope="module")
def runs(smoke_runs):
    """The streams that each run of each notebook opened: (purpose, seed, indices, place)."""

    def named(stem, streams):
        # The file of a cell is named after its kernel: here it is named after its notebook.
        return [
            (purpose, seed, tuple(indices), re.sub(r"^.*ipykernel_\d+/", f"{stem}/", place))
            for purpose, seed, indices, place in streams
        ]

    done = [(path.stem, run["streams"]) for path in NOTEBOOKS for run in smoke_runs(path)]
    return [named(*run) for run in done]


@pytest.fixture(scope="module")
def opened(runs):
    return [one for run in runs for one in run]


def test_every_purpose_stands_at_one_place_of_one_notebook(opened):
    assert len(opened) > 1000
    assert not shared_purposes(opened)


def test_no_two_streams_of_the_book_are_alike_for_any_seed_or_attempt(opened):
    """Seeds of the book and of the confirming run, by their names alone: nothing is run."""
    every = names(opened)
    assert len({state(stream(*name)) for name in every}) == len(every) > 10_000


ON_PURPOSE = {
    # One network, solved, differentiated or priced in several ways.
    "adjoint: direction of a difference", "adjoint: f", "adjoint: g, s and data",
    "adjoint: start of a pass", "adjoint: state of an evaluation", "adjoint: weights to count",
    # One start, trained on other data, at other rates, by other rules or again.
    "Silverbox benchmark, Duffing weights", "exponential, weights", "nested spheres, flow",
    "nested spheres, read-out", "oscillators, weights", "planar orbit, weights",
    "real systems, weights", "third order, weights", "van der Pol, weights",
    # The same trials, test data or resampling for all that are compared.
    "bootstrap of a Lyapunov exponent",
    "starts of planar orbits", "third order, trial poles",
    # Never used.
    "real systems, numbers to be replaced",
}  # fmt: skip


def test_a_stream_is_opened_again_only_where_draws_are_shared_on_purpose(runs):
    assert set().union(*map(opened_again, runs)) <= ON_PURPOSE


def test_two_places_with_one_purpose_are_found():
    here, there = (
        ("weights", 0, ("NODE",), "a.py:1: x"),
        ("weights", 0, ("SONODE",), "b.py:2: y"),
    )
    assert shared_purposes([here, there]) == {"weights": {"a.py:1: x", "b.py:2: y"}}
    assert not shared_purposes([here, here])


def test_an_index_that_was_forgotten_is_found():
    """The same draws in every dimension."""
    points = [("points", seed, (), "a.py:1: x") for _ in (1, 2) for seed in range(3)]
    assert opened_again(points) == {"points"} and not opened_again(points[:3])


def test_names_that_follow_have_other_seeds_and_attempts():
    found = names([("weights", 0, ("NODE", 1), "a.py:1: x")])
    assert {("weights", 20_049, "NODE", 19), ("weights", 0, "NODE", 0)} <= found
    assert len(found) == len(SEEDS) * len(ATTEMPTS)


OTHER = re.compile(
    r"\bgenerators\(|manual_seed|default_rng|\btorch\.(rand\w*|normal|Generator)\(|nn\.init\."
    r"|np\.random\.(?!Generator\b|PCG64\b)|\d_000_000 *[+*]"
)
ALLOWED = {
    "chapters/mnist.py": "the stored runs of chapter E4 were drawn so",
    "00_models.ipynb": "shows plain torch, before any code of ours",
    "E4_mnist.ipynb": "goes on with the stream of those runs",
    "evidence/verdicts.py": "its fixed resamples, from which no word follows",
    "evidence/compare.py": "its fixed divisions, declared with the rule",
}


def test_nothing_in_the_book_draws_but_from_a_named_stream():
    folders = {"notebooks": "*.ipynb", "sonode_utils": "**/*.py", "benchmarks": "*.py"}
    files = [path for folder, kind in folders.items() for path in (ROOT / folder).glob(kind)]
    found = {str(path): OTHER.findall(source(path)) for path in files}
    others = [p for p, hits in found.items() if hits and not p.endswith(tuple(ALLOWED))]
    assert not others


def source(path):
    """The code of a file, or of a notebook's cells."""
    if path.suffix == ".py":
        return path.read_text("utf8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")
