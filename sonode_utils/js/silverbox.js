// Tune the Silverbox by hand: the page integrates x'' = -w^2 x - c v + q x^3 / 100 + d u + b
// under the measured input and compares with the measured output.
// data: u, x, train (samples), window, fits: [[name, {omega, damping, cube, gain, bias, v0}]].
const WIDE = 100, SUBSTEPS = 2;

function respond({ omega, damping, cube, gain, bias, v0 }, u, x0) {
  const h = 1 / SUBSTEPS, force = (x, v, u) => -omega * omega * x - damping * v + 0.01 * cube * x * x * x + gain * u + bias;
  const path = [x0];
  for (let n = 0, x = x0, v = v0; n + 1 < u.length; n++) {
    for (let s = 0; s < SUBSTEPS; s++) {
      const [a, m, b] = [s, s + 0.5, s + 1].map((k) => u[n] + k * h * (u[n + 1] - u[n]));
      const a1 = force(x, v, a), v2 = v + (h / 2) * a1;
      const a2 = force(x + (h / 2) * v, v2, m), v3 = v + (h / 2) * a2;
      const a3 = force(x + (h / 2) * v2, v3, m), v4 = v + h * a3;
      const a4 = force(x + h * v3, v4, b);
      x += (h / 6) * (v + 2 * v2 + 2 * v3 + v4);
      v += (h / 6) * (a1 + 2 * a2 + 2 * a3 + a4);
    }
    path.push(x);
  }
  return path;
}

// Root mean square of the last `window` values at each sample from the first full one on.
function running(error, window) {
  const sums = [0];
  error.forEach((e, n) => sums.push(sums[n] + e * e));
  return sums.slice(window).map((s, n) => Math.sqrt(Math.max(0, s - sums[n]) / window));
}

const meanSquare = (e) => e.reduce((sum, v) => sum + v * v, 0) / e.length;

function render({ model, el }) {
  const { u, x, train, window, fits } = model.get("data");
  const { box, controls } = frame(el, model);
  const [near, far] = pictures(box, 2, 380, 290), panel = { left: 52, top: 30, width: 308, height: 206 };
  const top = Math.ceil(Math.max(...x.map(Math.abs)));
  let at = Math.round(0.784 * x.length), close = null, now = { ...fits[0][1] };
  const errors = axes(far, {
    ...panel, x: [0, x.length], y: [0, 1.4], title: `running error over ${window} samples`, xlabel: "sample", ylabel: "RMSE",
  });
  const note = node("p", { class: "note", "aria-live": "polite" }, box);

  function zoom() {
    if (close) close.group.remove();
    close = axes(near, { ...panel, x: [at, at + WIDE], y: [-top, top], title: "measured (dashed) and model", xlabel: "sample", ylabel: "x" });
  }

  function draw() {
    const path = respond(now, u, x[0]).map((v) => (Number.isFinite(v) ? Math.max(-9, Math.min(9, v)) : 9));
    const piece = (of) => of.slice(at, at + WIDE + 1).map((v, k) => [at + k, v]);
    close.clear();
    close.line(piece(x), { "stroke-width": 1.5, "stroke-dasharray": "5 3" });
    close.line(piece(path), { stroke: COLOURS.SONODE, "stroke-width": 2 });
    const error = path.map((v, n) => v - x[n]), every = (of) => of.map((v, n) => [n, v]).filter(([n]) => n % 5 === 0);
    errors.clear();
    errors.line([[train, 0], [train, 1.4]], { "stroke-width": 1, "stroke-dasharray": "2 4" });
    errors.line(every(running(x, window)), { "stroke-width": 1.5, "stroke-dasharray": "2 3" });
    errors.line(every(running(error, window)), { stroke: COLOURS.SONODE });
    node("text", { x: 124, y: 46, text: "dotted: predicting zero" }, errors.layer);
    node("text", { x: errors.X(train) + 4, y: 226, text: "test →" }, errors.layer);
    const [inside, beyond] = [[0, train], [train]].map((part) => [error, x].map((of) => meanSquare(of.slice(...part)).toPrecision(2)));
    note.textContent = `Training MSE ${inside[0]} (predicting zero ${inside[1]}), test MSE ${beyond[0]} (predicting zero ${beyond[1]}).`;
  }

  const knobs = {};
  function knob(name, label, min, max, step, digits) {
    knobs[name] = slider(controls, {
      label, min, max, step, value: now[name], show: (v) => v.toFixed(digits), input: (v) => { now[name] = v; draw(); },
    });
  }
  choice(controls, {
    label: "start from", options: fits.map(([name]) => name), value: fits[0][0],
    change: (name) => {
      now = { ...fits.find(([of]) => of === name)[1] };
      for (const [key, range] of Object.entries(knobs)) {
        const exact = now[key];
        range.value = exact;
        range.dispatchEvent(new Event("input"));
        now[key] = exact; // not rounded to the slider's step
      }
      draw();
    },
  });
  knob("omega", "frequency, rad per sample", 0.05, 1.2, 0.005, 3);
  knob("damping", "damping", 0, 1.5, 0.005, 3);
  knob("cube", "cubic coefficient", -2, 1, 0.01, 2);
  knob("gain", "input gain", 0, 1.5, 0.005, 3);
  slider(controls, {
    label: "look at sample", min: 0, max: x.length - WIDE - 1, step: 20, value: at,
    input: (v) => { at = v; zoom(); draw(); },
  });
  zoom();
  draw();
}
export default { render };
