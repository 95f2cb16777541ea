// A noisy sine, learnt twice: sliders over noise level and seed, errors in words.
// data.paths[model][level][seed] at data.frames; data.points[level][seed] at data.times.
const END = 10;

function render({ model, el }) {
  const { levels, frames, times, points, paths, train, test } = model.get("data");
  const { box, controls } = frame(el, model);
  const panel = axes(picture(box, 760, 330), {
    left: 60, top: 30, width: 680, height: 250, x: [0, frames[frames.length - 1]], y: [-2.5, 2.5],
    xlabel: "time t", ylabel: "x(t)",
  });
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  let level = Math.min(3, levels.length - 1), seed = 0;

  function draw() {
    panel.clear();
    panel.line([[END, -2.5], [END, 2.5]], { "stroke-width": 1, "stroke-dasharray": "2 4" });
    panel.line(frames.map((t) => [t, Math.sin(t)]), { "stroke-width": 1, "stroke-dasharray": "6 4" });
    points[level][seed].forEach((x, k) => panel.dot(times[k], x, { r: 3, "fill-opacity": 0.5 }));
    for (const [name, path] of Object.entries(paths)) {
      const curve = path[level][seed].map((x, k) => [frames[k], Math.max(-2.5, Math.min(2.5, x))]);
      panel.line(curve, { stroke: COLOURS[name], "stroke-width": 3, "stroke-dasharray": DASHES[name] });
    }
    legend();
    note.textContent = Object.keys(paths).map(words).join(" · ");
  }

  function legend() {
    ["sin t", ...Object.keys(paths)].forEach((name, i) => {
      const [x, y] = [70 + 110 * i, 18];
      const dash = { "stroke-dasharray": COLOURS[name] ? DASHES[name] : "6 4" };
      const look = { stroke: COLOURS[name] ?? "currentColor", "stroke-width": COLOURS[name] ? 3 : 1 };
      node("path", { d: `M${x} ${y - 4}h24`, ...look, ...dash }, panel.layer);
      node("text", { x: x + 30, y, text: name }, panel.layer);
    });
  }

  function words(name) {
    const [fitted, beyond] = [train, test].map((of) => of[name][level][seed]);
    return `${name}: training MSE ${fitted.toPrecision(2)}, test MSE ${beyond.toPrecision(2)}`;
  }

  slider(controls, {
    label: "noise", min: 0, max: levels.length - 1, value: level,
    show: (j) => `σ = ${levels[j]}`, input: (j) => { level = j; draw(); },
  });
  slider(controls, {
    label: "seed", min: 0, max: points[0].length - 1, value: seed,
    show: (k) => `${k + 1} of ${points[0].length}`, input: (k) => { seed = k; draw(); },
  });
  draw();
}
export default { render };
