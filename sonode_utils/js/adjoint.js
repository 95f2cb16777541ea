// Step backwards through the adjoint method: trajectory, adjoint, accumulating gradient.
// data.rows: {t, x, r, dr, mu, k}, latest time first, two rows at each jump;
// data.looks, goals, jumps: the observations; data.end: the gradients to arrive at.
function render({ model, el }) {
  const { rows, looks, goals, jumps, end } = model.get("data");
  const { box, controls } = frame(el, model);
  const note = node("p", { class: "note", "aria-live": "polite" });
  const last = rows.t.length - 1;
  const span = (...lists) => {
    const all = lists.flat();
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const room = 0.08 * (high - low);
    return [low - room, high + room];
  };
  const curves = [
    { title: "the state", y: span(rows.x, goals), parts: { x: ["#7a7f87", ""] } },
    { title: "the adjoint", y: span(rows.r, rows.dr), parts: { r: ["#0072B2", ""], dr: ["#E69F00", "6 3"] } },
    { title: "the gradient so far", y: span(rows.mu, rows.k), parts: { mu: ["#009E73", ""], k: ["#CC79A7", "6 3"] } },
  ];
  const names = { x: "x", r: "r", dr: "r′", mu: "dL/dμ", k: "dL/dk" };
  const svg = picture(box, 760, 300);
  const time = [rows.t[last], rows.t[0]];
  const panels = curves.map(({ title, y, parts }, i) => {
    const panel = axes(svg, { left: 40 + i * 250, top: 30, width: 205, height: 190, x: time, y, title, xlabel: "time t" });
    let at = panel.X(time[0]);
    for (const [key, [colour, dash]] of Object.entries(parts)) {
      const style = { stroke: colour, "stroke-width": 3, "stroke-dasharray": dash };
      node("line", { x1: at, x2: at + 24, y1: 276, y2: 276, ...style }, panel.group);
      node("text", { x: at + 30, y: 280, text: names[key] }, panel.group);
      at += 90;
    }
    return { panel, parts, y };
  });

  function draw(step) {
    const now = rows.t[step];
    for (const { panel, parts, y } of panels) {
      panel.clear();
      for (const look of looks) {
        panel.line([[look, y[0]], [look, y[1]]], { "stroke-width": 1, "stroke-dasharray": "1 4" });
      }
      for (const [key, [colour, dash]] of Object.entries(parts)) {
        const points = rows.t.map((t, n) => [t, rows[key][n]]);
        const style = { stroke: colour, "stroke-width": 3, "stroke-dasharray": dash };
        if (key === "x") panel.line(points, { stroke: colour, "stroke-opacity": 0.4 });
        if (key in end) panel.line([[time[0], end[key]], [time[1], end[key]]], { stroke: colour, "stroke-width": 1, "stroke-dasharray": "2 3" });
        panel.line(points.slice(0, step + 1), key === "x" ? { stroke: colour, "stroke-width": 3 } : style);
        panel.dot(now, rows[key][step], { fill: colour, r: 5 });
      }
    }
    looks.forEach((look, i) => {
      const ring = { fill: "none", stroke: "currentColor", "stroke-width": 2, r: 6 };
      panels[0].panel.dot(look, goals[i], look >= now - 1e-9 ? ring : { ...ring, "stroke-opacity": 0.4 });
    });
    note.textContent = describe(step, now);
  }

  function describe(step, now) {
    const seen = looks.findIndex((look) => Math.abs(look - now) < 1e-9);
    const fresh = seen >= 0 && (step === 0 || rows.t[step - 1] === now);
    const jump = fresh ? ` An observation: r jumps by L_v = ${jumps[seen][1].toFixed(2)}, and r′ follows.` : "";
    const done = step === last ? ` Arrived: backpropagation gives ${end.mu.toFixed(3)} and ${end.k.toFixed(3)}.` : "";
    const value = (key) => `${names[key]} = ${rows[key][step].toFixed(key in end ? 3 : 2)}`;
    return ["r", "dr", "mu", "k"].map(value).join(", ") + "." + jump + done;
  }

  slider(controls, {
    label: "backwards from the last time", min: 0, max: last, value: 0,
    show: (step) => `t = ${rows.t[step].toFixed(2)}`, input: draw,
  });
  box.appendChild(note);
  draw(0);
}
export default { render };
