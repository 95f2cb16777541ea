"""The engine that trains in the page: its numbers are torch's, and its worker answers."""

import json
import random
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import torch

from sonode_utils.ensemble import streams
from sonode_utils.models import SONODE, paper_model
from sonode_utils.train import fit, mse

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import browser as tools  # noqa: E402

LABORATORY = ROOT / "assets/laboratory"
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
    command = ["node", "-e", PREPARE + script]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, timeout=60
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


# ---- training


def sine(model, count=40, **settings):
    """A sine from time 0 to 8 whose last quarter tests."""
    times = torch.linspace(0, 8, count)
    data = [[[x]] for x in times.sin().tolist()]
    mask = [1 if t < 6 else 0 for t in times]
    known = {"model": model, "x0": [[0]], "times": times.tolist(), "data": data, "mask": mask}
    return {**known, "seeds": list(range(10)), "augment": 1, "rate": 0.02, **settings}


@pytest.fixture(scope="module")
def trained():
    """Per model the losses of ten seeds after 200 iterations, the engine's."""
    script = """say(given.map((settings) => {
      const trainer = createTrainer(settings);
      trainer.step(200);
      return trainer.errors().train;
    }));"""
    models = ["NODE", "ANODE", "SONODE"]
    return dict(zip(models, node(script, [sine(model) for model in models])))


@pytest.mark.parametrize("name", ["NODE", "ANODE", "SONODE"])
def test_a_training_reaches_the_loss_of_the_package(name, trained):
    """Either median lies among the other's ten seeds, whose initial weights are other draws."""
    seen = [t for t, role in enumerate(sine(name)["mask"]) if role == 1]
    times = torch.tensor(sine(name)["times"])[seen]
    model = paper_model(name, 1, streams("test, engine", range(10)))
    target = times.sin().view(-1, 1, 1, 1).expand(-1, 10, 1, 1)

    def loss(model):
        return mse(model(torch.zeros(10, 1, 1), times, method="rk4").x, target)

    fit(model, loss, iterations=200, lr=0.02, label=None)
    ours = loss(model).detach()
    theirs = torch.tensor(trained[name])
    margin = 2  # another processor draws other roundings, and 200 iterations let them grow
    for middle, others in ((theirs.median(), ours), (ours.median(), theirs)):
        assert others.min() / margin <= middle <= others.max() * margin


# ---- initial weights


def test_initial_weights_are_uniform_within_torchs_bounds():
    settings = sine("SONODE", seeds=list(range(200)))
    flat_weights = node("say(createTrainer(given).weights)", settings)
    weights = torch.tensor(flat_weights, dtype=torch.float64).view(200, -1)
    model: SONODE = paper_model("SONODE", 1, streams("test", [0]))
    at, scaled = 0, []
    for net in (model.f, model.g):
        for layer in net.layers[0::2]:
            bound = layer.weight.shape[1] ** -0.5
            size = layer.weight.numel() + layer.bias.numel()
            drawn = weights[:, at : at + size] / bound
            at += size
            scaled.append(drawn)
            assert drawn.abs().max() <= 1
            many = drawn.numel()
            assert drawn.mean().abs() < 5 * (1 / 3 / many) ** 0.5
            assert (drawn.square().mean() - 1 / 3).abs() < 5 * (4 / 45 / many) ** 0.5
            assert drawn.abs().max() > 1 - 20 / many
    assert at == weights.shape[1]
    correlation = torch.corrcoef(torch.cat(scaled, 1)).fill_diagonal_(0).abs().max()
    assert correlation < 6 * weights.shape[1] ** -0.5


def test_a_seed_draws_the_same_whatever_stands_beside_it():
    many, alone, other = node(
        "say(given.map((settings) => createTrainer(settings).weights))",
        [
            sine("ANODE", seeds=[3, 5]),
            sine("ANODE", seeds=[5]),
            sine("ANODE", seeds=[2**40 + 5]),
        ],
    )
    assert many[len(alone) :] == alone != other


# ---- blow-ups


@pytest.mark.parametrize("change", [{"rate": 1e9}, {"data": [[[1e200]]] * 40}, {"rate": 1e300}])
@pytest.mark.parametrize("model", ["NODE", "ANODE", "SONODE"])
def test_a_blow_up_ends_in_diverged_and_never_in_nan(model, change):
    points = [[1.0] if model == "NODE" else [1.0, 1.0]]
    script = """const trainer = createTrainer(given);
    const seen = [];
    for (let k = 0; k < 5; k++) {
      trainer.step();
      seen.push([...trainer.solve().paths, ...trainer.field()]);
    }
    say({ seen, weights: trainer.weights, diverged: trainer.diverged, ...trainer.errors() });"""
    made = node(script, sine(model, points=points, **change))
    assert made["diverged"] == [1] * 10
    numbers = torch.tensor([*chain(*made["seen"]), *made["weights"]])
    assert numbers.isfinite().all()
    errors = made["train"] + made["test"]
    assert all(error is None or 0 <= error < 1e300 for error in errors)


