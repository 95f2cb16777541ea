// Two starts in phase space, dragged by mouse or arrow keys, and both their trajectories in time.
// data.weights: a learnt acceleration f(x, v); data.starts: two points [x, v].
const STEPS = 400;
const LOOKS = [["#8c6d31", ""], ["#3b7d83", "7 3"]]; // not the colour of any model

function systems(weights) {
  const learnt = mlp(weights, "elu");
  return {
    "oscillator, x″ = −x": { f: (x) => -x, end: 6.28 },
    "pendulum, x″ = −sin x − 0.2 x′": { f: (x, v) => -Math.sin(x) - 0.2 * v, end: 10 },
    "learnt SONODE": { f: (x, v) => learnt([x, v])[0], end: 1 },
    "forced, x″ = −x − 3 sin 2t": { f: (x, v, t) => -x - 3 * Math.sin(2 * t), end: 6.28 },
  };
}

function render({ model, el }) {
  const { weights, starts } = model.get("data");
  const all = systems(weights);
  const z = starts.map((start) => [...start]);
  const { box, controls } = frame(el, model);
  const drawing = node("div", {}, box);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const inside = (v) => Math.min(2.5, Math.max(-2.5, v));
  let system, real, phase, marks, share = 1;

  function build(name) {
    system = all[name];
    drawing.replaceChildren();
    const [left, right] = pictures(drawing, 2, 375, 300);
    const size = { left: 50, top: 26, width: 315, height: 225, y: [-3.2, 3.2] };
    real = axes(left, { ...size, x: [0, system.end], title: "real space", xlabel: "time t", ylabel: "x" });
    phase = axes(right, { ...size, x: [-3.2, 3.2], title: "phase space", xlabel: "x", ylabel: "velocity v" });
    marks = z.map((_, k) => {
      const mark = node("circle", { r: 8, fill: LOOKS[k][0], stroke: "currentColor" }, phase.group);
      const place = (x, v) => { z[k] = [inside(x), inside(v)]; draw(); };
      handle(phase, mark, `start ${k + 1} in phase space, arrow keys move it`, place, (dx, dv) => place(z[k][0] + dx, z[k][1] + dv));
      return mark;
    });
    draw();
  }

  function draw() {
    const field = (t, [x, v]) => [v, system.f(x, v, t)];
    const paths = z.map((start) => flow(field, start, 0, system.end, STEPS));
    const time = (n) => (n * system.end) / STEPS, now = Math.round(share * STEPS);
    [real, phase].forEach((panel) => panel.clear());
    paths.forEach((path, k) => {
      const [stroke, dash] = LOOKS[k], look = { stroke, "stroke-width": 3, "stroke-dasharray": dash };
      real.line(path.slice(0, now + 1).map(([x], n) => [time(n), x]), look);
      phase.line(path.slice(0, now + 1), look);
      real.dot(time(now), path[now][0], { r: 5, fill: stroke });
      phase.dot(...path[now], { r: 5, fill: stroke });
      marks[k].setAttribute("cx", phase.X(z[k][0]));
      marks[k].setAttribute("cy", phase.Y(z[k][1]));
    });
    const gap = paths[0].map(([x], n) => x - paths[1][n][0]);
    const meet = gap.flatMap((d, n) => (n && d * gap[n - 1] < 0 ? [n] : []));
    for (const n of meet.filter((n) => n <= now)) {
      const ring = { r: 8, fill: "none", stroke: "currentColor", "stroke-width": 2 };
      real.dot(time(n), paths[0][n][0], ring);
      for (const path of paths) phase.dot(...path[n], { ...ring, r: 6 });
    }
    const apart = Math.min(...paths[0].map(([x, v], n) => Math.hypot(x - paths[1][n][0], v - paths[1][n][1])));
    const when = meet.length ? `they cross at t = ${meet.map((n) => time(n).toFixed(2)).join(", ")}` : "they do not cross";
    note.textContent = `Real space: ${when}. Phase space: at equal times never closer than ${apart.toFixed(3)}.`;
  }

  choice(controls, { label: "system", options: Object.keys(all), value: Object.keys(all)[0], change: build });
  player(controls, (s) => { share = s; draw(); });
  build(Object.keys(all)[0]);
}
export default { render };
