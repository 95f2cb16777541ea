"""The long MNIST training: runs that survive kill -9, and say why they cannot go on."""

import json
import os
import signal
import subprocess
import sys
import types
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

TOOLS = str(Path(__file__).parents[2] / "tools")
sys.path.insert(0, TOOLS)
import train_mnist  # noqa: E402
from locks import Busy, locked  # noqa: E402
from train_mnist import Run, Trainer, random_crop, rate_at  # noqa: E402

from sonode_utils.chapters import mnist  # noqa: E402
from sonode_utils.data import measured  # noqa: E402


def test_a_crop_moves_an_image_by_four_pixels_at_most():
    image = torch.rand(1, 1, 28, 28)
    canvas = torch.nn.functional.pad(image, (4, 4, 4, 4))[0, 0]
    places = [canvas[i : i + 28, j : j + 28] for i in range(9) for j in range(9)]
    crops = random_crop(image.repeat(400, 1, 1, 1), torch.Generator().manual_seed(0))[:, 0]
    hits = torch.stack([(crops == place).all(-1).all(-1) for place in places])
    assert hits.sum(0).eq(1).all() and hits.any(1).sum() > 75


def test_the_tight_change_counts_the_classes_that_turn():
    class Sloppy(torch.nn.Module):
        def forward(self, images, tol=1e-3):
            turned = torch.arange(len(images)) < (1 if tol < 1e-6 else 0)
            return torch.nn.functional.one_hot(turned.long(), 10)

    assert train_mnist.tight_change(Sloppy(), torch.zeros(4, 1, 28, 28)) == 0.25


def test_the_rate_falls_after_60_and_100_of_120_epochs():
    rates = [rate_at(epoch / 120) for epoch in range(120)]
    assert rates == pytest.approx([0.1] * 60 + [0.01] * 40 + [0.001] * 20)


# Runs: 32 made-up images, batches of 8, two epochs.
PRELUDE = """
import os, signal, sys, types
import numpy as np
sys.path.insert(0, {tools!r})
import train_mnist
from sonode_utils.chapters import mnist
from sonode_utils.data import measured

def made_up():
    rng = np.random.default_rng(0)
    images = lambda n: rng.integers(256, size=(n, 28, 28)).astype(np.uint8)
    labels = lambda n: rng.integers(10, size=n).astype(np.uint8)
    return types.SimpleNamespace(train_images=images(32), train_labels=labels(32),
                                 test_images=images(5), test_labels=labels(5))

measured.mnist, train_mnist.BATCH, train_mnist.tight_change = made_up, 8, lambda *_: 0.0
""".replace("{tools!r}", repr(TOOLS))
IN_THE_SECOND_EPOCH = """
step, calls = mnist.sgd_step, []
def killed(*arguments):
    calls.append(1)
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(*arguments)
mnist.sgd_step = killed
"""
BETWEEN_CHECKPOINT_AND_ROWS = """
write_json = train_mnist.write_json
def killed(path, rows):
    if len(rows) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write_json(path, rows)
train_mnist.write_json = killed
"""
WHILE_WRITING_THE_CHECKPOINT = """
def killed(state, path):
    open(path, "wb").write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
train_mnist.torch.save = killed
"""
SETTINGS = ["--model", "node", "--epochs", "2", "--images", "32"]


