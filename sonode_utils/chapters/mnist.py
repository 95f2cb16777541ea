"""The MNIST experiment (App. E): the networks, digits, a step of training, stored runs."""

import json
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad, relu

from sonode_utils.data import measured
from sonode_utils.solve import integrate

MODELS = ("node", "sonode", "anode", "sonode-xv")
RATE, MOMENTUM, TEST_BATCH = 0.1, 0.9, 1000


def group_norm(channels: int) -> nn.GroupNorm:
    """32 groups, or one for each channel where 32 do not divide them."""
    return nn.GroupNorm(32 if channels % 32 == 0 else channels, channels)


class ConvNet(nn.Module):
    """Norm, ReLU, convolution, twice, and norm; t is one more channel for each convolution."""

    def __init__(self, channels_in: int, channels_out: int):
        super().__init__()
        sizes = channels_in, channels_out, channels_out
        self.norm1, self.norm2, self.norm3 = map(group_norm, sizes)
        self.conv1 = nn.Conv2d(1 + channels_in, channels_out, 3, padding=1)
        self.conv2 = nn.Conv2d(1 + channels_out, channels_out, 3, padding=1)

    def forward(self, t, z: Tensor) -> Tensor:
        time = torch.zeros_like(z[:, :1]) + t
        z = self.conv1(torch.cat([time, relu(self.norm1(z))], 1))
        return self.norm3(self.conv2(torch.cat([time, relu(self.norm2(z))], 1)))


class Classifier(nn.Module):
    """Downsampling to 64 x 6 x 6, an ODE block on [0, 1], and a linear read-out.

    node: x' = f(x, t). anode: the same with one channel more, zero at first. sonode:
    x'' = f(x', t) with x'(0) = g(x(0)), as the authors coded it. sonode-xv: x'' = f(x, x', t).
    A state is (batch, channels, 6, 6), the velocities of a SONODE after its 64 positions.
    """

    def __init__(self, model: str):
        super().__init__()
        if model not in MODELS:
            raise ValueError(f"model accepts {', '.join(MODELS)}; not {model!r}")
        self.model, self.nfe = model, 0
        self.channels = 65 if model == "anode" else 64
        self.down = nn.Sequential(
            nn.Conv2d(1, 64, 3), group_norm(64), nn.ReLU(),
            nn.Conv2d(64, 64, 4, stride=2, padding=1), group_norm(64), nn.ReLU(),
            nn.Conv2d(64, 64, 4, stride=2, padding=1),
        )  # fmt: skip
        self.f = ConvNet(128 if model == "sonode-xv" else self.channels, self.channels)
        self.g = ConvNet(64, 64) if model.startswith("sonode") else None
        self.norm = group_norm(self.channels)
        self.linear = nn.Linear(self.channels, 10)

    def forward(self, images: Tensor, tol: float = 1e-3) -> Tensor:
        """images: (batch, 1, 28, 28), from 0 to 1 -> logits (batch, 10)."""
        return self.read_out(self.flow(self.initial_state(images), tol=tol)[-1])

    def initial_state(self, images: Tensor) -> Tensor:
        """The state at t = 0."""
        x = self.down(images)
        if self.g is not None:
            return torch.cat([x, self.g(0.0, x)], 1)
        return pad(x, (0, 0, 0, 0, 0, 1)) if self.model == "anode" else x

    def field(self, t, z: Tensor) -> Tensor:
        """z' at a state z."""
        if self.g is None:
            return self.f(t, z)
        v = z[:, 64:]
        return torch.cat([v, self.f(t, v if self.model == "sonode" else z)], 1)

    def flow(self, z0: Tensor, times=(0.0, 1.0), tol: float = 1e-3) -> Tensor:
        """The states at the given times: (time, *z0.shape). Counts evaluations in `nfe`."""
        done = integrate(
            lambda t, z: self.field(t, z.view_as(z0)).view_as(z),
            z0.flatten(1)[None], torch.tensor(times), rtol=tol, atol=tol,
        )  # fmt: skip
        self.nfe = int(done.nfe)
        return done.z.view(-1, *z0.shape)

    def read_out(self, z: Tensor) -> Tensor:
        """Logits (batch, 10) from the positions in the state z."""
        return self.linear(relu(self.norm(z[:, : self.channels])).mean((2, 3)))


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
    right = (logits.argmax(1) == labels).float().mean().item()
    return loss.item(), right, classifier.nfe


@torch.no_grad()
def accuracy_and_nfe(classifier: Classifier, images: Tensor, labels: Tensor) -> tuple:
    """Accuracy, and mean NFE over batches of 1,000."""
    scores = []
    for x, y in zip(images.split(TEST_BATCH), labels.split(TEST_BATCH)):
        scores.append(((classifier(x).argmax(1) == y).sum().item(), classifier.nfe))
    right, nfe = (sum(s) for s in zip(*scores))
    return right / len(labels), nfe / len(scores)


def read_runs(folder: Path, **settings) -> dict[tuple[str, int], list[dict]]:
    """{(model, seed): its rows, epoch by epoch} of the stored runs with these settings."""
    runs: dict[tuple[str, int], list[dict]] = {}
    for path in sorted(Path(folder).glob("*.json")):
        try:
            for row in json.loads(path.read_text("utf8")):
                if all(row[name] == value for name, value in settings.items()):
                    runs.setdefault((row["model"], row["seed"]), []).append(row)
        except (ValueError, KeyError, TypeError) as error:
            why = f"({type(error).__name__}: {error}); take it back with `git checkout`"
            raise ValueError(f"{path} is not whole {why}") from None
    return runs
