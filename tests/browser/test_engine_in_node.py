"""The engine that trains in the page: its numbers are torch's, its worker answers, none is NaN."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from sonode_utils.ensemble import streams
from sonode_utils.models import SONODE, paper_model
from sonode_utils.train import fit, mse

LABORATORY = Path(__file__).parents[2] / "assets/laboratory"
ENGINE, WORKER = LABORATORY / "engine.js", LABORATORY / "worker.js"
PREPARE = f"""
const neuralOdes = require({json.dumps(str(ENGINE))});
const laboratory = require({json.dumps(str(WORKER))});
const {{ createTrainer, stream, need, whole }} = neuralOdes();
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const say = (value) => console.log(JSON.stringify(value, (key, value) =>
  ArrayBuffer.isView(value) ? Array.from(value) : Object.is(value, NaN) ? "NaN" : value));
"""


def node(script, given=None):
    """What the script says, by node; it finds `given` under that name."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    done = subprocess.run(
        ["node", "-e", PREPARE + script], input=json.dumps(given), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- against torch


def rk4(model, x0, times, steps):
    """The states at the times by the classical method: (time, member, batch, feature)."""
    z = model.initial_state(x0)
    states = [z]
    for begin, end in zip(times, times[1:]):
        h = (end - begin) / steps
        for _ in range(steps):
            k1 = model.field(None, z)
            k2 = model.field(None, z + h / 2 * k1)
            k3 = model.field(None, z + h / 2 * k2)
            k4 = model.field(None, z + h * k3)
            z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        states.append(z)
    return torch.stack(states)


KINDS = [("NODE", 1), ("ANODE", 1), ("ANODE", 2), ("ANODE", 3), ("SONODE", 1)]


def case(k):
    """Settings of a random training, every kind of model with one and two positions."""
    rng, (model, augment) = random.Random(k), KINDS[k % 5]
    d, batch, count = 1 + k // 5 % 2, rng.randint(1, 5), rng.randint(3, 8)
    state = {"NODE": d, "ANODE": d + augment, "SONODE": 2 * d}[model]

    def table(rows, width):
        return [[rng.gauss(0, 1) for _ in range(width)] for _ in range(rows)]

    mask = [rng.choice([-1, 0, 1]) for _ in range(count)]
    mask[rng.randrange(count)] = 1
    return {
        "model": model, "augment": augment, "x0": table(batch, d),
        "times": [0.3 * i + rng.uniform(0, 0.2) for i in range(count)],
        "data": [None if role < 0 else table(batch, d) for role in mask], "mask": mask,
        "seeds": [0, 1], "steps": rng.randint(1, 4), "points": table(4, state), "rate": 0.02,
    }  # fmt: skip


def torch_model(settings):
    """The package's model of these settings, in double precision, and its data."""
    x0 = torch.tensor(settings["x0"], dtype=torch.float64)
    seeds = settings["seeds"]
    rng = streams("test, engine", seeds)
    augment = settings["augment"] if settings["model"] == "ANODE" else None
    model = paper_model(settings["model"], x0.shape[-1], rng, augment=augment).double()
    return model, x0.expand(len(seeds), -1, -1)


def torch_paths(settings, model, x0):
    times = torch.tensor(settings["times"], dtype=torch.float64)
    return rk4(model, x0, times, settings["steps"])


def torch_error(settings, model, x0, role):
    """(member,), over the times that have this role: 1 trains, 0 tests."""
    chosen = [t for t, its in enumerate(settings["mask"]) if its == role]
    data = torch.tensor([settings["data"][t] for t in chosen], dtype=torch.float64)
    prediction = model.readout(torch_paths(settings, model, x0))[chosen]
    return mse(prediction, data[:, None].expand_as(prediction))


def flat(tensors):
    """One row per member, as the engine keeps weights and gradients."""
    return torch.cat([tensor.flatten(1) for tensor in tensors], 1)


@pytest.fixture(scope="module")
def cases():
    """20 random cases with the package's weights, and what the engine makes of them."""
    cases = []
    for k in range(20):
        settings = case(k)
        model, x0 = torch_model(settings)
        weights = flat(model.parameters()).flatten().tolist()
        cases.append((settings, model, x0, weights))
    script = """say(given.map(({ settings, weights }) => {
      const trainer = createTrainer(settings);
      trainer.setWeights(weights);
      const gradient = trainer.gradient(), loss = trainer.loss.slice();
      const seen = { gradient, loss, ...trainer.solve(), field: trainer.field() };
      const errors = trainer.errors();
      trainer.step(20);
      return { ...seen, ...errors, trained: trainer.weights };
    }));"""
    given = [{"settings": c[0], "weights": c[3]} for c in cases]
    return [(*c[:3], made) for c, made in zip(cases, node(script, given))]


def agree(theirs, ours):
    ours = ours.detach()
    theirs = torch.tensor(theirs, dtype=torch.float64).view(ours.shape)
    scale = ours.abs().max().item()
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-9 * scale)


def test_loss_and_every_gradient_are_torchs(cases):
    for settings, model, x0, made in cases:
        loss = torch_error(settings, model, x0, 1)
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss.sum(), parameters, materialize_grads=True)
        agree(made["loss"], loss)
        agree(made["gradient"], flat(gradients))


def test_paths_fields_and_errors_are_torchs(cases):
    for settings, model, x0, made in cases:
        agree(made["paths"], torch_paths(settings, model, x0).transpose(0, 1))
        assert set(made["reach"]) == {len(settings["times"])}
        points = torch.tensor(settings["points"], dtype=torch.float64)
        agree(made["field"], model.field(None, points.expand(2, -1, -1)))
        agree(made["train"], torch_error(settings, model, x0, 1))
        if 0 in settings["mask"]:
            agree(made["test"], torch_error(settings, model, x0, 0))
        else:
            assert made["test"] == [None, None]


def test_twenty_iterations_of_adam_lead_to_the_weights_of_fit(cases):
    for settings, model, x0, made in cases[::3]:
        fit(
            model, lambda m, s=settings, x=x0: torch_error(s, m, x, 1), iterations=20,
            lr=settings["rate"], label=None,
        )  # fmt: skip
        agree(made["trained"], flat(model.parameters()))
