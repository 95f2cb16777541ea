// A window that slides along the arrow-head record: measured output, two models, their errors.
// data: {at: [first sample of each window], y, duffing: [[mV]], network: [seed][window][mV], reach}
function render({ model, el }) {
  const { at, y, duffing, network, reach } = model.get("data");
  const { box, controls } = frame(el, model);
  const svg = picture(box, 760, 394);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const size = { left: 60, width: 680, x: [0, y[0].length - 1] };
  const middle = Math.floor(network.length / 2);
  const state = { window: 0, seed: middle };

  function draw() {
    svg.replaceChildren();
    const k = state.window, truth = y[k], net = network[state.seed][k];
    const miss = { Duffing: duffing[k].map((v, n) => v - truth[n]), network: net.map((v, n) => v - truth[n]) };
    const rms = (all) => Math.sqrt(all.reduce((sum, v) => sum + v * v, 0) / all.length);
    const top = Math.max(...truth.map(Math.abs)) * 1.1;
    const worst = Math.max(1, ...miss.Duffing.map(Math.abs), ...miss.network.map(Math.abs)) * 1.1;
    const upper = axes(svg, { ...size, top: 25, height: 170, y: [-top, top], title: "output, mV", ylabel: "mV" });
    const lower = axes(svg, { ...size, top: 244, height: 100, y: [-worst, worst], title: "error, mV", xlabel: "sample of the window", ylabel: "mV" });
    const curve = (panel, values, look) => panel.line(values.map((v, n) => [n, v]), look);
    curve(upper, truth, { "stroke-width": 1 });
    curve(upper, duffing[k], { stroke: COLOURS.SONODE, "stroke-dasharray": "6 3" });
    curve(upper, net, { stroke: COLOURS.ANODE, "stroke-dasharray": "2 3" });
    curve(lower, miss.Duffing, { stroke: COLOURS.SONODE });
    curve(lower, miss.network, { stroke: COLOURS.ANODE, "stroke-dasharray": "2 3" });
    const beyond = Math.max(...truth.map(Math.abs)) > reach;
    note.textContent = `From sample ${at[k]}: rms error Duffing (blue) ${rms(miss.Duffing).toFixed(2)} mV, network (pink) ${rms(miss.network).toFixed(2)} mV. `
      + (beyond ? "The output leaves the range seen in training." : "The output stays within the range seen in training.");
  }

  slider(controls, { label: "along the record", min: 0, max: at.length - 1, value: 0, show: (k) => `sample ${at[k]}`, input: (k) => { state.window = k; draw(); } });
  slider(controls, { label: "network", min: 0, max: network.length - 1, value: middle, show: (k) => (k === 0 ? "best" : k === middle ? "median" : k === network.length - 1 ? "worst" : `${k + 1} of ${network.length}`), input: (k) => { state.seed = k; draw(); } });
  draw();
}
export default { render };
