// A noisy sine, learnt twice: a panel per model, sliders over noise level and seed, time to play.
// data.paths[model][level][seed] at data.frames; data.points[level][seed] at data.times.
const END = 10, SPAN = [-2.5, 2.5];

function render({ model, el }) {
  const { levels, frames, times, points, paths, train, test, floor } = model.get("data");
  const { box, controls } = frame(el, model);
  const last = frames[frames.length - 1];
  const svgs = pictures(box, Object.keys(paths).length, 400, 260);
  const panels = Object.keys(paths).map((name, i) => [name, axes(svgs[i], {
    left: 50, top: 26, width: 340, height: 190, x: [0, last], y: SPAN,
    title: name, xlabel: "time t", ylabel: "x(t)",
  })]);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  let level = Math.min(5, levels.length - 1), seed = 0;

  function draw(share = 1) {
    for (const [name, panel] of panels) {
      const shade = { x: panel.X(END), y: panel.Y(SPAN[1]), "fill-opacity": 0.07, fill: "currentColor" };
      const size = { width: panel.X(last) - panel.X(END), height: panel.Y(SPAN[0]) - panel.Y(SPAN[1]) };
      panel.clear();
      node("rect", { ...shade, ...size }, panel.layer);
      label(panel, 0.3, "start", "fitted to the dots");
      label(panel, last - 0.3, "end", "continued");
      panel.line(frames.map((t) => [t, Math.sin(t)]), { "stroke-width": 1.5, "stroke-dasharray": "6 4" });
      points[level][seed].forEach((x, k) => panel.dot(times[k], x, { r: 2.5, "fill-opacity": 0.45 }));
      const shown = frames.filter((t) => t <= share * last);
      const curve = shown.map((t, k) => [t, paths[name][level][seed][k]]);
      panel.line(curve, { stroke: COLOURS[name], "stroke-width": 3 });
    }
  }

  function label(panel, t, anchor, text) {
    node("text", { x: panel.X(t), y: panel.Y(SPAN[1]) + 12, "text-anchor": anchor, text }, panel.layer);
  }

  function update() {
    draw();
    const [fitted, beyond] = [train, test].map((of) => (name) => of[name][level][seed].toPrecision(2));
    const words = panels.map(([name]) => `${name}: training error ${fitted(name)}, test ${beyond(name)}.`);
    note.textContent = `${words.join(" ")} Noise floor: ${floor[level][seed].toPrecision(2)}.`;
  }

  slider(controls, {
    label: "noise", min: 0, max: levels.length - 1, value: level,
    show: (j) => `σ = ${levels[j]}`, input: (j) => { level = j; update(); },
  });
  slider(controls, {
    label: "seed", min: 0, max: points[0].length - 1, value: seed,
    show: (k) => `${k + 1} of ${points[0].length}`, input: (k) => { seed = k; update(); },
  });
  player(controls, draw, 6);
  update();
}
export default { render };
