// The pictures of the laboratory, in SVG: a pad to draw on, and per model the motion over time, the
// phase plane and the loss. Nothing here trains, and nothing here knows what the reader chose.
const A_MOST = 8; // the learnt field of an ANODE is known for its first a from -A_MOST to A_MOST
const A_ROWS = line(-A_MOST, A_MOST, 33);
const COLUMNS = 11; // of arrows
const LOSSES = [-6, 1]; // powers of ten

// The points (x, v) or (x, a) of the phase plane where the engine tells the learnt field.
function fieldPoints(model, state, { speed }) {
  const { reach } = TASKS[state.task];
  if (model === "NODE") return line(-reach, reach, 61).map((x) => [x]);
  const rows = model === "ANODE" ? A_ROWS : line(-1.3 * speed, 1.3 * speed, 9);
  const zeros = Array(model === "ANODE" ? state.extra - 1 : 0).fill(0);
  return line(-0.92 * reach, 0.92 * reach, COLUMNS).flatMap((x) => rows.map((y) => [x, y, ...zeros]));
}

// Axes that fill an svg as it stands in the page: text has one size, however wide the column is.
function fill(svg, height, given) {
  const width = Math.round(svg.parentElement.getBoundingClientRect().width / svg.columns) - 6 || 300;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return axes(svg, { left: 48, top: 24, width: width - 60, height: height - 62, ...given });
}

// What stands still behind the curves of a panel.
function behind(panel, made) {
  panel.group.insertBefore(made, panel.layer);
}

function shade(panel, end, reach) {
  const [top, bottom] = [panel.Y(reach), panel.Y(-reach)];
  const box = { x: panel.X(0), y: top, width: panel.X(end) - panel.X(0), height: bottom - top };
  behind(panel, node("rect", { ...box, class: "seen" }));
}

// Many dots in one element: lines of no length with round ends.
function dots(panel, points, attributes) {
  const d = points.map(([a, b]) => `M${panel.X(a).toFixed(1)} ${panel.Y(b).toFixed(1)}h0`).join("");
  behind(panel, node("path", { d, stroke: "currentColor", "stroke-linecap": "round", ...attributes }));
}

const DASHED = { "stroke-dasharray": "5 4", "stroke-width": 1.5 };

// The motion over time: what trains (dots on the shaded ground), and the truth (dashed).
function fitPanel(svg, height, title, state, tried) {
  const { times, starts, truth, data, mask, endOnly, end } = tried;
  const { reach } = TASKS[state.task];
  const range = { x: [0, times[times.length - 1]], y: [-reach, reach] };
  const panel = fill(svg, height, { ...range, title, xlabel: "time t", ylabel: "x" });
  if (!endOnly) shade(panel, end, reach);
  const seen = times.flatMap((t, k) => (mask[k] === 1 ? data[k].map((x) => [t, x]) : []));
  dots(panel, seen, endOnly ? { "stroke-width": 11 } : { "stroke-width": 4, opacity: 0.6 });
  starts.forEach((_, b) => behind(panel, panel.line(times.map((t, k) => [t, truth[k][b]]), DASHED)));
  return panel;
}

// The plane of position and velocity, with the truth in it; of an ANODE, of x and its first a.
function phasePanel(svg, height, model, state, tried, most) {
  const { times, starts, truth, speed, endOnly } = tried;
  const { reach } = TASKS[state.task];
  const y = model === "ANODE" ? most : 1.4 * speed;
  const ylabel = { NODE: "dx/dt", ANODE: state.extra > 1 ? "first a" : "a", SONODE: "v" }[model];
  const title = { NODE: "NODE: one velocity per x", ANODE: "ANODE: x and a", SONODE: "SONODE: x and v" }[model];
  const panel = fill(svg, height, { x: [-reach, reach], y: [-y, y], title, xlabel: "x", ylabel });
  if (model === "ANODE" || endOnly) return panel;
  const slope = (b, k) => (truth[k + 1][b] - truth[k - 1][b]) / (times[k + 1] - times[k - 1]);
  const inner = times.map((_, k) => k).slice(1, -1);
  starts.forEach((_, b) => behind(panel, panel.line(inner.map((k) => [truth[k][b], slope(b, k)]), DASHED)));
  return panel;
}

// dz/dt at points of the plane as arrows: their direction on the screen, and roughly their size.
function arrows(panel, points, speeds) {
  const [ox, oy] = [panel.X(0), panel.Y(0)];
  const [sx, sy] = [panel.X(1) - ox, panel.Y(1) - oy];
  const moves = speeds.map(([x, y]) => [x * sx, y * sy]);
  const most = Math.max(1e-9, ...moves.map(([x, y]) => Math.hypot(x, y)));
  const d = moves.map(([x, y], k) => {
    const size = Math.hypot(x, y);
    if (size < 1e-6 * most) return "";
    const [c, s] = [x / size, y / size];
    const long = 14 * Math.sqrt(size / most);
    const [px, py] = [panel.X(points[k][0]) + long * c, panel.Y(points[k][1]) + long * s];
    const barb = (side) => `${(px - 3 * c - side * 2 * s).toFixed(1)} ${(py - 3 * s + side * 2 * c).toFixed(1)}`;
    const tip = `${px.toFixed(1)} ${py.toFixed(1)}`;
    return `M${(px - long * c).toFixed(1)} ${(py - long * s).toFixed(1)}L${tip}M${barb(1)}L${tip}L${barb(-1)}`;
  });
  node("path", { d: d.join(""), fill: "none", stroke: "currentColor", class: "field" }, panel.layer);
}

