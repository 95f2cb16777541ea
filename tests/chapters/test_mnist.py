"""MNIST: the networks against plain torch, one step of training, the stored rows."""

import json

import pytest
import torch
import torch.nn.functional as F
from torchdiffeq import odeint

from sonode_utils.chapters import mnist
from sonode_utils.chapters.mnist import MODELS, Classifier


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
    z = classifier.initial_state(torch.zeros(2, 1, 28, 28, device="meta"))
    logits = classifier.read_out(z + classifier.field(torch.zeros((), device="meta"), z))
    assert logits.shape == (2, 10) and logits.device.type == "meta"


def test_an_unknown_model_is_refused():
    with pytest.raises(
        ValueError, match="model accepts node, sonode, anode, sonode-xv; not 'resnet'"
    ):
        Classifier("resnet")


def test_steps_of_sgd_bring_the_loss_of_a_batch_down():
    classifier, optimiser, _ = mnist.begin_training("sonode", seed=0)
    images, labels = torch.rand(4, 1, 28, 28), torch.arange(4)
    losses = [mnist.sgd_step(classifier, optimiser, images, labels)[0] for _ in range(6)]
    assert losses[-1] < 0.8 * losses[0]


def test_a_loss_that_is_not_finite_ends_the_training_in_words():
    classifier, optimiser, _ = mnist.begin_training("anode", seed=3)
    with pytest.raises(mnist.Diverged, match="anode has diverged: its loss is nan"):
        images = torch.full((2, 1, 28, 28), torch.nan)
        mnist.sgd_step(classifier, optimiser, images, torch.arange(2))


def test_runs_are_read_by_model_and_seed_with_only_the_settings_asked_for(tmp_path):
    for name, epochs, last in (("node", 3, 2), ("anode", 3, 1), ("node", 120, 1)):
        run = {"model": name, "epochs": epochs, "seed": 4}
        rows = [{**run, "epoch": e, "nfe_course": [20, 26.5]} for e in range(1, last + 1)]
        (tmp_path / f"{name}{epochs}.json").write_text(json.dumps(rows))
    runs = mnist.read_runs(tmp_path, epochs=3)
    assert {key: len(rows) for key, rows in runs.items()} == {("node", 4): 2, ("anode", 4): 1}
    assert [row["epoch"] for row in runs["node", 4]] == [1, 2]
    assert runs["node", 4][0]["nfe_course"] == [20.0, 26.5]
