// Starts set by mouse or keys in the phase plane; trained networks integrated from each of them.
// data: {networks: {model: [layers of each seed]}, gamma, omega, reach, horizon}
const END = 20, STEPS = 400, MOST = 5;

// The exact motion of the damped oscillator, x and v at time t from (x0, v0).
function exact([x0, v0], t, gamma, omega) {
  const s = (v0 + gamma * x0) / omega, decay = Math.exp(-gamma * t);
  const c = Math.cos(omega * t), n = Math.sin(omega * t);
  return [decay * (x0 * c + s * n), decay * ((s * omega - gamma * x0) * c - (x0 * omega + gamma * s) * n)];
}

// The state's derivative: SONODE learns only the acceleration, ANODE carries a third row.
function learntField(name, layers) {
  const f = mlp(layers, "elu");
  return name === "SONODE" ? (t, z) => [z[1], f(z)[0]] : (t, z) => f(z);
}

function render({ model, el }) {
  const { networks, gamma, omega, reach, horizon } = model.get("data");
  const names = Object.keys(networks);
  const state = { name: names.at(-1), seed: 0, starts: [[1.5, 0.5], [3.5, -2]] };
  const { box, controls } = frame(el, model);
  const [left, right] = pictures(box, 2, 380, 325);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const size = { left: 50, top: 30, width: 320, height: 250, y: [-4, 4] };
  const phase = axes(left, { ...size, x: [-4, 4], title: "phase plane: click to add a start", xlabel: "position x", ylabel: "velocity v" });
  const real = axes(right, { ...size, x: [0, END], title: "position over time", xlabel: "time t", ylabel: "x" });
  const inside = (v) => Math.min(4, Math.max(-4, v));
  const marks = node("g", {}, phase.group);

  const ground = node("rect", { x: 50, y: 30, width: 320, height: 250, fill: "transparent" });
  phase.group.insertBefore(ground, phase.layer);
  ground.addEventListener("click", (event) => add(phase.toData(event)));
  const corner = { x: phase.X(-reach), y: phase.Y(reach), width: phase.X(reach) - phase.X(-reach), height: phase.Y(-reach) - phase.Y(reach) };
  const square = node("rect", { ...corner, fill: "none", stroke: "currentColor", "stroke-dasharray": "2 4", "pointer-events": "none" });
  phase.group.insertBefore(square, phase.layer);

  function add(start) {
    state.starts = [...state.starts, start.map(inside)].slice(-MOST);
    place();
  }

  // One handle a start: dragged, or moved by arrow keys; Delete takes it away.
  function place(focus = -1) {
    marks.replaceChildren();
    state.starts.forEach((start, k) => {
      const mark = node("circle", { r: 8, fill: COLOURS[state.name], stroke: "currentColor", cx: phase.X(start[0]), cy: phase.Y(start[1]) }, marks);
      const move = (x, v) => {
        state.starts[k] = [inside(x), inside(v)];
        mark.setAttribute("cx", phase.X(state.starts[k][0]));
        mark.setAttribute("cy", phase.Y(state.starts[k][1]));
        draw();
      };
      handle(phase, mark, `start ${k + 1}: arrow keys move it, Delete takes it away`, move, (dx, dv) => move(state.starts[k][0] + 2 * dx, state.starts[k][1] + 2 * dv));
      mark.addEventListener("keydown", (event) => {
        if (event.key !== "Delete" || state.starts.length === 1) return;
        state.starts.splice(k, 1);
        place(0);
      });
      if (k === focus) mark.focus();
    });
    draw();
  }

  function draw() {
    const field = learntField(state.name, networks[state.name][state.seed]);
    const stroke = COLOURS[state.name], blank = state.name === "ANODE" ? [0] : [];
    const missed = { within: [], beyond: [] };
    [phase, real].forEach((panel) => panel.clear());
    for (const start of state.starts) {
      const learnt = flow(field, [...start, ...blank], 0, END, STEPS);
      const time = (n) => (n * END) / STEPS;
      const truth = learnt.map((_, n) => exact(start, time(n), gamma, omega));
      const dashed = { "stroke-dasharray": "5 4", "stroke-width": 1.5 };
      phase.line(truth, dashed);
      phase.line(learnt, { stroke });
      real.line(truth.map(([x], n) => [time(n), x]), dashed);
      real.line(learnt.map(([x], n) => [time(n), x]), { stroke });
      learnt.forEach(([x], n) => missed[time(n) <= horizon ? "within" : "beyond"].push((x - truth[n][0]) ** 2));
    }
    real.line([[horizon, -4], [horizon, 4]], { "stroke-dasharray": "2 4", "stroke-width": 1 });
    const rms = (all) => Math.sqrt(all.reduce((sum, v) => sum + v, 0) / all.length);
    const outside = state.starts.some((start) => start.some((v) => Math.abs(v) > reach));
    note.textContent = `${state.name}, seed ${state.seed}: rms error of x ${rms(missed.within).toPrecision(2)} up to t = ${horizon}, `
      + `${rms(missed.beyond).toPrecision(2)} after it${outside ? "; a start lies outside the square it was trained in" : ""}. Dashed: the true motion.`;
  }

  choice(controls, { label: "model", options: names, value: state.name, change: (name) => { state.name = name; place(); } });
  slider(controls, { label: "seed", min: 0, max: networks[names[0]].length - 1, value: 0, input: (seed) => { state.seed = seed; draw(); } });
  const adder = node("button", { type: "button", text: "add a start" }, controls);
  adder.addEventListener("click", () => add([2 * Math.sin(7 * state.starts.length), 2 * Math.cos(5 * state.starts.length)]));
  const reset = node("button", { type: "button", text: "one start" }, controls);
  reset.addEventListener("click", () => { state.starts = [[1.5, 0.5]]; place(); });
  place();
}
export default { render };
