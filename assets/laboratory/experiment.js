// What is to be learnt: the state of the laboratory, the data that it stands for, and both of them
// as text, one for the address of the page and one for Python. Nothing here draws.
const MODELS = ["NODE", "ANODE", "SONODE"];
const SEEDS = 3; // of each model
const COUNT = 50; // numbers in a drawn curve
const REACH = 2; // of a drawn curve: from -REACH to REACH

const line = (low, high, count) =>
  Array.from({ length: count }, (_, k) => low + ((high - low) * k) / (count - 1));
const rounded = (value, digits = 4) => +value.toFixed(digits);

// The nearest x that two digits to the base 36 can say: what is drawn is what the address holds.
const LEVELS = 36 ** 2 - 1;
const levelOf = (x) => Math.round(((Math.min(REACH, Math.max(-REACH, x)) + REACH) / (2 * REACH)) * LEVELS);
const valueOf = (level) => rounded(-REACH + (2 * REACH * level) / LEVELS);
const snapped = (x) => valueOf(levelOf(x));

// The wave that the page opens with: it comes back to where it was, with another slope.
const WAVE = line(0, 10, COUNT).map((t) => snapped(1.5 * Math.exp(-0.1 * t) * Math.cos(1.1 * t)));

// Per task: its name, the times, the starts and the position at time t from the start x0. Where
// only the end is data, the path there is up to the model. reach: of the position's axis.
const TASKS = {
  draw: { name: "draw your own", times: line(0, 10, COUNT), reach: 2.2 },
  sine: { name: "the sine of the paper", times: line(0, 12, COUNT), reach: 1.8, starts: [0], motion: Math.sin },
  oscillators: {
    name: "damped oscillators",
    times: line(0, 12, 40),
    reach: 1.8,
    starts: [1.5, 0.6, -1],
    motion: (t, x0) => x0 * Math.exp(-0.1 * t) * (Math.cos(t) + 0.1 * Math.sin(t)), // from rest
  },
  parity: {
    name: "parity: exchange two points",
    times: line(0, 1, 21),
    reach: 1.8,
    starts: [1, -1],
    motion: (t, x0) => x0 * (1 - 2 * t), // the straight way
    endOnly: true,
  },
};

// What each name in the address may be: its default, and how its text is read (undefined if wrong).
const number = (least, most, whole = false) => (text) => {
  const value = text.trim() === "" ? NaN : Number(text);
  return value >= least && value <= most && (!whole || Number.isInteger(value)) ? value : undefined;
};
const FIELDS = {
  task: ["draw", (text) => (Object.hasOwn(TASKS, text) ? text : undefined)],
  noise: [0, number(0, 0.5)],
  rate: [0.02, number(0.001, 10)],
  until: [0.6, number(0.2, 1)], // the share of the time that trains
  extra: [1, number(1, 3, true)],
  seed: [0, number(0, 20, true)],
  x: [WAVE, readCurve],
};

// A drawn curve as text, two digits per number, and back.
const curveText = (curve) => curve.map((x) => levelOf(x).toString(36).padStart(2, "0")).join("");

function readCurve(text) {
  if (!/^[0-9a-z]+$/.test(text) || text.length !== 2 * COUNT) return undefined;
  return text.match(/../g).map((digits) => valueOf(parseInt(digits, 36)));
}

const defaults = () => Object.fromEntries(Object.entries(FIELDS).map(([name, [value]]) => [name, value]));

// The state as the end of an address; the curve stands there only where it is the task.
function stateText(state) {
  const names = Object.keys(FIELDS).filter((name) => name !== "x" || state.task === "draw");
  return "#" + names.map((name) => `${name}=${name === "x" ? curveText(state.x) : state[name]}`).join("&");
}

// The state that an address asks for, and the names of what could not be read. An address without
// "=" leads to a section of the page and asks for nothing.
function readState(hash) {
  const [state, wrong] = [defaults(), []];
  if (!hash.includes("=")) return { state, wrong };
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [name, text = ""] = part.split("=");
    const value = Object.hasOwn(FIELDS, name) ? FIELDS[name][1](text) : undefined;
    if (value === undefined) wrong.push(name || "a part without a name");
    else state[name] = value;
  }
  return { state, wrong };
}

