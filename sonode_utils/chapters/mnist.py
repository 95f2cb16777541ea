"""The MNIST experiment (App. E): digits, a step of training, scores, and the stored runs."""

import json
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sonode_utils.chapters.mnist_layers import Classifier
from sonode_utils.data import measured

RATE, MOMENTUM, TEST_BATCH = 0.1, 0.9, 1000


class Diverged(ArithmeticError):
    """The loss of a classifier in training is not finite."""


class Digits(NamedTuple):
    """images: (n, 1, 28, 28), from 0 to 1; labels: (n,)."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_digits(images: int = 60_000, device: str = "cpu") -> Digits:
    """The first images of MNIST to train on, and a sixth of as many to test."""
    mnist, test_images = measured.mnist(), images // 6
    parts = (
        torch.tensor(mnist.train_images[:images])[:, None].float() / 255,
        torch.tensor(mnist.train_labels[:images]).long(),
        torch.tensor(mnist.test_images[:test_images])[:, None].float() / 255,
        torch.tensor(mnist.test_labels[:test_images]).long(),
    )
    return Digits(*(part.to(device) for part in parts))


def begin_training(model: str, seed: int, device: str = "cpu") -> tuple:
    """A classifier with weights drawn from the seed, its optimiser and its random stream."""
    torch.manual_seed(seed)  # not a named stream: the stored runs were drawn so
    classifier = Classifier(model).to(device)
    optimiser = torch.optim.SGD(classifier.parameters(), RATE, MOMENTUM)
    return classifier, optimiser, torch.Generator().manual_seed(seed)


def sgd_step(
    classifier: Classifier, optimiser: torch.optim.SGD, images: Tensor, labels: Tensor
) -> tuple[float, float, int]:
    """One step of SGD; loss, accuracy and NFE on the batch before it."""
    logits = classifier(images)
    loss = cross_entropy(logits, labels)
    if not loss.isfinite():
        raise Diverged(f"{classifier.model} has diverged: its loss is {loss:.3g}")
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.item(), _accuracy(logits, labels), classifier.nfe


def _accuracy(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


@torch.no_grad()
def accuracy_and_nfe(classifier: Classifier, images: Tensor, labels: Tensor) -> tuple:
    """Accuracy, and mean NFE over batches of 1,000."""
    scores = []
    for x, y in zip(images.split(TEST_BATCH), labels.split(TEST_BATCH)):
        scores.append((_accuracy(classifier(x), y) * len(y), classifier.nfe))
    right, nfe = (sum(s) for s in zip(*scores))
    return right / len(labels), nfe / len(scores)


def read_runs(folder: Path, **settings) -> dict[tuple[str, int], list[dict]]:
    """{(model, seed): its rows, epoch by epoch} of the stored runs with these settings."""
    runs: dict[tuple[str, int], list[dict]] = {}
    for path in sorted(Path(folder).glob("*.json")):
        for row in json.loads(path.read_text("utf8")):
            if all(row[name] == value for name, value in settings.items()):
                runs.setdefault((row["model"], row["seed"]), []).append(row)
    return runs
