// A third order equation chosen by its poles on a map of the loss, and its response over frequency.
// data.frequency (Hz), data.third (1/s), data.damping: the grid; data.train, data.test and
// data.weight: [damping][third][frequency], the best fit with those poles; data.measured and
// data.trained: [frequency, gain] and {label: [[frequency, third], ...]}; data.zero, data.gain.
const LOG = Math.log10;

function gain(f, f0, zeta, p, w) {
  const s = 2 * Math.PI * f, s0 = 2 * Math.PI * f0;
  const pair = Math.hypot(s0 * s0 - s * s, 2 * zeta * s0 * s);
  return Math.abs(w) / (pair * Math.hypot(s, p));
}

function render({ model, el }) {
  const data = model.get("data");
  const { frequency, third, damping } = data;
  const { box, controls } = frame(el, model);
  const [first, second] = pictures(box, 2, 380, 320);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const half = (grid) => (LOG(grid[1]) - LOG(grid[0])) / 2;
  const [dx, dy] = [half(frequency), half(third)];
  const span = (grid, d) => [LOG(grid[0]) - d, LOG(grid[grid.length - 1]) + d];
  const map = axes(first, {
    left: 60, top: 30, width: 300, height: 240, x: span(frequency, dx), y: span(third, dy),
    title: "training loss of the best fit", xlabel: "log₁₀ frequency of the pair (Hz)", ylabel: "log₁₀ third pole (1/s)",
  });
  const bode = axes(second, {
    left: 60, top: 30, width: 300, height: 240, x: [2, 15], y: [0, 6],
    title: "gain from input to output", xlabel: "frequency (Hz)", ylabel: "gain",
  });
  let [k, j, i] = [...data.start];

  const shade = (loss) => Math.min(1, Math.max(0.03, LOG(data.zero / loss) / LOG(data.zero / data.lowest)));
  function cells() {
    map.clear();
    data.train[k].forEach((row, b) => row.forEach((loss, a) => {
      const [x, y] = [map.X(LOG(frequency[a]) - dx), map.Y(LOG(third[b]) + dy)];
      const [width, height] = [map.X(2 * dx) - map.X(0), map.Y(0) - map.Y(2 * dy)];
      node("rect", { x, y, width, height, fill: COLOURS.TONODE, "fill-opacity": shade(loss).toFixed(2) }, map.layer);
    }));
    Object.values(data.trained).forEach((points, n) => points.forEach(([f, p]) => {
      map.dot(LOG(f), LOG(p), n ? { r: 4, fill: "none", stroke: "currentColor", "stroke-width": 1.5 } : { r: 3 });
    }));
  }

  const mark = node("circle", { r: 8, fill: "#D55E00", stroke: "currentColor" }, map.group);
  const nearest = (grid, v) => grid.reduce((best, g, n) => (Math.abs(LOG(g) - v) < Math.abs(LOG(grid[best]) - v) ? n : best), 0);
  const clip = (n, grid) => Math.min(grid.length - 1, Math.max(0, n));
  handle(map, mark, "poles of the equation, arrow keys move them",
    (x, y) => { i = nearest(frequency, x); j = nearest(third, y); draw(); },
    (x, y) => { i = clip(i + Math.sign(x), frequency); j = clip(j + Math.sign(y), third); draw(); });

  function draw() {
    const [f0, p, zeta] = [frequency[i], third[j], damping[k]];
    mark.setAttribute("cx", map.X(LOG(f0)));
    mark.setAttribute("cy", map.Y(LOG(p)));
    mark.setAttribute("aria-label", `poles of the equation: pair at ${f0.toPrecision(2)} Hz, third pole ${p.toPrecision(2)} per second; arrow keys move them`);
    bode.clear();
    bode.line(data.measured, { "stroke-width": 1.2, "stroke-dasharray": "4 2" });
    bode.line([[2, data.gain], [15, data.gain]], { "stroke-dasharray": "1 4", "stroke-width": 1.5 });
    const grid = Array.from({ length: 131 }, (_, n) => 2 + n / 10);
    bode.line(grid.map((f) => [f, gain(f, f0, zeta, p, data.weight[k][j][i])]), { stroke: "#D55E00" });
    note.textContent = `Pair at ${f0.toPrecision(2)} Hz, damping ratio ${zeta}, third pole at −${p.toPrecision(2)} per second: ` +
      `training MSE ${data.train[k][j][i].toPrecision(3)}, free run ${data.test[k][j][i].toPrecision(3)} ` +
      `(predicting zero ${data.zero.toPrecision(3)}). Dashed: the measured gain. Dotted: one constant, k u.`;
  }

  slider(controls, {
    label: "damping ratio", min: 0, max: damping.length - 1, value: k, show: (n) => String(damping[n]),
    input: (n) => { k = n; cells(); draw(); },
  });
  const [full, ring] = Object.keys(data.trained);
  node("p", { class: "note", text: `Dots: ${full}. Rings: ${ring}. Drag the point, or move it with the arrow keys.` }, box);
  cells();
  draw();
}
export default { render };
