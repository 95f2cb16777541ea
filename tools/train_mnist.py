"""Train the MNIST classifiers: one run is a model, a number of epochs and a seed.

    python tools/train_mnist.py --model sonode --epochs 120 --seed 0 --device cuda

A run may be killed at any moment. Started again it goes on from its last whole epoch and
ends, on the same machine, with the same weights as if nothing had happened. Several models
and seeds take turns, one epoch each.
"""

import argparse
import copy
import io
import os
import sys
import time
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pooch
import torch
from locks import Busy, locked
from torch.nn.functional import pad
from tqdm import tqdm

from sonode_utils.chapters import mnist
from sonode_utils.chapters.mnist import MODELS
from sonode_utils.data.measured import DataMissing, WrongFile
from sonode_utils.evidence.records import Damaged, read_json, write_json, write_whole

ROWS = Path(__file__).parents[1] / "book/results/mnist"
BATCH, TIGHT_IMAGES = 128, 100
STATE = ("rows", "weights", "optimiser", "random")
PIECES = 10  # of an epoch, each with its mean accuracy and NFE


class Run(NamedTuple):
    """What decides the result of a training run, device and machine aside."""

    model: str
    epochs: int
    seed: int
    images: int = 60_000

    @property
    def name(self):
        return f"{self.model}_{self.epochs}epochs_seed{self.seed}"


def random_crop(images, generator):
    """Each image moved by up to 4 pixels either way, zeros coming in: (batch, 1, 28, 28)."""
    top, left = torch.randint(9, (2, len(images)), generator=generator)
    padded = pad(images[:, 0], (4, 4, 4, 4))
    image = torch.arange(len(images))[:, None, None]
    row = (top[:, None] + torch.arange(28))[:, :, None]
    column = (left[:, None] + torch.arange(28))[:, None, :]
    return padded[image, row, column][:, None]


@torch.no_grad()
def tight_change(classifier, images):
    """Share of the images whose class changes when solved in double precision at 1e-8."""
    exact = copy.deepcopy(classifier).double()(images.double(), tol=1e-8)
    return (exact.argmax(1) != classifier(images).argmax(1)).double().mean().item()


def rate_at(progress):
    """Learning rate: a tenth from 1/2 of the run, a hundredth from 5/6 (60, 100 of 120)."""
    return mnist.RATE * (1 if progress < 1 / 2 else 0.1 if progress < 5 / 6 else 0.01)


