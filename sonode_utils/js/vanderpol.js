// The forced Van der Pol oscillator, integrated in the page: a twin started close by, and
// the section once a forcing period. data.amplitude: where the slider starts; data.step and
// data.trained: {A: {model: positions}}, what trained linear models say at two forcings.
const MU = 8.53, OMEGA = 0.2 * Math.PI, PERIOD = 10, STEP = 0.01;
const PERIODS = 220, DROPPED = 40, SHOWN = 200, TRAINED = 69.35;

// Classic Runge-Kutta over one forcing period from [x, v]; visit(t, x) on the way.
function turn(A, [x, v], visit = () => {}) {
  const force = (t, x, v) => MU * (1 - x * x) * v - x + A * Math.cos(OMEGA * t);
  const h = STEP, half = h / 2;
  for (let n = 0; n < PERIOD / STEP; n++) {
    const t = n * h;
    visit(t, x);
    const a1 = force(t, x, v), v2 = v + half * a1;
    const a2 = force(t + half, x + half * v, v2), v3 = v + half * a2;
    const a3 = force(t + half, x + half * v2, v3), v4 = v + h * a3;
    const a4 = force(t + h, x + h * v3, v4);
    x += (h / 6) * (v + 2 * v2 + 2 * v3 + v4);
    v += (h / 6) * (a1 + 2 * a2 + 2 * a3 + a4);
  }
  return [x, v];
}

// The states at the start of each of `periods` forcing periods, and after the last.
function strobe(A, start, periods) {
  const states = [start];
  for (let n = 0; n < periods; n++) states.push(turn(A, states[n]));
  return states;
}

function path(A, start, until) {
  const points = [];
  for (let z = start, n = 0; n * PERIOD < until; n++) {
    let i = 0;
    z = turn(A, z, (t, x) => { if (i++ % 10 === 0) points.push([n * PERIOD + t, x]); });
  }
  return points;
}

function render({ model, el }) {
  const { amplitude, step, trained } = model.get("data");
  let A = amplitude, power = -2;
  const { box, controls } = frame(el, model);
  const [first, second] = pictures(box, 2, 400, 300);
  const motion = axes(first, { left: 50, top: 30, width: 330, height: 220, x: [0, SHOWN], y: [-6, 6], title: "the motion and its predictions", xlabel: "time t", ylabel: "x(t)" });
  const map = axes(second, { left: 60, top: 30, width: 320, height: 220, x: [-2.2, 2.2], y: [-2.2, 2.2], title: "the section, once per forcing period", xlabel: "x at the start of a period", ylabel: "x one period later" });
  const note = node("p", { class: "note", "aria-live": "polite" }, box);

  function draw() {
    const starts = [[0.1, 0], [0.1 + 10 ** power, 0]];
    const [one, other] = starts.map((start) => path(A, start, SHOWN));
    motion.clear();
    motion.line([[TRAINED, -6], [TRAINED, 6]], { "stroke-width": 1, "stroke-dasharray": "2 4" });
    const linear = Object.entries(trained[A.toFixed(1)] ?? {}).filter(() => Math.abs(10 * A - Math.round(10 * A)) < 1e-6);
    linear.forEach(([name, xs]) => motion.line(xs.map((x, n) => [n * step, x]), { stroke: COLOURS[name], "stroke-width": 1.5 }));
    motion.line(other, { stroke: "#d03b3b", "stroke-width": 1.5 });
    motion.line(one, { "stroke-dasharray": "4 2", "stroke-width": 1.5 });
    const section = strobe(A, starts[0], PERIODS).slice(DROPPED).map(([x]) => x);
    map.clear();
    map.line([[-2.2, -2.2], [2.2, 2.2]], { "stroke-width": 1, "stroke-dasharray": "2 4" });
    section.slice(1).forEach((x, n) => map.dot(section[n], x, { r: 3, fill: "#d03b3b", "fill-opacity": 0.7 }));
    const gap = Math.max(...one.slice(-300).map(([, x], n) => Math.abs(x - other[other.length - 300 + n][1])));
    const distinct = new Set(section.map((x) => x.toFixed(2))).size;
    const says = linear.length ? "Pink and blue: trained linear ANODE and SONODE. " : `Linear models were trained at A = ${Object.keys(trained).join(" and ")}. `;
    note.textContent = `Dashed: the true motion. Red: the true equation, started wrongly; in the last thirty time units it is off by up to ${gap.toPrecision(2)}. `
      + says + `The section takes ${distinct} values to two decimals in ${section.length} periods.`;
  }

  slider(controls, { label: "forcing A", min: 1, max: 1.6, step: 0.01, value: A, show: (a) => a.toFixed(2), input: (a) => { A = a; draw(); } });
  slider(controls, { label: "red start is off by", min: -8, max: -1, value: power, show: (p) => `10⁻${"⁰¹²³⁴⁵⁶⁷⁸"[-p]}`, input: (p) => { power = p; draw(); } });
  draw();
}
export default { render };