def test_a_member_that_diverges_goes_back_and_leaves_the_others_alone():
    script = """const trainer = createTrainer(given);
    const alone = createTrainer({ ...given, seeds: [1] });
    const size = alone.weights.length;
    const weights = trainer.weights.slice().fill(1e200, 0, size);
    trainer.setWeights(weights);
    trainer.step(5);
    alone.step(5);
    const { paths, reach } = trainer.solve();
    say({ out: trainer.diverged, back: trainer.weights.slice(0, size), paths, reach,
      same: alone.weights.every((w, k) => w === trainer.weights[size + k]),
      ...trainer.errors() });
    """
    made = node(script, sine("SONODE", seeds=[0, 1]))
    assert made["out"] == [1, 0] and set(made["back"]) == {1e200} and made["same"]
    assert made["reach"] == [0, 40] and torch.tensor(made["paths"]).isfinite().all()
    assert made["train"][0] is None and made["test"][0] is None and made["train"][1] > 0


# ---- the worker


def test_a_worker_made_of_the_text_trains_pauses_and_answers():
    """In a thread of node, from the same text as the page's."""
    script = """
    const { Worker } = require("worker_threads");
    const port = 'require("worker_threads").parentPort';
    const code = `(${laboratory.serve})(${port}, (${neuralOdes})())`;
    const worker = new Worker(code, { eval: true });
    const log = [];
    let wanted;
    worker.on("message", (message) => {
      log.push(message);
      if (wanted?.(message)) { wanted = null; next(); }
    });
    let next;
    const until = (test) => new Promise((resolve) => { [wanted, next] = [test, resolve]; });
    async function ask(message, test = () => true) {
      const answer = until(test);
      worker.postMessage(message);
      await answer;
      return log[log.length - 1];
    }
    (async () => {
      const first = await ask({ type: "start", id: "a", settings: given });
      await ask({ type: "run", until: 30 }, (frame) => !frame.running);
      const ran = log.slice();
      const stepped = await ask({ type: "step", count: 3 }, (frame) => !frame.running);
      await ask({ type: "run" }, (frame) => frame.iteration > 40);
      const paused = await ask({ type: "pause" }, (frame) => !frame.running);
      await new Promise((resolve) => setTimeout(resolve, 100));
      const still = await ask({ type: "rate", rate: 0.5 });
      const reset = await ask({ type: "reset" });
      const again = await ask({ type: "step" }, (frame) => !frame.running);
      worker.terminate();
      const own = createTrainer(given), fast = createTrainer({ ...given, rate: 0.5 });
      own.step(33);
      fast.step();
      const errors = [own.errors(), fast.errors()];
      say({ first, ran, stepped, paused, still, reset, again, errors });
    })();"""
    settings = sine("SONODE", seeds=[0, 1], points=[[0, 0], [0, 1]])
    made = node(script, settings)
    first, ran, paused = made["first"], made["ran"], made["paused"]
    assert (first["id"], first["iteration"], first["running"]) == ("a", 0, False)
    assert first["n"] == 2 and len(first["paths"]) == 2 * 40 * 2 and len(first["field"]) == 8
    assert ran[-1]["iteration"] == 30
    for k in (0, 1):
        assert len([*chain(*(frame["losses"][k] for frame in ran))]) == 30
    assert made["stepped"]["iteration"] == 33
    assert [len(losses) for losses in made["stepped"]["losses"]] == [3, 3]
    assert made["stepped"]["train"] == pytest.approx(made["errors"][0]["train"])
    assert made["stepped"]["test"] == pytest.approx(made["errors"][0]["test"])
    assert made["still"]["iteration"] == paused["iteration"] > 40
    for key in ("paths", "field", "train", "iteration"):
        assert made["reset"][key] == pytest.approx(first[key])
    assert made["again"]["train"] == pytest.approx(made["errors"][1]["train"]), "rate is kept"


# A port, a clock and an engine whose iterations last `given.cost` milliseconds.
FAKED = """
let [now, timers, mail, iterations] = [0, [], [], 0];
const serve = new Function("performance", "setTimeout", `return ${laboratory.serve}`)(
  { now: () => now }, (call) => timers.push(call));
const port = { postMessage: (message, handed) => mail.push({ message, handed, now }) };
serve(port, { need, whole, createTrainer(settings) {
  const trainer = createTrainer(settings), step = trainer.step;
  trainer.step = () => { iterations++; now += given.cost; step(); };
  return trainer;
} });
const send = (data) => { port.onmessage({ data }); return mail[mail.length - 1]; };
const pass = () => timers.splice(0).forEach((call) => call());
"""


