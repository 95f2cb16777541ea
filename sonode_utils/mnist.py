"""Training the MNIST classifiers: one run is a model, a number of epochs and a seed.

    python -m sonode_utils.mnist --model sonode --epochs 120 --seed 0 --device cuda

A run may be killed at any moment. Started again it goes on from its last whole epoch and
ends, on the same machine, with the same weights as if nothing had happened. Several models
and seeds take turns, an epoch each.
"""

import argparse
import copy
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pooch
import torch
from torch.nn.functional import cross_entropy, pad
from tqdm import tqdm

from sonode_utils import checkpoint, datasets
from sonode_utils.claims import RESULTS
from sonode_utils.conv import MODELS, Classifier
from sonode_utils.files import Refused

ROWS = RESULTS / "mnist"
BATCH, TEST_BATCH, TIGHT_IMAGES = 128, 1000, 100
RATE, MOMENTUM = 0.1, 0.9
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


class Data(NamedTuple):
    """images: (n, 1, 28, 28), from 0 to 1; labels: (n,)."""

    images: torch.Tensor
    labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def load(images=60_000, device="cpu"):
    """The first images of MNIST to train on, and a sixth of as many to test."""
    mnist, test_images = datasets.mnist(), images // 6
    parts = (
        torch.tensor(mnist.train_images[:images])[:, None].float() / 255,
        torch.tensor(mnist.train_labels[:images]).long(),
        torch.tensor(mnist.test_images[:test_images])[:, None].float() / 255,
        torch.tensor(mnist.test_labels[:test_images]).long(),
    )
    return Data(*(part.to(device) for part in parts))


def random_crop(images, generator):
    """Each image moved by up to 4 pixels either way, zeros coming in: (batch, 1, 28, 28)."""
    top, left = torch.randint(9, (2, len(images)), generator=generator)
    padded = pad(images[:, 0], (4, 4, 4, 4))
    image = torch.arange(len(images))[:, None, None]
    row = (top[:, None] + torch.arange(28))[:, :, None]
    column = (left[:, None] + torch.arange(28))[:, None, :]
    return padded[image, row, column][:, None]


def rate_at(progress):
    """Learning rate: a tenth from 1/2 of the run, a hundredth from 5/6 (60, 100 of 120)."""
    return RATE * (1 if progress < 1 / 2 else 0.1 if progress < 5 / 6 else 0.01)


