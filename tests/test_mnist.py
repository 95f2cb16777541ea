"""MNIST: the networks against plain torch, and runs that survive kill -9."""

import os
import signal
import subprocess
import sys
import types
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchdiffeq import odeint

from sonode_utils import checkpoint, mnist
from sonode_utils.conv import MODELS, Classifier, Norm, TimeConv
from sonode_utils.files import Refused
from sonode_utils.mnist import Run, Trainer, random_crop, rate_at


def plain(z):
    """(36, batch, channel) -> (batch, channel, 6, 6)"""
    return z.permute(1, 2, 0).unflatten(2, (6, 6))


def rough_(module):
    """Weights of no special form, in double precision: no gradient vanishes by luck."""
    for p in module.double().parameters():
        p.data += 0.05 * torch.randn_like(p)
    return module


@pytest.mark.parametrize(
    "model, count", [("node", 208266), ("sonode", 283658), ("anode", 210626)]
)
def test_the_models_have_the_papers_parameter_counts(model, count):
    assert sum(p.numel() for p in Classifier(model).parameters()) == count


def test_an_acceleration_of_position_and_velocity_has_more_parameters_than_the_papers():
    count = sum(p.numel() for p in Classifier("sonode-xv").parameters())
    assert count == 283658 + 64 * 64 * 9 + 2 * 64  # a kernel and a norm for 64 more channels


def test_the_convolution_is_torchs_with_t_as_the_first_channel():
    torch.manual_seed(0)
    conv, z = TimeConv(5, 7).double(), torch.randn(36, 3, 5).double()
    with_t = torch.cat([torch.full((3, 1, 6, 6), 0.3, dtype=torch.double), plain(z)], 1)
    expected = F.conv2d(with_t, conv.weight, conv.bias, padding=1)
    assert torch.allclose(plain(conv.prepare()(0.3, z)), expected, atol=1e-12)


@pytest.mark.parametrize("channels, groups, relu", [(64, 32, True), (65, 65, False)])
def test_the_norm_and_its_gradients_are_torchs(channels, groups, relu):
    torch.manual_seed(0)
    norm, z = rough_(Norm(channels, relu)), 1 + 2 * torch.randn(36, 3, channels).double()
    inputs = [z.requires_grad_(), norm.weight, norm.bias]
    ours, theirs = norm(z), F.group_norm(plain(z), groups, norm.weight, norm.bias)
    theirs = (theirs.relu() if relu else theirs).flatten(2).permute(2, 0, 1)
    assert torch.allclose(ours, theirs, atol=1e-12)
    towards = torch.randn_like(ours)
    for a, b in zip(*(torch.autograd.grad(y, inputs, towards) for y in (ours, theirs))):
        assert torch.allclose(a, b, atol=1e-10)


def written_plainly(classifier, images):
    """Logits and NFE of the same weights by nn.functional and torchdiffeq alone."""
    nfe = 0

    def norm(m, z):
        return F.group_norm(z, m.num_groups, m.weight, m.bias)

    def conv(m, t, z):
        with_t = torch.cat([torch.ones_like(z[:, :1]) * t, z], 1)
        return F.conv2d(with_t, m.weight, m.bias, padding=1)

    def net(m, t, z):
        z = conv(m.conv1, t, norm(m.norm1, z).relu())
        return norm(m.norm3, conv(m.conv2, t, norm(m.norm2, z).relu()))

    def rate(t, z):
        nonlocal nfe
        nfe += 1
        if classifier.g is None:
            return net(classifier.f, t, z)
        v = z[:, 64:]
        seen = z if classifier.model == "sonode-xv" else v
        return torch.cat([v, net(classifier.f, t, seen)], 1)

    z = x = classifier.down(images)
    if classifier.model == "anode":
        z = torch.cat([x, torch.zeros_like(x[:, :1])], 1)
    if classifier.g is not None:
        z = torch.cat([x, net(classifier.g, 0.0, x)], 1)
    times = torch.tensor([0.0, 1.0], dtype=z.dtype)
    z = odeint(rate, z, times, rtol=1e-3, atol=1e-3, method="dopri5")[-1]
    z = z if classifier.model == "anode" else z[:, :64]
    return classifier.linear(norm(classifier.norm, z).relu().mean((2, 3))), nfe