// The style of one seed's curves: the first that is still in training is drawn thick.
function seedLook(model, member, diverged) {
  const shown = Math.max(0, diverged.indexOf(false));
  const strong = { stroke: COLOURS[model], "stroke-width": 2.5, "stroke-linejoin": "round" };
  if (member === shown) return strong;
  return { ...strong, "stroke-width": 1.3, opacity: diverged[member] ? 0.3 : 0.75 };
}

// The states of one path as far as it goes: of a seed (member) and a start (b).
function pathOf({ n, paths, reach }, times, batch, member, b) {
  const at = (k) => ((member * times.length + k) * batch + b) * n;
  return times.slice(0, reach[member * batch + b]).map((_, k) => paths.subarray(at(k), at(k) + n));
}

function eachPath(frame, { times, starts }, draw) {
  for (let member = frame.diverged.length - 1; member >= 0; member--) {
    starts.forEach((_, b) => draw(pathOf(frame, times, starts.length, member, b), member));
  }
}

function drawFit(panel, model, frame, tried) {
  panel.clear();
  eachPath(frame, tried, (path, member) =>
    panel.line(path.map((z, k) => [tried.times[k], z[0]]), seedLook(model, member, frame.diverged)));
}

// The largest |a| of an ANODE's paths, as one of 1, 2, 4, 8.
function reachOfA(frame, tried) {
  let most = 0;
  eachPath(frame, tried, (path) => path.forEach((z) => { most = Math.max(most, Math.abs(z[1])); }));
  return [1, 2, 4].find((range) => most <= range) ?? A_MOST;
}

function drawPhase(panel, model, frame, state, tried, most) {
  panel.clear();
  const points = fieldPoints(model, state, tried);
  const { n, field, diverged } = frame;
  const fieldOf = (member, k) => field.subarray((member * points.length + k) * n, (member * points.length + k + 1) * n);
  const look = (member) => seedLook(model, member, diverged);
  if (model === "NODE") { // no plane: the velocity is a function of the position
    for (let member = diverged.length - 1; member >= 0; member--) {
      panel.line(points.map(([x], k) => [x, fieldOf(member, k)[0]]), look(member));
    }
    return;
  }
  const shown = Math.max(0, diverged.indexOf(false));
  const kept = points.map((_, k) => k).filter((k) => model === "SONODE" || wanted(points[k][1], most));
  arrows(panel, kept.map((k) => points[k]), kept.map((k) => fieldOf(shown, k)));
  eachPath(frame, tried, (path, member) => panel.line(path.map((z) => [z[0], z[1]]), look(member)));
}

// Seven rows of arrows, whatever the range of a is.
function wanted(a, most) {
  return Math.abs(a) < most && Number.isInteger((4 * a) / most);
}

// The losses of every model's seeds, thinned out as they grow: lists of [iteration, log10(loss)].
class Losses {
  constructor() {
    this.lines = Object.fromEntries(MODELS.map((name) => [name, []]));
    this.stride = Object.fromEntries(MODELS.map((name) => [name, 1]));
    this.counts = Object.fromEntries(MODELS.map((name) => [name, Array(SEEDS).fill(0)]));
  }

  add(model, losses) {
    losses.forEach((list, member) => {
      const kept = (this.lines[model][member] ??= []);
      for (const loss of list) {
        const count = this.counts[model][member]++;
        if (count % this.stride[model] === 0) kept.push([count, Math.log10(Math.max(loss, 1e-30))]);
      }
    });
    if (Math.max(...this.lines[model].map((kept) => kept.length)) < 400) return;
    this.stride[model] *= 2;
    this.lines[model] = this.lines[model].map((kept) => kept.filter(([count]) => count % this.stride[model] === 0));
  }

  // The iterations that the axis shows: a round number.
  most() {
    const count = Math.max(...Object.values(this.counts).flat());
    return [100, 200, 500, 1000, 2000, 3000].find((most) => count <= most) ?? 3000 * Math.ceil(count / 3000);
  }
}

function lossPanel(svg, height, most) {
  const [low, high] = LOSSES;
  const range = { x: [0, most], y: [low - 0.3, high] };
  const panel = fill(svg, height, { ...range, title: "loss", xlabel: "iterations", ylabel: "" });
  for (const label of panel.group.querySelectorAll("text[text-anchor=end]")) {
    const power = label.textContent;
    label.textContent = "10";
    node("tspan", { text: power.replace("-", "−"), dy: -5, "font-size": 9 }, label);
  }
  return panel;
}

function drawLosses(panel, losses, out) {
  panel.clear();
  for (const model of MODELS) {
    losses.lines[model].forEach((kept, member) => {
      const look = seedLook(model, member, out[model]);
      panel.line(kept, { ...look, "stroke-width": member ? 1 : 1.8, "stroke-dasharray": DASHES[model] });
    });
  }
}