// The data of a state. truth and data: (time, start), data with noise where it trains; mask as the
// engine has it; speed: the largest slope of the truth.
function experiment(state, stream) {
  const { times, starts = [state.x[0]], motion, endOnly } = TASKS[state.task];
  const end = state.until * times[times.length - 1] + 1e-9;
  const truth = times.map((t, k) => starts.map((x0) => (motion ? rounded(motion(t, x0)) : state.x[k])));
  const last = times.length - 1;
  const mask = times.map((t, k) => (endOnly ? (k === last ? 1 : -1) : t <= end ? 1 : 0));
  const random = stream("noise", state.seed);
  const gauss = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const noisy = endOnly ? 0 : state.noise;
  const data = truth.map((row, k) => row.map((x) => (mask[k] === 1 ? rounded(x + noisy * gauss()) : x)));
  const slopes = starts.flatMap((_, b) =>
    times.slice(1).map((t, k) => Math.abs(truth[k + 1][b] - truth[k][b]) / (t - times[k])));
  return { times, starts, truth, data, mask, endOnly, end: endOnly ? 1 : end, speed: Math.max(...slopes) };
}

// What the engine is told: the experiment, and the points of the phase plane that want arrows.
function settings(model, state, { times, starts, data, mask }, points) {
  const seeds = Array.from({ length: SEEDS }, (_, k) => state.seed + k);
  const column = (rows) => rows.map((x) => [x]);
  const known = { model, seeds, augment: state.extra, rate: state.rate, points };
  return { ...known, x0: column(starts), times, data: data.map(column), mask };
}

// ---- The same in Python --------------------------------------------------------------------

const float = (x) => (Number.isInteger(x) ? `${x}.0` : String(x));

function rows(numbers, perLine) {
  const lines = [];
  for (let k = 0; k < numbers.length; k += perLine) lines.push("    " + numbers.slice(k, k + perLine).map(float).join(", ") + ",");
  return lines.join("\n");
}

function python(state, { times, starts, data, mask }) {
  const kept = times.map((_, k) => k).filter((k) => k === 0 || mask[k] >= 0);
  const role = (wanted) => kept.map((k, place) => (mask[k] === wanted ? place : -1)).filter((place) => place >= 0);
  const range = (list) => (list.length ? `range(${list[0]}, ${list[list.length - 1] + 1})` : "range(0)");
  return `# Of the laboratory: ${TASKS[state.task].name}; the initial weights are other draws.
import torch

from sonode_utils import fit, mse, paper_model, streams

iterations = 500
seeds = range(${state.seed}, ${state.seed + SEEDS})
train, test = list(${range(role(1))}), list(${range(role(0))})  # which times
times = torch.tensor([
${rows(kept.map((k) => rounded(times[k])), 10)}
])  # fmt: skip
data = torch.tensor([
${rows(kept.flatMap((k) => data[k]), 10)}
]).view(${kept.length}, 1, ${starts.length}, 1)  # fmt: skip  (time, member, start, d)
x0 = torch.tensor([${starts.map(float).join(", ")}]).view(1, -1, 1).expand(len(seeds), -1, -1)


def loss(solve):
    seen = times[: train[-1] + 1]
    x = solve(x0, seen).x[train]
    return mse(x, data[train].expand_as(x))


for name in ("NODE", "ANODE", "SONODE"):
    rng = streams(f"laboratory, {name}", seeds)
    model = paper_model(name, 1, rng, augment=${state.extra})
    history = fit(model, loss, iterations=iterations, lr=${state.rate}, label=name)
    error = (model.solve_tight(x0, times).x - data).square().mean((2, 3))  # (time, member)
    print(f"{name:6}  error where it trains: {error[train].mean(0).nanmedian():.1e}")
    if test:
        print(f"        beyond: {error[test].mean(0).nanmedian():.1e}")
    if history.diverged.any():
        print(f"        {history.diverged.sum()} of {len(seeds)} seeds diverged")
`;
}