class Trainer:
    """A model in training: its weights, optimiser, random numbers, and rows so far."""

    def __init__(self, run, device="cpu"):
        self.run, self.device, self.rows = run, device, []
        begun = mnist.begin_training(run.model, run.seed, device)
        self.classifier, self.optimiser, self.generator = begun

    def state(self):
        """Tensors, numbers and strings only, so that it loads with `weights_only`."""
        return {
            "run": self.run._asdict(), "rows": self.rows,
            "weights": self.classifier.state_dict(),
            "optimiser": self.optimiser.state_dict(), "random": self.generator.get_state(),
        }  # fmt: skip

    def restore(self, state):
        self.rows = state["rows"]
        self.classifier.load_state_dict(state["weights"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["random"])

    def epoch(self, digits, bar):
        """Train once over the images, test, and add a row."""
        clocks, first = (time.perf_counter(), time.process_time()), len(self.rows)
        order = torch.randperm(len(digits.images), generator=self.generator)
        batches = [b for b in order.split(BATCH) if len(b) == BATCH]
        course = torch.zeros(len(batches), 3)  # loss, accuracy, NFE
        for i, batch in enumerate(batches):
            rate = rate_at((first + i / len(batches)) / self.run.epochs)
            self.optimiser.param_groups[0]["lr"] = rate
            images = random_crop(digits.images[batch], self.generator)
            step = mnist.sgd_step(self.classifier, self.optimiser, images, digits.labels[batch])
            course[i] = torch.tensor(step)
            bar.set_postfix_str(f"loss {course[i, 0]:.3f}", refresh=False)
            bar.update()
        spent = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
        self.rows.append(self._row(course, digits, spent))

    def _row(self, course, digits, seconds):
        loss, accuracy, nfe = course.mean(0).tolist()
        pieces = course.split(-(-len(course) // PIECES))
        pieces = torch.stack([piece.mean(0) for piece in pieces])
        tested = mnist.accuracy_and_nfe(self.classifier, digits.test_images, digits.test_labels)
        tight = tight_change(self.classifier, digits.test_images[:TIGHT_IMAGES])
        return {
            **self.run._asdict(), "epoch": len(self.rows) + 1,
            "train_loss": float(f"{loss:.6g}"), "train_accuracy": round(accuracy, 6),
            "test_accuracy": round(tested[0], 6), "nfe": round(nfe, 4),
            "test_nfe": round(tested[1], 4),
            "accuracy_course": [round(p, 4) for p in pieces[:, 1].tolist()],
            "nfe_course": [round(p, 2) for p in pieces[:, 2].tolist()],
            "rate": self.optimiser.param_groups[0]["lr"], "tight": tight,
            "seconds": round(seconds[0], 1), "cpu_seconds": round(seconds[1], 1),
            "device": self.device, "torch": version("torch"),
            "torchdiffeq": version("torchdiffeq"),
        }  # fmt: skip


def save_checkpoint(path, state):
    """A line with the sha256 of the rest, then what torch.save writes; whole or not at all."""
    torch.save(state, content := io.BytesIO())
    with write_whole(path) as draft:
        draft.write_bytes(sha256(content.getvalue()).hexdigest().encode() + b"\n")
        with draft.open("ab") as file:
            file.write(content.getvalue())


def load_checkpoint(path, settings):
    """The state saved at `path`, if it is whole and of a run with these settings."""
    found, _, content = path.read_bytes().partition(b"\n")
    try:
        if found.decode("latin1") != sha256(content).hexdigest():
            raise ValueError("its sha256 is not the one it was saved with")
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        saved, _ = dict(state["run"]), [state[name] for name in STATE]
    except Exception as error:
        os.replace(path, aside := path.with_suffix(".damaged"))
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise Busy(
            f"{path} is damaged ({why}). It is not used; it lies at {aside} now, and the same "
            "command begins this run again"
        ) from error
    other = [f"{k} {saved.get(k)}, not {v}" for k, v in settings.items() if saved.get(k) != v]
    if other:
        raise Busy(f"{path} is of another run: {'; '.join(other)}")
    return state


def store_rows(path, rows):
    """Replace the file of rows, unless it has more of them: a run that began again."""
    with suppress(FileNotFoundError):
        if len(read_json(path)) > len(rows):
            return
    write_json(path, rows)


def train(run, digits, *, checkpoints, rows, device="cpu", until=None):
    """Train to epoch `until` (the last, if None) from the checkpoint, if there is one.

    After every epoch the checkpoint is replaced, then the file of rows; each whole or not
    at all. The rows live in the checkpoint too, so a kill between the two costs nothing.
    """
    path, table = Path(checkpoints) / f"{run.name}.pt", Path(rows) / f"{run.name}.json"
    with locked(path.with_suffix(".lock"), f"another process is training {path}"):
        trainer = Trainer(run, device)
        if path.exists():
            trainer.restore(load_checkpoint(path, run._asdict()))
            store_rows(table, trainer.rows)
        until, steps = until or run.epochs, len(digits.images) // BATCH
        begin, every = len(trainer.rows) * steps, 1 if sys.stderr.isatty() else 30
        with tqdm(desc=run.name, unit="step", total=until * steps, initial=begin,
                  mininterval=every) as bar:  # fmt: skip
            while len(trainer.rows) < until:
                trainer.epoch(digits, bar)
                save_checkpoint(path, trainer.state())
                store_rows(table, trainer.rows)
    return trainer


def main(arguments=None):
    options = _parse(arguments)
    torch.set_num_threads(1)  # for maps of this size faster than two
    torch.backends.cudnn.deterministic = True
    try:
        digits = mnist.load_digits(options.images, options.device)
        for until in range(1, options.epochs + 1):
            for seed in options.seed:
                for model in options.model:
                    run = Run(model, options.epochs, seed, options.images)
                    train(run, digits, checkpoints=options.checkpoints, rows=options.rows,
                          device=options.device, until=until)  # fmt: skip
    except (Busy, Damaged, mnist.Diverged, DataMissing, WrongFile) as error:
        sys.exit(f"mnist: {error}")
    except OSError as error:
        sys.exit(
            f"mnist: cannot write ({error}); the last whole epoch is safe, and the same "
            "command goes on from it when there is room"
        )
    except KeyboardInterrupt:
        sys.exit("mnist: stopped; the same command goes on from the last whole epoch")


def _parse(arguments):
    parser = argparse.ArgumentParser(
        "python tools/train_mnist.py", description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--model", nargs="+", choices=MODELS, required=True, help="one or more")
    add("--epochs", type=int, default=120, help="length of the run and of its schedule")
    add("--seed", type=int, nargs="+", default=[0], help="one or more")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    add("--images", type=int, default=60_000, help="how many to train on, the first")
    add("--checkpoints", default=pooch.os_cache("sonode-mnist"), help="folder to resume from")
    add("--rows", default=ROWS, help="folder for one JSON file per run, one row per epoch")
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error(f"--epochs {options.epochs}: there must be 1 or more")
    if min(options.seed) < 0:
        parser.error(f"--seed {min(options.seed)}: seeds are 0 or more")
    if not BATCH <= options.images <= 60_000:
        parser.error(f"--images {options.images}: from {BATCH} (a batch) to 60000 (all)")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no such device; --device cpu is slower")
    return options


if __name__ == "__main__":
    main()
