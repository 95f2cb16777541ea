// Points in motion: a slider over time, one panel per model, ANODE's seen in three dimensions.
// data.panels[model] = {points, ring: (frame, point, 2 or 3), border: (point, 2), inside: (frame)}
// in asinh coordinates; data.label: 0 inside, 1 outside, by point; data.times; data.inner, a count.
const CLASS = ["#3b7d83", "#8c6d31"];

function range({ points, ring }) {
  const widest = [points, ring].flat(4).reduce((most, v) => Math.max(most, Math.abs(v)), 1);
  return [-1.05 * widest, 1.05 * widest];
}

function render({ model, el }) {
  const { panels, label, times, inner } = model.get("data");
  const { box, controls } = frame(el, model);
  const svgs = pictures(box, 3, 262, 285);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const drawn = ["NODE", "ANODE", "SONODE"].map((name, i) => {
    const data = panels[name], limits = range(data);
    const panel = axes(svgs[i], {
      left: 48, top: 26, width: 206, height: 210, x: limits, y: limits, title: name, xlabel: "arcsinh x₁", ylabel: "arcsinh x₂",
    });
    return { name, data, panel, long: 0.3 * (limits[1] - limits[0]) };
  });
  const last = times.length - 1;
  let at = Math.round(0.68 * last), tilt = 0; // the ring is stretched, and still resolved

  // Turned about the first axis by the tilt: the augmented coordinate comes into view.
  const seen = ([a, b, c]) => (c === undefined ? [a, b] : [a, b * Math.cos(tilt) + c * Math.sin(tilt)]);

  // The points at the moment `at`, which may lie between two stored frames.
  function now(frames) {
    const k = Math.min(Math.floor(at), last - 1), share = at - k;
    return frames[k].map((p, i) => seen(p.map((v, j) => v + share * (frames[k + 1][i][j] - v))));
  }

  function draw() {
    for (const { data, panel, long } of drawn) {
      panel.clear();
      outline(panel, now(data.ring), long);
      const flat = tilt === 0 || data.ring[0][0].length === 2;
      if (at === last && flat) panel.line(data.border, { "stroke-width": 1.3, "stroke-dasharray": "4 3" });
      now(data.points).forEach((p, k) => mark(panel, p, label[k]));
    }
    note.textContent = words();
  }

  // The closed curve; dotted where two stored points are too far apart to know what lies between.
  function outline(panel, ring, long) {
    const look = { stroke: CLASS[1], "stroke-width": 1.3 };
    let run = [ring.at(-1)];
    for (const q of ring) {
      const p = run.at(-1);
      if (Math.hypot(q[0] - p[0], q[1] - p[1]) > long) {
        panel.line(run, look);
        panel.line([p, q], { ...look, "stroke-opacity": 0.5, "stroke-dasharray": "1 4" });
        run = [];
      }
      run.push(q);
    }
    panel.line(run, look);
  }

  // Discs are the inside, crosses the outside: the classes differ in shape as well.
  function mark(panel, [a, b], kind) {
    if (kind === 0) return panel.dot(a, b, { r: 2.5, fill: CLASS[0] });
    const [x, y] = [panel.X(a), panel.Y(b)];
    const d = `M${x - 2.5} ${y - 2.5}l5 5m0 -5l-5 5`;
    return node("path", { d, stroke: CLASS[1], "stroke-width": 1.5, fill: "none" }, panel.layer);
  }

  function words() {
    const counts = drawn.map(({ name, data }) => `${name} ${data.inside[Math.round(at)]}`);
    return `Inner points still inside the ring at t = ${times[Math.round(at)].toFixed(2)}, of ${inner}: ${counts.join(" · ")}`;
  }

  const time = slider(controls, {
    label: "time", min: 0, max: last, value: at,
    show: (v) => `t = ${times[v].toFixed(2)}`, input: (v) => { at = v; draw(); },
  });
  player(controls, (share) => {
    time.value = share * last; // its nearest frame
    time.dispatchEvent(new Event("input"));
    at = share * last;
    draw();
  });
  slider(controls, {
    label: "tilt ANODE", min: 0, max: 90, step: 5, value: 0, show: (v) => `${v}°`,
    input: (v) => { tilt = (v * Math.PI) / 180; draw(); },
  });
  draw();
}
export default { render };
