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
  const tint = (colour) => `color-mix(in srgb, ${colour} 75%, currentColor)`; // legible in the dark too
  const curves = [
    { title: "the state", y: span(rows.x, goals), parts: { x: ["currentColor", ""] } },
    { title: "the adjoint", y: span(rows.r, rows.dr), parts: { r: [tint("#6f4e9c"), ""], dr: [tint("#8c6d31"), "6 3"] } },
    { title: "the gradient so far", y: span(rows.mu, rows.k), parts: { mu: [tint("#3b7d83"), ""], k: [tint("#a33b3b"), "6 3"] } },
  ];
  const names = { x: "x", r: "r", dr: "r′", mu: "dL/dμ", k: "dL/dk" };
  const svgs = pictures(box, 3, 255, 262);
  const time = [rows.t[last], rows.t[0]];
  const panels = curves.map(({ title, y, parts }, i) => {
    const panel = axes(svgs[i], { left: 40, top: 30, width: 205, height: 165, x: time, y, title, xlabel: "time t" });
    let at = panel.X(time[0]);
    for (const [key, [colour, dash]] of Object.entries(parts)) {
      const style = { stroke: colour, "stroke-width": 3, "stroke-dasharray": dash };
      node("line", { x1: at, x2: at + 24, y1: 248, y2: 248, ...style }, panel.group);
      node("text", { x: at + 30, y: 252, text: names[key] }, panel.group);
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
    note.setAttribute("aria-live", playing() ? "off" : "polite");
    note.textContent = describe(step, now);
  }

  function describe(step, now) {
    const seen = looks.findIndex((look) => Math.abs(look - now) < 1e-9);
    const fresh = seen >= 0 && (step === 0 || rows.t[step - 1] === now);
    const jump = fresh ? ` An observation: r jumps by ∂L/∂v = ${jumps[seen][1].toFixed(2)}, and r′ follows.` : "";
    const done = step === last ? ` Arrived: backpropagation gives ${end.mu.toFixed(3)} and ${end.k.toFixed(3)}.` : "";
    const value = (key) => `${names[key]} = ${rows[key][step].toFixed(key in end ? 3 : 2)}`;
    return ["r", "dr", "mu", "k"].map(value).join(", ") + "." + jump + done;
  }

  // Plays by itself when it is first seen; a reader who prefers no motion finds it half way.
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let [from, before] = [0, 1];
  const button = player(controls, (share) => {
    if (share < before) from = +range.value === last ? 0 : +range.value; // go on where it paused
    before = share;
    range.value = Math.round(from + share * (last - from));
    range.dispatchEvent(new Event("input"));
  }, 12);
  const playing = () => button.textContent.includes("pause");
  const range = slider(controls, {
    label: "backwards in time", min: 0, max: last, value: still ? Math.ceil(last / 2) : 0,
    show: (step) => `t = ${rows.t[step].toFixed(2)}`, input: draw,
  });
  box.appendChild(note);
  draw(+range.value);
  const seen = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    seen.disconnect();
    if (!playing()) button.click();
  }, { threshold: 0.4 });
  if (!still) seen.observe(box);
}
export default { render };
