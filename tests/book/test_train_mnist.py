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
store_rows = train_mnist.store_rows
def killed(path, rows):
    if len(rows) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    store_rows(path, rows)
train_mnist.store_rows = killed
"""
WHILE_WRITING_THE_CHECKPOINT = """
from pathlib import Path
def killed(path, content):
    open(path, "wb").write(content[:9])
    os.kill(os.getpid(), signal.SIGKILL)
Path.write_bytes = killed
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


def load(path):
    return train_mnist.load_checkpoint(path, {})


def outcome(folder):
    """The last checkpoint, and the rows without their times."""
    state = load(folder / "node_2epochs_seed0.pt")
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
    kept = len(load(path)["rows"]) if path.exists() else 0
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
    train_mnist.save_checkpoint(tmp_path / "node_3epochs_seed0.pt", old.state())
    with pytest.raises(Busy, match="of another run: images 128, not 60000"):
        train_nothing(tmp_path, Run("node", 3, 0))


def flipped(content):
    """The same file with one bit of a weight turned."""
    return content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]


def lacking(content):
    """A whole checkpoint that has no optimiser."""
    state = Trainer(Run("node", 3, 0)).state()
    del state["optimiser"]
    return state


def harmful(content):
    """A whole checkpoint that would run code."""
    return {"run": types.SimpleNamespace()}


@pytest.mark.parametrize(
    "damage, why",
    [
        (flipped, "its sha256 is not the one it was saved with"),
        (lambda content: content[:-100], "its sha256"),
        (lambda content: b"", "its sha256"),
        (lacking, "KeyError: 'optimiser'"),
        (harmful, "UnpicklingError"),
    ],
    ids=["a flipped bit", "cut short", "empty", "without a key", "with code"],
)
def test_a_damaged_checkpoint_is_named_put_aside_and_not_used(damage, why, tmp_path):
    path = tmp_path / "node_3epochs_seed0.pt"
    train_mnist.save_checkpoint(path, Trainer(Run("node", 3, 0)).state())
    bad = damage(path.read_bytes())
    path.write_bytes(bad) if isinstance(bad, bytes) else train_mnist.save_checkpoint(path, bad)
    before = path.read_bytes()
    with pytest.raises(Busy) as refused:
        train_nothing(tmp_path, Run("node", 3, 0))
    assert why in str(refused.value) and str(path) in str(refused.value)
    assert not path.exists() and path.with_suffix(".damaged").read_bytes() == before


def test_a_run_that_begins_again_keeps_the_longer_table_of_rows(tmp_path):
    table = tmp_path / "rows.json"
    for rows, kept in (([{"a": 1}] * 2, 2), ([{"a": 2}], 2), ([{"a": 3}] * 3, 3)):
        train_mnist.store_rows(table, rows)
        assert len(json.loads(table.read_text())) == kept


@pytest.mark.parametrize("content", ["[{}]", "[", '{"model": "node"}', "[[1]]"])
def test_a_damaged_table_of_rows_is_named(content, tmp_path):
    (tmp_path / "node_3epochs_seed0.json").write_text(content)
    with pytest.raises(ValueError, match=r"seed0\.json is not whole .*git checkout"):
        mnist.read_runs(tmp_path, epochs=3)


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