def test_messages_wait_for_a_slice_at_most_and_frames_are_far_apart():
    script = """
    send({ type: "start", settings: given.settings });
    send({ type: "run" });
    send({ type: "pause" });
    send({ type: "run" });
    const [waiting, slices] = [timers.length, []];
    for (let k = 0; k < 100; k++) {
      const start = now;
      pass();
      slices.push(now - start);
    }
    const times = mail.slice(4).map((sent) => sent.now);
    const handed = mail.every(({ message: { paths, reach, field }, handed }) =>
      [paths, reach, field].every((array) => handed.includes(array.buffer)));
    say({ waiting, most: Math.max(...slices), now, times, handed, left: timers.length });"""
    settings = sine("NODE", count=5, seeds=[0])
    made = node(FAKED + script, {"settings": settings, "cost": 4})
    assert made["waiting"] == made["left"] == 1, "two loops would train at the same time"
    assert 20 <= made["most"] <= 40
    gaps = [b - a for a, b in zip(made["times"], made["times"][1:])]
    assert 50 <= min(gaps) and max(gaps) <= 100 and made["handed"]


WRONG = {
    "model": ["RNN", None],
    "x0": [[], [["a"]], 3],
    "times": [[0, 1, 1, 2, 3], None, [0], "later"],
    "data": [[[[None]]] * 5, [[[1.0]]], [[[1.0, 2.0]]] * 5, None],
    "mask": [[0] * 5, [1], [1, 1, 1, 1, 2]],
    "seeds": [[], [0.5], 3],
    "hidden": [[0], [10**9]],
    "steps": [0, 10**9],
    "augment": [1.5, 10**9],
    "rate": [-1, 0, "fast"],
    "points": [[[1.0, 2.0]]],
}


def test_a_malformed_message_is_answered_by_its_field_and_changes_nothing():
    script = """
    const early = send({ type: "run" }).message;
    send({ type: "start", id: 1, settings: given.settings });
    const wrong = given.wrong.map(([change, field]) =>
      [send({ type: "start", settings: { ...given.settings, ...change } }).message, field]);
    const more = [[null, "type"], ["run", "type"], [{ type: "fly" }, "type"],
      [{ type: "start" }, "settings"], [{ type: "start", settings: 3 }, "settings"],
      [{ type: "run", until: -2 }, "until"], [{ type: "step", count: 0.5 }, "count"],
      [{ type: "rate", rate: "fast" }, "rate"], [{ type: "rate" }, "rate"]];
    for (const [message, field] of more) wrong.push([send(message).message, field]);
    const count = timers.length, after = send({ type: "pause" }).message;
    say({ early, wrong, count, after });"""
    settings = sine("NODE", count=5, seeds=[0])
    wrong = [[{field: value}, field] for field, values in WRONG.items() for value in values]
    made = node(FAKED + script, {"settings": settings, "cost": 1, "wrong": wrong})
    assert made["early"]["type"] == "error" and made["early"]["field"] == "type"
    assert len(made["wrong"]) == len(wrong) + 9
    for answer, field in made["wrong"]:
        assert (answer["type"], answer.get("field")) == ("error", field), answer
        assert answer["message"].startswith(f"{field} must be ")
    assert made["count"] == 0 and made["after"]["id"] == 1 and made["after"]["type"] == "frame"


def test_a_blow_up_in_the_worker_ends_the_run_and_posts_no_nan():
    script = """
    send({ type: "start", settings: given.settings });
    send({ type: "run" });
    for (let k = 0; k < 100; k++) pass();
    const flat = (value) => typeof value === "object" && value !== null
      ? Object.values(value).flatMap(flat) : [value];
    const values = mail.flatMap(({ message: { ...frame } }) => flat(
      Object.fromEntries(Object.entries(frame).map(([key, value]) =>
        [key, ArrayBuffer.isView(value) ? Array.from(value) : value]))));
    const wild = values.filter((value) => typeof value === "number" && !Number.isFinite(value));
    const last = mail[mail.length - 1].message;
    say({ wild: wild.length, seen: values.length, last, iterations, left: timers.length });"""
    settings = sine("SONODE", seeds=[0, 1], rate=1e9, points=[[1.0, 1.0]])
    made = node(FAKED + script, {"settings": settings, "cost": 1})
    assert made["seen"] > 100 and made["wild"] == 0
    assert made["last"]["diverged"] == [True, True] and made["last"]["running"] is False
    assert made["iterations"] < 10 and made["left"] == 0


@pytest.mark.skipif(tools.chromium() is None, reason="no Chromium here")
@pytest.mark.xdist_group("browser")
def test_the_workers_train_in_a_page_that_is_opened_as_a_file(monkeypatch):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright not installed")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import laboratory

    try:
        rows = laboratory.in_chromium(rate=0.02, seconds=0.2)
    except playwright.Error as error:
        if "launch" not in str(error):
            raise
        pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
    assert [row["model"] for row in rows] == ["NODE", "ANODE", "SONODE"]
    assert all(row["rate"] > 0 and row["frames"] > 0 for row in rows)