@contextmanager
def prelude():
    """The same in this process, undone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for holder, name in (
            (train_mnist, "BATCH"),
            (train_mnist, "tight_change"),
            (measured, "mnist"),
        ):
            patch.setattr(holder, name, getattr(holder, name))
        exec(PRELUDE, {})
        yield


@pytest.fixture
def made_up():
    with prelude():
        yield


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Both epochs in one go: nothing is read back from a file."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    with prelude():
        digits, run = mnist.load_digits(32), Run("node", 2, 0, 32)
        train_mnist.train(run, digits, checkpoints=folder, rows=folder)
    return outcome(folder)


def run(folder):
    train_mnist.main([*SETTINGS, "--checkpoints", str(folder), "--rows", str(folder)])
    return outcome(folder)


def outcome(folder):
    """The last checkpoint, and the rows without their times."""
    state = torch.load(folder / "node_2epochs_seed0.pt", weights_only=True)
    rows = json.loads((folder / "node_2epochs_seed0.json").read_text())
    return state, [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]


def run_killed(folder, sabotage):
    script = (
        f"{PRELUDE}{sabotage}train_mnist.main({SETTINGS} + {['--checkpoints', str(folder)]}"
    )
    script += f" + {['--rows', str(folder)]})"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize(
    "sabotage, epochs_kept",
    [
        (IN_THE_SECOND_EPOCH, 1),
        (BETWEEN_CHECKPOINT_AND_ROWS, 2),
        (WHILE_WRITING_THE_CHECKPOINT, 0),
    ],
    ids=["in the second epoch", "between checkpoint and rows", "while writing"],
)
def test_a_run_killed_and_started_again_ends_bit_for_bit_as_if_it_had_not_been(
    sabotage, epochs_kept, tmp_path, uninterrupted, made_up
):
    expected, expected_rows = uninterrupted
    run_killed(tmp_path, sabotage)
    path = tmp_path / "node_2epochs_seed0.pt"
    kept = len(torch.load(path, weights_only=True)["rows"]) if path.exists() else 0
    assert kept == epochs_kept
    state, rows = run(tmp_path)
    assert rows == expected_rows and [row["epoch"] for row in rows] == [1, 2]
    assert torch.equal(state["random"], expected["random"])
    for name, weight in expected["weights"].items():
        assert torch.equal(state["weights"][name], weight), name
    momenta = (s["optimiser"]["state"].values() for s in (state, expected))
    assert all(
        torch.equal(a["momentum_buffer"], b["momentum_buffer"]) for a, b in zip(*momenta)
    )


def test_a_finished_run_is_left_as_it_is(tmp_path, made_up):
    before = run(tmp_path)
    modified = (tmp_path / "node_2epochs_seed0.pt").stat().st_mtime_ns
    assert run(tmp_path)[1] == before[1]
    assert (tmp_path / "node_2epochs_seed0.pt").stat().st_mtime_ns == modified


def train_nothing(folder, run):
    """Ask for a run without any data: enough where it is refused at the door."""
    digits = mnist.Digits(*torch.zeros(4, 0))
    return train_mnist.train(run, digits, checkpoints=folder, rows=folder)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    old = Trainer(Run("node", 3, 0, images=128))
    torch.save(old.state(), tmp_path / "node_3epochs_seed0.pt")
    with pytest.raises(Busy, match="of another run: images 128, not 60000"):
        train_nothing(tmp_path, Run("node", 3, 0))


@pytest.mark.parametrize("content", [b"", b"half a file", b"PK\x03\x04"])
def test_a_corrupt_checkpoint_is_refused_and_kept(content, tmp_path):
    path = tmp_path / "node_3epochs_seed0.pt"
    path.write_bytes(content)
    with pytest.raises(Busy, match="cannot be read as a checkpoint"):
        train_nothing(tmp_path, Run("node", 3, 0))
    assert path.read_bytes() == content


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    torch.save({"run": types.SimpleNamespace()}, tmp_path / "node_3epochs_seed0.pt")
    with pytest.raises(Busy, match="UnpicklingError"):
        train_nothing(tmp_path, Run("node", 3, 0))


def test_two_runs_on_one_checkpoint_are_refused_and_the_lock_ends_with_the_first(tmp_path):
    lock = tmp_path / "node_3epochs_seed0.lock"
    with locked(lock, ""), pytest.raises(Busy, match="another process"):
        train_nothing(tmp_path, Run("node", 3, 0))
    with locked(lock, ""):
        pass


def test_models_and_seeds_take_turns_of_one_epoch(monkeypatch):
    turns = []
    monkeypatch.setattr(mnist, "load_digits", lambda *arguments: None)
    monkeypatch.setattr(
        train_mnist,
        "train",
        lambda run, data, until, **_: turns.append((until, run.seed, run.model)),
    )
    train_mnist.main(["--model", "node", "anode", "--epochs", "2", "--seed", "5", "6"])
    assert turns == [(e, s, m) for e in (1, 2) for s in (5, 6) for m in ("node", "anode")]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("", "arguments are required: --model"),
        ("--model resnet", "invalid choice: 'resnet'"),
        ("--model node --epochs 0", "--epochs 0: there must be 1 or more"),
        ("--model node --epochs many", "invalid int value: 'many'"),
        ("--model node --seed 0 -1", "--seed -1: seeds are 0 or more"),
        ("--model node --images 100", "--images 100: from 128"),
        ("--model node --images 70000", "to 60000"),
        ("--model node --device cuda", "torch finds no such device"),
    ],
)
def test_wrong_arguments_are_named(arguments, words, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(mnist, "load_digits", None)  # nothing may begin
    with pytest.raises(SystemExit):
        train_mnist.main(arguments.split())
    assert words in capsys.readouterr().err


def test_missing_data_ends_the_command_in_one_line(monkeypatch):
    def missing():
        raise measured.DataMissing("no MNIST here")

    monkeypatch.setattr(measured, "mnist", missing)
    with pytest.raises(SystemExit, match="mnist: no MNIST here"):
        train_mnist.main(["--model", "node"])


def test_a_full_disk_ends_a_run_with_a_word_and_keeps_the_last_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "load_digits", lambda *arguments: None)

    def full(*arguments, **settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(train_mnist, "train", full)
    with pytest.raises(SystemExit, match=r"No space left on device.*epoch is safe"):
        train_mnist.main(["--model", "node", "--checkpoints", str(tmp_path)])


def test_a_run_stopped_by_hand_says_how_to_go_on(monkeypatch):
    monkeypatch.setattr(mnist, "load_digits", lambda *arguments: None)

    def stopped(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_mnist, "train", stopped)
    with pytest.raises(SystemExit, match="the same command goes on from the last whole epoch"):
        train_mnist.main(["--model", "node"])
