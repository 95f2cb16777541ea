// A curve, learnt from dots: a panel per model, sliders over level and seed, time to play.
// data.paths[model][level][seed] at data.frames; data.points[level][seed] at data.times.
// The levels are of noise over a sine; or, with data.iterations, of training, which is played.

function render({ model, el }) {
  const { levels, iterations, frames, times, points, paths, train, test, floor,
    end = 10, reach = 2.5, truth = frames.map(Math.sin) } = model.get("data");
  const { box, controls } = frame(el, model);
  const last = frames[frames.length - 1], names = Object.keys(paths);
  const width = names.length > 2 ? 290 : 400;
  const svgs = pictures(box, names.length, width, 260);
  const panels = names.map((name, i) => [name, axes(svgs[i], {
    left: 50, top: 26, width: width - 60, height: 190, x: [0, last], y: [-reach, reach],
    title: name, xlabel: "time t", ylabel: "x(t)",
  })]);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const steps = (iterations ?? levels).length, seeds = points[0].length;
  let level = iterations ? Math.floor(0.3 * steps) : Math.min(5, steps - 1), seed = 0;

  function draw(share = 1) {
    for (const [name, panel] of panels) {
      const shade = { x: panel.X(end), y: panel.Y(reach), "fill-opacity": 0.07, fill: "currentColor" };
      const size = { width: panel.X(last) - panel.X(end), height: panel.Y(-reach) - panel.Y(reach) };
      panel.clear();
      node("rect", { ...shade, ...size }, panel.layer);
      label(panel, 0.3, "start", "fitted to the dots");
      label(panel, last - 0.3, "end", "continued");
      panel.line(frames.map((t, k) => [t, truth[k]]), { "stroke-width": 1.5, "stroke-dasharray": "6 4" });
      (points[level] ?? points[0])[seed].forEach((x, k) => panel.dot(times[k], x, { r: 2.5, "fill-opacity": 0.45 }));
      const shown = frames.filter((t) => t <= share * last);
      const curve = shown.map((t, k) => [t, paths[name][level][seed][k]]);
      panel.line(curve, { stroke: COLOURS[name], "stroke-width": 3 });
    }
  }

  function label(panel, t, anchor, text) {
    node("text", { x: panel.X(t), y: panel.Y(reach) + 12, "text-anchor": anchor, text }, panel.layer);
  }

  function update() {
    draw();
    const [fitted, beyond] = [train, test].map((of) => (name) => of[name][level][seed].toPrecision(2));
    const words = names.map((name) => `${name}: training error ${fitted(name)}, test ${beyond(name)}.`);
    if (floor) words.push(`Noise floor: ${floor[level][seed].toPrecision(2)}.`);
    note.textContent = words.join(" ");
  }

  const range = slider(controls, {
    label: iterations ? "training iteration" : "noise", min: 0, max: steps - 1, value: level,
    show: (j) => (iterations ? `${iterations[j]}` : `σ = ${levels[j]}`), input: (j) => { level = j; update(); },
  });
  if (seeds > 1) slider(controls, {
    label: "seed", min: 0, max: seeds - 1, value: seed,
    show: (k) => `${k + 1} of ${seeds}`, input: (k) => { seed = k; update(); },
  });
  const training = (share) => { range.value = Math.round(share * (steps - 1)); range.dispatchEvent(new Event("input")); };
  player(controls, iterations ? training : draw, 8);
  update();
}
export default { render };
