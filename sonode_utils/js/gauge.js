// One motion, many augmented paths: a slider over the strength of the gauge.
// data: {times, x: (function, time), gauges: [c], a: (gauge, function, time)}
function render({ model, el }) {
  const { times, x, gauges, a } = model.get("data");
  const { box, controls } = frame(el, model);
  const svgs = pictures(box, 2, 320, 262);
  const span = [times[0], times[times.length - 1]];
  const reach = (curves) => Math.max(...curves.flat(3).map(Math.abs)) * 1.05;
  const panels = [["real space x", reach(x)], ["augmented dimension a", reach(a)]].map(([title, r], i) =>
    axes(svgs[i], { left: 40, top: 30, width: 270, height: 165, x: span, y: [-r, r], xlabel: "time t", title }));
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const styles = ["#6f4e9c", "#8c6d31"].map((colour, k) => ({ // legible in the dark too
    stroke: `color-mix(in srgb, ${colour} 75%, currentColor)`, "stroke-dasharray": ["", "6 3"][k], "stroke-width": 3,
  }));
  styles.forEach((style, k) => {
    node("line", { x1: 40 + 135 * k, x2: 64 + 135 * k, y1: 248, y2: 248, ...style }, panels[0].group);
    node("text", { x: 70 + 135 * k, y: 252, text: ["damped sine", "damped cosine"][k] }, panels[0].group);
  });
  node("line", { x1: 40, x2: 64, y1: 248, y2: 248, stroke: "currentColor", "stroke-width": 1 }, panels[1].group);
  node("text", { x: 70, y: 252, text: "thin: without gauge, c = 0" }, panels[1].group);
  const last = gauges.length - 1, plain = a[last / 2];
  const line = (panel, values, style) => panel.line(values.map((v, n) => [times[n], v]), style);

  function draw(c) {
    for (const panel of panels) panel.clear();
    // a is linear in c, so the strongest gauge and none give all others.
    const bent = plain.map((curve, k) => curve.map((v, n) => v + (c / gauges[last]) * (a[last][k][n] - v)));
    styles.forEach((style, k) => {
      line(panels[0], x[k], style);
      line(panels[1], plain[k], { ...style, stroke: "currentColor", "stroke-width": 1 });
      line(panels[1], bent[k], style);
    });
    const moved = Math.max(...bent.flat().map((v, n) => Math.abs(v - plain.flat()[n])));
    note.textContent = `The motion is the same; the augmented path has moved by up to ${moved.toFixed(2)}.`;
  }

  const strength = { min: gauges[0], max: gauges[last], step: 0.05, value: gauges[last] };
  slider(controls, { label: "gauge strength c", ...strength, show: (c) => c.toFixed(2), input: draw });
  draw(gauges[last]);
}
export default { render };