@pytest.mark.parametrize("model", MODELS)
def test_the_classifier_is_the_network_written_plainly(model):
    torch.manual_seed(1)
    classifier, labels = rough_(Classifier(model)), torch.tensor([3, 1, 4])
    images, weights = torch.rand(3, 1, 28, 28).double(), list(classifier.parameters())
    ours = classifier(images)
    theirs, nfe = written_plainly(classifier, images)
    assert torch.allclose(ours, theirs, atol=1e-9) and classifier.nfe == nfe
    grads = [
        torch.cat(
            [g.flatten() for g in torch.autograd.grad(F.cross_entropy(y, labels), weights)]
        )
        for y in (ours, theirs)
    ]  # torchdiffeq also differentiates its first step size: an effect of the tolerance's size
    assert (grads[0] - grads[1]).norm() < 1e-3 * grads[1].norm()


@pytest.mark.parametrize("model", MODELS)
def test_the_network_lives_wholly_on_the_device_of_its_weights(model):
    """On `meta` nothing is computed, but a tensor elsewhere is an error, as on a GPU."""
    classifier = Classifier(model).to("meta")
    z = classifier.begin(torch.zeros(2, 1, 28, 28, device="meta"))
    logits = classifier.read_out(z + classifier.field()(torch.zeros((), device="meta"), z))
    assert logits.shape == (2, 10) and logits.device.type == "meta"


def test_an_unknown_model_is_refused():
    with pytest.raises(ValueError, match="'resnet': choose one of node, sonode, anode"):
        Classifier("resnet")


def test_a_crop_moves_an_image_by_four_pixels_at_most():
    image = torch.rand(1, 1, 28, 28)
    canvas = F.pad(image, (4, 4, 4, 4))[0, 0]
    places = [canvas[i : i + 28, j : j + 28] for i in range(9) for j in range(9)]
    crops = random_crop(image.repeat(400, 1, 1, 1), torch.Generator().manual_seed(0))[:, 0]
    hits = torch.stack([(crops == place).all(-1).all(-1) for place in places])
    assert hits.sum(0).eq(1).all() and hits.any(1).sum() > 75


def test_the_rate_falls_after_60_and_100_of_120_epochs():
    rates = [rate_at(epoch / 120) for epoch in range(120)]
    assert np.allclose(rates, [0.1] * 60 + [0.01] * 40 + [0.001] * 20)


def test_steps_of_sgd_bring_the_loss_of_a_batch_down():
    trainer = Trainer(Run("sonode", 1, 0))
    images, labels = torch.rand(4, 1, 28, 28), torch.arange(4)
    losses = [trainer.step(images, labels)[0] for _ in range(6)]
    assert losses[-1] < 0.8 * losses[0]


def test_a_loss_that_is_not_finite_ends_the_run_in_words():
    with pytest.raises(Refused, match="anode_2epochs_seed3 has diverged"):
        Trainer(Run("anode", 2, 3)).step(torch.full((2, 1, 28, 28), torch.nan), torch.arange(2))


def test_the_tight_change_counts_the_classes_that_turn():
    class Sloppy(nn.Module):
        def forward(self, images, tol=1e-3):
            turned = torch.arange(len(images)) < (1 if tol < 1e-6 else 0)
            return F.one_hot(turned.long(), 10)

    assert mnist.tight_change(Sloppy(), torch.zeros(4, 1, 28, 28)) == 0.25


# Runs: 32 made-up images, batches of 8, two epochs.
PRELUDE = """
import os, signal, types
import numpy as np
from sonode_utils import checkpoint, mnist

def made_up():
    rng = np.random.default_rng(0)
    images = lambda n: rng.integers(256, size=(n, 28, 28)).astype(np.uint8)
    labels = lambda n: rng.integers(10, size=n).astype(np.uint8)
    return types.SimpleNamespace(train_images=images(32), train_labels=labels(32),
                                 test_images=images(5), test_labels=labels(5))

mnist.datasets.mnist, mnist.BATCH, mnist.tight_change = made_up, 8, lambda *_: 0.0
"""
IN_THE_SECOND_EPOCH = """
step, calls = mnist.Trainer.step, []
def killed(*arguments):
    calls.append(1)
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(*arguments)
mnist.Trainer.step = killed
"""
BETWEEN_CHECKPOINT_AND_ROWS = """
save_rows = checkpoint.save_rows
def killed(path, rows):
    if len(rows) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    save_rows(path, rows)
checkpoint.save_rows = killed
"""
WHILE_WRITING_THE_CHECKPOINT = """
def killed(state, path):
    open(path, "wb").write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
mnist.torch.save = killed
"""
SETTINGS = ["--model", "node", "--epochs", "2", "--images", "32"]


