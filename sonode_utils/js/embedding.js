// A NODE inside a SONODE: a start off the curve v = f(x), and a pull towards that curve.
// data.weights: a learnt NODE; data.start: [x, v]; data.end: the last time.
const SPAN = { x: [0, 8], v: [-0.5, 2] };
const STEPS = 200;

// x″ = f′(x) v + pull (f(x) − v), f′ by a central difference.
function inSonode(f, pull) {
  const slope = (x) => (f(x + 1e-4) - f(x - 1e-4)) / 2e-4;
  return (t, [x, v]) => [v, slope(x) * v + pull * (f(x) - v)];
}

function render({ model, el }) {
  const { weights, start, end } = model.get("data");
  const net = mlp(weights, "elu");
  const f = (x) => net([x])[0];
  let z = [...start], pull = 0;
  const { box, controls } = frame(el, model);
  const [left, right] = pictures(box, 2, 380, 290);
  const size = { left: 50, top: 30, width: 315, height: 215 };
  const real = axes(left, { ...size, x: [0, end], y: SPAN.x, title: "real space", xlabel: "time t", ylabel: "x" });
  const phase = axes(right, { ...size, x: SPAN.x, y: SPAN.v, title: "phase space", xlabel: "x", ylabel: "velocity v" });
  const mark = node("circle", { r: 8, fill: COLOURS.SONODE, stroke: "currentColor" }, phase.group);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const within = (value, [low, high]) => Math.min(high, Math.max(low, value));

  function draw() {
    const dashed = { stroke: COLOURS.NODE, "stroke-width": 3, "stroke-dasharray": DASHES.NODE };
    const sonode = { stroke: COLOURS.SONODE, "stroke-width": 2 };
    const first = flow((t, [x]) => [f(x)], [z[0]], 0, end, STEPS);
    const second = flow(inSonode(f, pull), z, 0, end, STEPS);
    const curve = Array.from({ length: 81 }, (_, i) => SPAN.x[0] + ((SPAN.x[1] - SPAN.x[0]) * i) / 80);
    const inTime = (path) => path.map(([x], n) => [(n * end) / STEPS, x]);
    [real, phase].forEach((panel) => panel.clear());
    real.line(inTime(first), dashed);
    real.line(inTime(second), sonode);
    phase.line(curve.map((x) => [x, f(x)]), dashed);
    phase.line(second, sonode);
    [["NODE, v = f(x)", dashed], ["SONODE", sonode]].forEach(([name, look], i) => {
      node("path", { d: `M${60 + 130 * i} 234h24`, ...look }, real.layer);
      node("text", { x: 90 + 130 * i, y: 238, text: name }, real.layer);
    });
    mark.setAttribute("cx", phase.X(z[0]));
    mark.setAttribute("cy", phase.Y(z[1]));
    const off = ([x, v]) => (Math.round(1000 * (v - f(x))) / 1000 + 0).toFixed(3); // no minus zero
    note.textContent = `v − f(x) is ${off(z)} at the start and ${off(second[STEPS])} at t = ${end}. `
      + `There x is ${first[STEPS][0].toFixed(2)} for the NODE and ${second[STEPS][0].toFixed(2)} for the SONODE.`;
  }

  const place = (x, v) => { z = [within(x, [0.2, 5]), within(v, SPAN.v)]; draw(); };
  handle(phase, mark, "start of the SONODE in phase space, arrow keys move it", place, (dx, dv) => place(z[0] + dx, z[1] + dv));
  slider(controls, { label: "pull", min: 0, max: 3, step: 0.1, value: pull, show: (p) => p.toFixed(1), input: (p) => { pull = p; draw(); } });
  const onto = node("button", { type: "button", text: "start on the curve" }, controls);
  onto.addEventListener("click", () => place(z[0], f(z[0])));
  draw();
}
export default { render };
