// Three learnt flows side by side: drag the start, or move it with the arrow keys.
// data.flows[D][model] = {f, g?, augment}; data.start[D] = a point of the training set.
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
  const { flows, start } = model.get("data");
  const { box, controls } = frame(el, model);
  const drawing = node("div", {}, box);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  let D, x, panels;

  function build(dimension) {
    [D, x] = [+dimension, [...start[dimension]]];
    drawing.replaceChildren();
    const svg = picture(drawing, 760, 290);
    const line = D === 1;
    panels = ["NODE", "ANODE", "SONODE"].map((name, i) => {
      const panel = axes(svg, {
        left: 50 + i * 245, top: 30, width: 200, height: 200,
        x: line ? [-0.08, 1.08] : [-1.5, 1.5], y: [-1.5, 1.5], title: name,
        xlabel: line ? "time t" : "first coordinate",
        ylabel: i ? "" : line ? "x" : "second coordinate",
      });
      const mark = node("circle", { r: 8, fill: COLOURS[name], stroke: "currentColor" }, panel.group);
      handle(panel, mark, `start of ${name}, arrow keys move it`, place, (dx, dy) => place(line ? 0 : x[0] + dx, (line ? x[0] : x[1]) + (line ? dy + dx : dy)));
      return { name, panel, mark, solve: solver(name, flows[D][name]) };
    });
    draw();
  }

  function place(a, b) {
    const inside = (v) => Math.min(1, Math.max(-1, v));
    if (D === 1) x[0] = inside(b);
    else [x[0], x[1]] = [inside(a), inside(b)];
    draw();
  }

  function draw() {
    const errors = panels.map(({ name, panel, mark, solve }) => {
      const path = solve(x);
      const end = path[STEPS].slice(0, D);
      panel.clear();
      const points = path.map((z, n) => (D === 1 ? [n / STEPS, z[0]] : [z[0], z[1]]));
      const [target, from] = D === 1 ? [[1, -x[0]], [0, x[0]]] : [[-x[0], -x[1]], [x[0], x[1]]];
      panel.line([from, target], { "stroke-width": 1, "stroke-dasharray": "4 4", "stroke-opacity": 0.6 });
      panel.dot(...target, { r: 9, fill: "none", stroke: "currentColor", "stroke-width": 2 });
      panel.line(points, { stroke: COLOURS[name], "stroke-width": 3 });
      panel.dot(...points[STEPS], { r: 5, fill: COLOURS[name] });
      mark.setAttribute("cx", panel.X(from[0]));
      mark.setAttribute("cy", panel.Y(from[1]));
      const miss = Math.hypot(...end.map((v, i) => v + x[i])) / Math.hypot(...x);
      return `${name} misses by ${(100 * miss).toFixed(miss < 0.1 ? 1 : 0)} %`;
    });
    note.textContent = errors.join(" · ");
  }

  choice(controls, { label: "dimension D", options: Object.keys(flows), value: Object.keys(flows)[0], change: build });
  const again = node("button", { type: "button", text: "back to the first start" }, controls);
  again.addEventListener("click", () => build(D));
  build(Object.keys(flows)[0]);
}
export default { render };
