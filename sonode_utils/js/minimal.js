// One curve, learnt with 0, 1 or 2 extra dimensions: the field F(x, y, a) at the moment t.
// data: {times, truth: (time, 2), crossing: [x, y], meets: [t, t], wanted: [deg, deg],
//        reach: largest |a|, nets: {dimensions: [layers of each seed]}}
const LOOK = { 0: "#E69F00", 1: "#CC79A7", 2: "color-mix(in srgb, #7d2f5e 70%, currentColor)" };
const STEPS = 400;
const PLANE = { x: [-3.5, 3.5], y: [-5.5, 3.5] };

function render({ model, el }) {
  const { times, truth, crossing, meets, wanted, reach, nets } = model.get("data");
  const end = times[times.length - 1];
  const { box, controls } = frame(el, model);
  const [left, right] = pictures(box, 2, 380, 390);
  const plane = axes(left, { left: 50, top: 30, width: 320, height: 315, ...PLANE, title: "the plane, and the field at time t", xlabel: "x", ylabel: "y" });
  const side = { left: 50, width: 320, height: 115, x: [0, end], xlabel: "time t" };
  const apart = axes(right, { ...side, top: 30, y: [0, 1], title: "distance from the true curve", ylabel: "distance" });
  const extra = axes(right, { ...side, top: 225, y: [-reach, reach], title: "extra coordinates a", ylabel: "a" });
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const frameAt = (t) => Math.round((t / end) * STEPS);
  const clock = (k) => (k * end) / STEPS;
  let n = "1", seed = 0, now = clock(frameAt(meets[0])), path = [], field = null;
  const trueAt = (t) => {
    const k = Math.min(times.length - 2, Math.floor((t / end) * (times.length - 1)));
    const s = (t - times[k]) / (times[k + 1] - times[k]);
    return truth[k].map((v, i) => v + s * (truth[k + 1][i] - v));
  };
  const gap = (k) => Math.hypot(...trueAt(clock(k)).map((v, i) => v - path[k][i]));

  function solve() {
    field = mlp(nets[n][seed], "elu");
    path = flow((t, z) => field(z), [...truth[0], ...Array(+n).fill(0)], 0, end, STEPS);
    draw();
  }

  function arrow(x, y, a, look) {
    const [u, v] = field([x, y, ...a]);
    const scale = 0.45 / Math.max(1e-9, Math.hypot(u, v));
    const [from, to] = [[x, y], [x + scale * u, y + scale * v]].map(([p, q]) => [plane.X(p), plane.Y(q)]);
    const turn = Math.atan2(to[1] - from[1], to[0] - from[0]), long = 3.5 + 1.5 * look["stroke-width"];
    const barb = (by) => [to[0] - long * Math.cos(turn + by), to[1] - long * Math.sin(turn + by)];
    const d = `M${from}L${to}M${barb(0.5)}L${to}L${barb(-0.5)}`;
    node("path", { d, fill: "none", ...look }, plane.layer);
    return ((Math.atan2(v, u) * 180) / Math.PI + 360) % 360;
  }

  function draw() {
    [plane, apart, extra].forEach((panel) => panel.clear());
    const k = frameAt(now), a = path[k].slice(2), colour = LOOK[n];
    for (let x = -3; x <= 3; x += 0.75)
      for (let y = -5; y <= 3; y += 0.8) arrow(x, y, a, { stroke: "currentColor", "stroke-width": 1, "stroke-opacity": 0.6 });
    plane.line(truth, { "stroke-dasharray": "6 4", "stroke-width": 1.5 });
    plane.line(path.slice(0, k + 1), { stroke: colour, "stroke-width": 3 });
    plane.dot(...trueAt(now), { r: 6, fill: "none", stroke: "currentColor", "stroke-width": 2 });
    plane.dot(path[k][0], path[k][1], { r: 5, fill: colour });
    const angle = arrow(...crossing, a, { stroke: "#d03b3b", "stroke-width": 3 });
    apart.line(path.map((_, j) => [clock(j), Math.min(1, gap(j))]), { stroke: colour });
    for (let i = 0; i < +n; i++) extra.line(path.map((z, j) => [clock(j), z[2 + i]]), { stroke: colour, "stroke-dasharray": i ? "6 3" : "" });
    apart.line([[now, 0], [now, 1]], { "stroke-width": 1 });
    extra.line([[now, -reach], [now, reach]], { "stroke-width": 1 });
    const wants = meets.map((t, i) => `${wanted[i].toFixed(0)}° at t = ${t.toFixed(2)}`).join(" and ");
    note.textContent = `t = ${now.toFixed(2)}: ${gap(k).toFixed(3)} from the true curve. At the crossing (red arrow) the field points to ${angle.toFixed(0)}°; the curve asks for ${wants}.`;
  }

  choice(controls, { label: "extra dimensions", options: Object.keys(nets), value: n, change: (value) => { n = value; solve(); } });
  slider(controls, { label: "seed", min: 0, max: nets[n].length - 1, value: seed, show: (k) => `${k + 1} of ${nets[n].length}`, input: (k) => { seed = k; solve(); } });
  const dial = slider(controls, { label: "time", min: 0, max: end, step: end / STEPS, value: now, show: (t) => t.toFixed(2), input: (t) => { now = t; draw(); } });
  player(controls, (share) => { dial.value = share * end; dial.dispatchEvent(new Event("input")); }, 8);
  solve();
}
export default { render };
