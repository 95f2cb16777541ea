// A digit on its way through three ODE blocks: what each would answer if stopped at time t.
// data.images[digit]: 28 rows of 28 greys, 0 to 255, in hexadecimal; data.labels[digit];
// data.times; data.answers[model][time][digit]: ten probabilities.
const PIXEL = 5;

function render({ model, el }) {
  const { images, labels, times, answers } = model.get("data");
  const { box, controls } = frame(el, model);
  const names = Object.keys(COLOURS).filter((name) => name in answers);
  const svg = picture(box, 760, 250);
  const ink = node("g", { role: "img", "aria-label": "the digit" }, svg);
  const panels = names.map((name, i) => axes(svg, {
    left: 215 + 185 * i, top: 32, width: 150, height: 165, x: [-0.7, 9.7], y: [0, 1],
    title: name, xlabel: "answer", ylabel: i ? "" : "probability",
  }));
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  let digit = 0, moment = times.length - 1;

  function paint() {
    ink.replaceChildren();
    node("rect", { x: 10, y: 44, width: 28 * PIXEL, height: 28 * PIXEL, fill: "none", stroke: "currentColor", "stroke-opacity": 0.4 }, ink);
    images[digit].forEach((row, i) => {
      for (let j = 0; j < 28; j++) {
        const grey = parseInt(row.slice(2 * j, 2 * j + 2), 16) / 255;
        const place = { x: 10 + PIXEL * j, y: 44 + PIXEL * i, width: PIXEL, height: PIXEL };
        if (grey > 0.05) node("rect", { ...place, fill: "currentColor", "fill-opacity": grey }, ink);
      }
    });
  }

  function draw() {
    panels.forEach((panel, i) => {
      panel.clear();
      answers[names[i]][moment][digit].forEach((p, k) => {
        const [top, bottom] = [panel.Y(p), panel.Y(0)];
        const bar = { x: panel.X(k - 0.35), y: top, width: panel.X(0.7) - panel.X(0), height: bottom - top };
        const edge = k === labels[digit] ? { stroke: "currentColor", "stroke-width": 2 } : {};
        node("rect", { ...bar, fill: COLOURS[names[i]], ...edge }, panel.layer);
      });
    });
    const said = names.map((name) => {
      const p = answers[name][moment][digit], best = p.indexOf(Math.max(...p));
      return `${name} says ${best} (${p[best].toFixed(2)})`;
    });
    note.textContent = `a ${labels[digit]}, stopped at t = ${times[moment].toFixed(2)}: ${said.join(" · ")}`;
  }

  slider(controls, {
    label: "digit", min: 0, max: labels.length - 1, value: digit,
    show: (k) => `${k + 1} of ${labels.length}`, input: (k) => { digit = k; paint(); draw(); },
  });
  slider(controls, {
    label: "time t", min: 0, max: times.length - 1, value: moment,
    show: (k) => times[k].toFixed(2), input: (k) => { moment = k; draw(); },
  });
  paint();
  draw();
}
export default { render };
