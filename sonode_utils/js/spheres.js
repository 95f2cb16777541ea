// Points in motion: a slider over time, a panel a model, one of them seen in three dimensions.
// data.panels[model] = {points, ring: (frame, point, 2 or 3), border: (point, 2), inside: (frame)}
// in asinh coordinates; data.label: 0 inside, 1 outside, by point; data.times; data.blue, a count.
const CLASS = ["#0072B2", "#D55E00"];

function range({ points, ring }) {
  const widest = [points, ring].flat(4).reduce((most, v) => Math.max(most, Math.abs(v)), 1);
  return [-1.05 * widest, 1.05 * widest];
}

function render({ model, el }) {
  const { panels, label, times, blue } = model.get("data");
  const { box, controls } = frame(el, model);
  const svg = picture(box, 760, 275);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const drawn = ["NODE", "ANODE", "SONODE"].map((name, i) => {
    const data = panels[name], limits = range(data);
    const panel = axes(svg, {
      left: 30 + i * 250, top: 30, width: 210, height: 210, x: limits, y: limits, title: name,
    });
    return { name, data, panel };
  });
  let at = 0, tilt = 0;

  // Turned about the first axis by the tilt: the augmented coordinate comes into view.
  const seen = ([a, b, c]) => (c === undefined ? [a, b] : [a, b * Math.cos(tilt) + c * Math.sin(tilt)]);

  function draw() {
    for (const { data, panel } of drawn) {
      panel.clear();
      const ring = data.ring[at].map(seen);
      panel.line([...ring, ring[0]], { stroke: CLASS[1], "stroke-width": 1 });
      const flat = tilt === 0 || data.ring[0][0].length === 2;
      if (at === times.length - 1 && flat) panel.line(data.border, { "stroke-width": 1, "stroke-dasharray": "4 3" });
      data.points[at].forEach((p, k) => mark(panel, seen(p), label[k]));
    }
    note.textContent = words();
  }

  // Discs are the inside, crosses the outside: the classes differ in shape as well.
  function mark(panel, [a, b], kind) {
    if (kind === 0) return panel.dot(a, b, { r: 2.5, fill: CLASS[0] });
    const [x, y] = [panel.X(a), panel.Y(b)];
    const d = `M${x - 2.5} ${y - 2.5}l5 5m0 -5l-5 5`;
    return node("path", { d, stroke: CLASS[1], "stroke-width": 1.3, fill: "none" }, panel.layer);
  }

  function words() {
    const counts = drawn.map(({ name, data }) => `${name} ${data.inside[at]}`);
    return `At t = ${times[at].toFixed(2)}, of ${blue} blue points inside the orange ring: ${counts.join(" · ")}`;
  }

  slider(controls, {
    label: "time", min: 0, max: times.length - 1, value: 0,
    show: (v) => `t = ${times[v].toFixed(2)}`, input: (v) => { at = v; draw(); },
  });
  slider(controls, {
    label: "tilt, for ANODE", min: 0, max: 90, step: 5, value: 0, show: (v) => `${v}°`,
    input: (v) => { tilt = (v * Math.PI) / 180; draw(); },
  });
  draw();
}
export default { render };