class Trainer:
    """A model in training: its weights, optimiser, random numbers, and rows so far."""

    def __init__(self, run, device="cpu"):
        self.run, self.device, self.rows = run, device, []
        torch.manual_seed(run.seed)
        self.classifier = Classifier(run.model).to(device)
        self.optimiser = torch.optim.SGD(self.classifier.parameters(), RATE, MOMENTUM)
        self.generator = torch.Generator().manual_seed(run.seed)

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

    def epoch(self, data, bar):
        """Train once over the images, test, and add a row."""
        clocks, first = (time.perf_counter(), time.process_time()), len(self.rows)
        order = torch.randperm(len(data.images), generator=self.generator)
        batches = [b for b in order.split(BATCH) if len(b) == BATCH]
        course = torch.zeros(len(batches), 3)  # loss, accuracy, NFE
        for i, batch in enumerate(batches):
            rate = rate_at((first + i / len(batches)) / self.run.epochs)
            self.optimiser.param_groups[0]["lr"] = rate
            images = random_crop(data.images[batch], self.generator)
            course[i] = torch.tensor(self.step(images, data.labels[batch]))
            bar.set_postfix_str(f"loss {course[i, 0]:.3f}", refresh=False)
            bar.update()
        spent = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
        self.rows.append(self._row(course, data, spent))

    def step(self, images, labels):
        """One step of SGD; loss, accuracy and NFE on the batch before it."""
        logits = self.classifier(images)
        loss = cross_entropy(logits, labels)
        if not loss.isfinite():
            raise Refused(f"{self.run.name} has diverged: its loss is {loss:.3g}")
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item(), _accuracy(logits, labels), self.classifier.nfe

    def _row(self, course, data, seconds):
        loss, accuracy, nfe = course.mean(0).tolist()
        pieces = course.split(-(-len(course) // PIECES))
        pieces = torch.stack([piece.mean(0) for piece in pieces])
        test_accuracy, test_nfe = score(self.classifier, data.test_images, data.test_labels)
        return {
            **self.run._asdict(), "epoch": len(self.rows) + 1, "train_loss": f"{loss:.6g}",
            "train_accuracy": f"{accuracy:.6f}", "test_accuracy": f"{test_accuracy:.6f}",
            "nfe": f"{nfe:.4f}", "test_nfe": f"{test_nfe:.4f}",
            "accuracy_course": " ".join(f"{p:.4f}" for p in pieces[:, 1]),
            "nfe_course": " ".join(f"{p:.2f}" for p in pieces[:, 2]),
            "rate": f"{self.optimiser.param_groups[0]['lr']:g}",
            "tight": f"{tight_change(self.classifier, data.test_images[:TIGHT_IMAGES]):.3g}",
            "seconds": f"{seconds[0]:.1f}", "cpu_seconds": f"{seconds[1]:.1f}",
            "device": self.device, "torch": version("torch"),
            "torchdiffeq": version("torchdiffeq"),
        }  # fmt: skip


def _accuracy(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


@torch.no_grad()
def score(classifier, images, labels):
    """Accuracy, and mean NFE over batches of 1,000."""
    scores = []
    for x, y in zip(images.split(TEST_BATCH), labels.split(TEST_BATCH)):
        scores.append((_accuracy(classifier(x), y) * len(y), classifier.nfe))
    right, nfe = (sum(s) for s in zip(*scores))
    return right / len(labels), nfe / len(scores)


@torch.no_grad()
def tight_change(classifier, images):
    """Share of the images whose class changes when solved in double precision at 1e-8."""
    exact = copy.deepcopy(classifier).double()(images.double(), tol=1e-8)
    return (exact.argmax(1) != classifier(images).argmax(1)).double().mean().item()


def train(run, data, *, checkpoints, rows, device="cpu", until=None):
    """Train to epoch `until` (the last, if None) from the checkpoint, if there is one.

    After every epoch the checkpoint is replaced, then the file of rows; each whole or not
    at all. The rows live in the checkpoint too, so a kill between the two costs nothing.
    """
    path, table = Path(checkpoints) / f"{run.name}.pt", Path(rows) / f"{run.name}.csv"
    with checkpoint.lock(path):
        trainer = Trainer(run, device)
        if path.exists():
            trainer.restore(checkpoint.load(path, run._asdict()))
            checkpoint.save_rows(table, trainer.rows)
        until, steps = until or run.epochs, len(data.images) // BATCH
        begin, every = len(trainer.rows) * steps, 1 if sys.stderr.isatty() else 30
        with tqdm(desc=run.name, unit="step", total=until * steps, initial=begin,
                  mininterval=every) as bar:  # fmt: skip
            while len(trainer.rows) < until:
                trainer.epoch(data, bar)
                checkpoint.save(path, trainer.state())
                checkpoint.save_rows(table, trainer.rows)
    return trainer


def main(arguments=None):
    options = _parse(arguments)
    torch.set_num_threads(1)  # for maps of this size faster than two
    torch.backends.cudnn.deterministic = True
    try:
        data = load(options.images, options.device)
        for until in range(1, options.epochs + 1):
            for seed in options.seed:
                for model in options.model:
                    run = Run(model, options.epochs, seed, options.images)
                    train(run, data, checkpoints=options.checkpoints, rows=options.rows,
                          device=options.device, until=until)  # fmt: skip
    except (Refused, datasets.DataMissing, datasets.WrongFile) as error:
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
        "python -m sonode_utils.mnist", description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--model", nargs="+", choices=MODELS, required=True, help="one or more")
    add("--epochs", type=int, default=120, help="length of the run and of its schedule")
    add("--seed", type=int, nargs="+", default=[0], help="one or more")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    add("--images", type=int, default=60_000, help="how many to train on, the first")
    add("--checkpoints", default=pooch.os_cache("sonode-mnist"), help="folder to resume from")
    add("--rows", default=ROWS, help="folder for a CSV a run, a row an epoch")
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