@contextmanager
def prelude():
    """The same in this process, undone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for holder, name in (
            (mnist, "BATCH"),
            (mnist, "tight_change"),
            (mnist.datasets, "mnist"),
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
        mnist.train(Run("node", 2, 0, 32), mnist.load(32), checkpoints=folder, rows=folder)
    return outcome(folder)


def run(folder):
    mnist.main([*SETTINGS, "--checkpoints", str(folder), "--rows", str(folder)])
    return outcome(folder)


def outcome(folder):
    """The last checkpoint, and the rows without their times."""
    state = torch.load(folder / "node_2epochs_seed0.pt", weights_only=True)
    rows = checkpoint.read_rows(folder)
    return state, [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]


def run_killed(folder, sabotage):
    script = f"{PRELUDE}{sabotage}mnist.main({SETTINGS} + {['--checkpoints', str(folder)]}"
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


def test_runs_are_read_by_model_and_seed_with_only_the_settings_asked_for(tmp_path):
    for name, epochs, last in (("node", 3, 2), ("anode", 3, 1), ("node", 120, 1)):
        run = {"model": name, "epochs": epochs, "seed": 4}
        rows = [{**run, "epoch": e, "nfe_course": "20 26.5"} for e in range(1, last + 1)]
        checkpoint.save_rows(tmp_path / f"{name}{epochs}.csv", rows[::-1])
    runs = checkpoint.read_runs(tmp_path, epochs=3)
    assert {key: len(rows) for key, rows in runs.items()} == {("node", 4): 2, ("anode", 4): 1}
    assert [row["epoch"] for row in runs["node", 4]] == [1, 2]
    assert runs["node", 4][0]["nfe_course"] == [20.0, 26.5]


def train_nothing(folder, run):
    """Ask for a run without any data: enough where it is refused at the door."""
    return mnist.train(run, mnist.Data(*torch.zeros(4, 0)), checkpoints=folder, rows=folder)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    old = Trainer(Run("node", 3, 0, images=128))
    checkpoint.save(tmp_path / "node_3epochs_seed0.pt", old.state())
    with pytest.raises(Refused, match="of another run: images 128, not 60000"):
        train_nothing(tmp_path, Run("node", 3, 0))


@pytest.mark.parametrize("content", [b"", b"half a file", b"PK\x03\x04"])
def test_a_corrupt_checkpoint_is_refused_and_kept(content, tmp_path):
    path = tmp_path / "node_3epochs_seed0.pt"
    path.write_bytes(content)
    with pytest.raises(Refused, match="cannot be read as a checkpoint"):
        train_nothing(tmp_path, Run("node", 3, 0))
    assert path.read_bytes() == content


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    torch.save({"run": types.SimpleNamespace()}, tmp_path / "node_3epochs_seed0.pt")
    with pytest.raises(Refused, match="UnpicklingError"):
        train_nothing(tmp_path, Run("node", 3, 0))


def test_two_runs_on_one_checkpoint_are_refused_and_the_lock_ends_with_the_first(tmp_path):
    path = tmp_path / "node_3epochs_seed0.pt"
    with checkpoint.lock(path), pytest.raises(Refused, match="another process"):
        train_nothing(tmp_path, Run("node", 3, 0))
    with checkpoint.lock(path):
        pass


def test_models_and_seeds_take_turns_an_epoch_each(monkeypatch):
    turns = []
    monkeypatch.setattr(mnist, "load", lambda *arguments: None)
    monkeypatch.setattr(
        mnist, "train", lambda run, data, until, **_: turns.append((until, run.seed, run.model))
    )
    mnist.main(["--model", "node", "anode", "--epochs", "2", "--seed", "5", "6"])
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
    monkeypatch.setattr(mnist, "load", None)  # nothing may begin
    with pytest.raises(SystemExit):
        mnist.main(arguments.split())
    assert words in capsys.readouterr().err


def test_missing_data_ends_the_command_in_one_line(monkeypatch):
    def missing():
        raise mnist.datasets.DataMissing("no MNIST here")

    monkeypatch.setattr(mnist.datasets, "mnist", missing)
    with pytest.raises(SystemExit, match="mnist: no MNIST here"):
        mnist.main(["--model", "node"])


def test_a_full_disk_ends_a_run_with_a_word_and_keeps_the_last_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "load", lambda *arguments: None)

    def full(*arguments, **settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mnist, "train", full)
    with pytest.raises(SystemExit, match=r"No space left on device.*epoch is safe"):
        mnist.main(["--model", "node", "--checkpoints", str(tmp_path)])


def test_a_run_stopped_by_hand_says_how_to_go_on(monkeypatch):
    monkeypatch.setattr(mnist, "load", lambda *arguments: None)

    def stopped(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(mnist, "train", stopped)
    with pytest.raises(SystemExit, match="the same command goes on from the last whole epoch"):
        mnist.main(["--model", "node"])
