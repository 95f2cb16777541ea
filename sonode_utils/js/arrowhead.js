// A window that slides along the arrow-head record: measured output, two models, their errors.
// data: {at: [first sample of each window], y, duffing: [[mV]], network: [seed][window][mV], reach}
function render({ model, el }) {
  const { at, y, duffing, network, reach } = model.get("data");
  const { box, controls } = frame(el, model);
  const [above, below] = pictures(box, 2, 380, 290), panel = { left: 52, top: 30, width: 308, height: 206, x: [0, y[0].length - 1] };
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const middle = Math.floor(network.length / 2);
  const state = { window: at.length - 1, seed: middle };
  const purple = "#9467c9"; // the network is a SONODE too, so it has a colour of no model

  function draw() {
    for (const svg of [above, below]) svg.replaceChildren();
    const k = state.window, truth = y[k], net = network[state.seed][k];
    const miss = { Duffing: duffing[k].map((v, n) => v - truth[n]), network: net.map((v, n) => v - truth[n]) };
    const rms = (all) => Math.sqrt(all.reduce((sum, v) => sum + v * v, 0) / all.length);
    const top = Math.max(...truth.map(Math.abs)) * 1.1;
    const worst = Math.max(1, ...miss.Duffing.map(Math.abs), ...miss.network.map(Math.abs)) * 1.1;
    const upper = axes(above, { ...panel, y: [-top, top], title: "output: measured (dashed) and models", xlabel: "sample of the window", ylabel: "mV" });
    const lower = axes(below, { ...panel, y: [-worst, worst], title: "error of the models", xlabel: "sample of the window", ylabel: "mV" });
    const curve = (panel, values, look) => panel.line(values.map((v, n) => [n, v]), look);
    curve(upper, net, { stroke: purple });
    curve(upper, duffing[k], { stroke: COLOURS.SONODE });
    curve(upper, truth, { "stroke-width": 1.5, "stroke-dasharray": "5 3" });
    for (const edge of [-reach, reach]) curve(upper, truth.map(() => edge), { "stroke-width": 1, "stroke-dasharray": "2 4" });
    curve(lower, miss.network, { stroke: purple });
    curve(lower, miss.Duffing, { stroke: COLOURS.SONODE });
    const beyond = Math.max(...truth.map(Math.abs)) > reach;
    note.textContent = `From sample ${at[k]}: rms error Duffing (blue) ${rms(miss.Duffing).toFixed(2)} mV, network (purple) ${rms(miss.network).toFixed(2)} mV. `
      + (beyond ? "The output leaves the range seen in training." : "The output stays within the range seen in training.");
  }

  const along = slider(controls, { label: "along the record", min: 0, max: at.length - 1, value: state.window, show: (k) => `sample ${at[k]}`, input: (k) => { state.window = k; draw(); } });
  slider(controls, { label: "network", min: 0, max: network.length - 1, value: middle, show: (k) => (k === 0 ? "best" : k === middle ? "median" : k === network.length - 1 ? "worst" : `${k + 1} of ${network.length}`), input: (k) => { state.seed = k; draw(); } });
  player(controls, (share) => { along.value = Math.round(share * (at.length - 1)); along.dispatchEvent(new Event("input")); }, 8);
  draw();
}
export default { render };
