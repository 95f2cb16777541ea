// One motion, many augmented paths: a slider over the strength of the gauge.
// data: {times, x: (function, time), gauges: [c], a: (gauge, function, time)}
function render({ model, el }) {
  const { times, x, gauges, a } = model.get("data");
  const { box, controls } = frame(el, model);
  const svg = picture(box, 760, 290);
  const span = [times[0], times[times.length - 1]];
  const reach = (curves) => Math.max(...curves.flat(3).map(Math.abs)) * 1.05;
  const [rx, ra] = [reach(x), reach(a)];
  const shared = { top: 30, width: 310, height: 200, x: span, xlabel: "time t" };
  const real = axes(svg, { ...shared, left: 50, y: [-rx, rx], title: "real space x" });
  const augmented = axes(svg, { ...shared, left: 430, y: [-ra, ra], title: "augmented a" });
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const dashes = ["", "6 3"];

  function draw(i) {
    real.clear();
    augmented.clear();
    x.forEach((curve, k) => real.line(curve.map((v, n) => [times[n], v]), { "stroke-dasharray": dashes[k] }));
    a[i].forEach((curve, k) => augmented.line(curve.map((v, n) => [times[n], v]), { stroke: COLOURS.ANODE, "stroke-dasharray": dashes[k] }));
    const moved = Math.max(...a[i].flat().map((v, n) => Math.abs(v - a[(gauges.length - 1) / 2].flat()[n])));
    note.textContent = `The motion is the same; the augmented path has moved by up to ${moved.toFixed(2)}.`;
  }

  const middle = (gauges.length - 1) / 2;
  slider(controls, { label: "gauge c", min: 0, max: gauges.length - 1, value: middle, show: (i) => gauges[i].toFixed(2), input: draw });
  draw(middle);
}
export default { render };
