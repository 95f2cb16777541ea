// Where is a learnt force right? Its error over the (x, y) plane, at the velocity the orbit has.
// data: {times, orbit: (time, [x, y, vx, vy]), law: [[stiffness, damping] of x, of y], typical,
//        reach: [x, y], learnt: [[title, weights of each seed]]}
const CELLS = 25;
const SHADES = [[0.03, "#f4effa"], [0.1, "#d2c1e8"], [0.3, "#a583cc"], [1, "#6f4e9c"], [Infinity, "#3a1d5e"]];

// Distance of the learnt from the true acceleration at z, in units of a typical one.
function forceError(learnt, law, typical, z) {
  const missed = learnt(z).map((f, i) => f + law[i][0] * z[i] + law[i][1] * z[i + 2]);
  return Math.hypot(...missed) / typical;
}

const percent = (error) => `${(100 * error).toPrecision(2) / 1} %`;
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

function render({ model, el }) {
  const { times, orbit, law, typical, reach, learnt } = model.get("data");
  const { box, controls } = frame(el, model);
  const svgs = pictures(box, learnt.length, 380, 310);
  const legend = node("p", { class: "note", text: "error of the force: " }, box);
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const seeds = learnt[0][1].length;
  let now = Math.min(40, times.length - 1), seed = Math.min(2, seeds - 1);

  const panels = learnt.map(([title, weights], i) => {
    const place = { left: 50, top: 30, width: 320, height: 235 };
    const panel = axes(svgs[i], { ...place, x: [-reach[0], reach[0]], y: [-reach[1], reach[1]], title, xlabel: "x", ylabel: "y" });
    const size = { width: place.width / CELLS + 0.3, height: place.height / CELLS + 0.3 };
    const under = node("g", {}, panel.group);
    panel.group.insertBefore(under, panel.layer);
    const cells = Array.from({ length: CELLS * CELLS }, (_, k) => {
      const x = reach[0] * ((2 * (k % CELLS) + 1) / CELLS - 1);
      const y = reach[1] * ((2 * Math.floor(k / CELLS) + 1) / CELLS - 1);
      const at = { x: panel.X(x) - size.width / 2, y: panel.Y(y) - size.height / 2 };
      return { x, y, mark: node("rect", { ...at, ...size }, under) };
    });
    return { title, panel, cells, networks: weights.map((layers) => mlp(layers, "elu")) };
  });

  function draw() {
    const state = orbit[now];
    const words = panels.map(({ title, panel, cells, networks }) => {
      const error = (z) => forceError(networks[seed], law, typical, z);
      const errors = cells.map(({ x, y, mark }) => {
        const e = error([x, y, state[2], state[3]]);
        mark.setAttribute("fill", SHADES.find(([limit]) => e < limit)[1]);
        return e;
      });
      panel.clear();
      panel.line(orbit, { stroke: "white", "stroke-width": 4 });
      panel.line(orbit, { stroke: "black", "stroke-dasharray": "5 3", "stroke-width": 1.6 });
      panel.dot(state[0], state[1], { r: 7, fill: "white", stroke: "black", "stroke-width": 2 });
      return `${title}: off by ${percent(error(state))} at the dot, ${percent(median(errors))} over the plane (median)`;
    });
    note.textContent = `${words.join("; ")}.`;
  }

  for (const [limit, fill] of SHADES) {
    node("span", { style: `background:${fill};border:1px solid;padding:0 0.6em;margin:0 0.4em 0 0.8em` }, legend);
    node("span", { text: limit === Infinity ? "more" : `below ${percent(limit)}` }, legend);
  }
  const clock = slider(controls, {
    label: "time", min: 0, max: times.length - 1, value: now,
    show: (k) => `t = ${times[k].toFixed(1)}`, input: (k) => { now = k; draw(); },
  });
  slider(controls, {
    label: "seed", min: 0, max: seeds - 1, value: seed,
    show: (k) => `${k + 1} of ${seeds}`, input: (k) => { seed = k; draw(); },
  });
  player(controls, (share) => {
    clock.value = Math.round(share * (times.length - 1));
    clock.dispatchEvent(new Event("input"));
  }, 8);
  draw();
}
export default { render };
