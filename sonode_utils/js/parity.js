// Three learnt flows side by side: drag a start, or move it with the arrow keys; let time run.
// data.flows[D][model] = {f, g?, augment}; data.starts[D] = starting points, two in D = 1.
const STEPS = 60;

function solver(name, { f, g, augment }) {
  const force = mlp(f, "elu");
  if (name === "SONODE") {
    const velocity = mlp(g, "tanh");
    const field = (t, z) => [...z.slice(z.length / 2), ...force(z)];
    return (x) => flow(field, [...x, ...velocity(x)], 0, 1, STEPS);
  }
  return (x) => flow((t, z) => force(z), [...x, ...Array(augment).fill(0)], 0, 1, STEPS);
}

function render({ model, el }) {
  const { flows, starts } = model.get("data");
  const { box, controls } = frame(el, model);
  const drawing = node("div", {}, box);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  let D, points, panels, time = 1;

  function build(dimension) {
    [D, points] = [+dimension, starts[dimension].map((x) => [...x])];
    drawing.replaceChildren();
    const line = D === 1, svgs = pictures(drawing, 3, 250, 275);
    panels = ["NODE", "ANODE", "SONODE"].map((name, i) => {
      const panel = axes(svgs[i], {
        left: 48, top: 26, width: 195, height: 205,
        x: line ? [-0.08, 1.08] : [-1.5, 1.5], y: [-1.5, 1.5], title: name,
        xlabel: line ? "time t" : "first coordinate", ylabel: line ? "x" : "second coordinate",
      });
      const marks = points.map((x, k) => {
        const mark = node("circle", { r: 8, fill: COLOURS[name], stroke: "currentColor" }, panel.group);
        const place = (a, b) => {
          const inside = (v) => Math.min(1, Math.max(-1, v));
          if (line) x[0] = inside(b);
          else [x[0], x[1]] = [inside(a), inside(b)];
          draw();
        };
        const nudge = (dx, dy) => (line ? place(0, x[0] + dx + dy) : place(x[0] + dx, x[1] + dy));
        handle(panel, mark, `start ${k + 1} of ${name}, arrow keys move it`, place, nudge);
        return mark;
      });
      return { name, panel, marks, solve: solver(name, flows[D][name]) };
    });
    draw();
  }

  function draw() {
    const misses = panels.map(({ name, panel, marks, solve }) => {
      panel.clear();
      const miss = points.map((x, k) => {
        const path = solve(x), now = Math.round(time * STEPS);
        const curve = path.map((z, n) => (D === 1 ? [n / STEPS, z[0]] : [z[0], z[1]]));
        const [from, target] = D === 1 ? [[0, x[0]], [1, -x[0]]] : [x, [-x[0], -x[1]]];
        panel.line([from, target], { "stroke-width": 1.5, "stroke-dasharray": "5 4" });
        panel.dot(...target, { r: 9, fill: "none", stroke: "currentColor", "stroke-width": 2 });
        panel.line(curve.slice(0, now + 1), { stroke: COLOURS[name], "stroke-width": 3 });
        panel.dot(...curve[now], { r: 5, fill: COLOURS[name] });
        marks[k].setAttribute("cx", panel.X(from[0]));
        marks[k].setAttribute("cy", panel.Y(from[1]));
        return Math.hypot(...x.map((v, i) => v + path[STEPS][i]));
      });
      return `${name} ${Math.max(...miss).toFixed(2)}`;
    });
    note.textContent = `Distance from the goal at t = 1${points.length > 1 ? ", the larger of the two" : ""}: ${misses.join(" · ")}`;
  }

  const until = (share) => { clock.value = share; clock.dispatchEvent(new Event("input")); };
  const known = Object.keys(flows);
  if (known.length > 1) choice(controls, { label: "dimension D", options: known, value: known[0], change: build });
  player(controls, until);
  const clock = slider(controls, { label: "time t", min: 0, max: 1, step: 0.01, value: 1, show: (t) => t.toFixed(2), input: (t) => { time = t; draw(); } });
  const again = node("button", { type: "button", text: "reset the starts" }, controls);
  again.addEventListener("click", () => build(D));
  build(known[0]);
}
export default { render };
