// A digit on its way through three ODE blocks: what each would answer if stopped at time t.
// data.images[digit]: 28 rows of 28 greys, 0 to 255, in hexadecimal; data.labels[digit];
// data.times; data.answers[model][time][digit]: ten probabilities.
const best = (p) => p.indexOf(Math.max(...p));

function render({ model, el }) {
  const { images, labels, times, answers } = model.get("data");
  const { box, controls } = frame(el, model);
  const names = Object.keys(COLOURS).filter((name) => name in answers);
  const size = { viewBox: "-0.5 -0.5 29 29", role: "img", "aria-label": "the digit", style: "width: 6.5rem; min-width: 0" };
  const ink = node("svg", size, controls);
  const panels = pictures(box, names.length, 250, 230).map((svg, i) => axes(svg, {
    left: 48, top: 28, width: 192, height: 150, x: [-0.7, 9.7], y: [0, 1],
    title: names[i], xlabel: "answer", ylabel: "probability",
  }));
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  let moment = times.length - 1;
  const several = labels.map((_, k) => new Set(names.map((name) => best(answers[name][moment][k]))).size);
  let digit = several.indexOf(Math.max(...several)); // the models disagree most about it

  function paint() {
    ink.replaceChildren();
    node("rect", { x: -0.2, y: -0.2, width: 28.4, height: 28.4, fill: "none", stroke: "currentColor", "stroke-width": 0.2 }, ink);
    images[digit].forEach((row, i) => {
      for (let j = 0; j < 28; j++) {
        const grey = parseInt(row.slice(2 * j, 2 * j + 2), 16) / 255;
        const place = { x: j, y: i, width: 1, height: 1 };
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
      const p = answers[name][moment][digit];
      return `${name} says ${best(p)} (${p[best(p)].toFixed(2)})`;
    });
    note.textContent = `a ${labels[digit]}, stopped at t = ${times[moment].toFixed(2)}: ${said.join(" · ")}`;
  }

  slider(controls, {
    label: "digit", min: 0, max: labels.length - 1, value: digit,
    show: (k) => `${k + 1} of ${labels.length}`, input: (k) => { digit = k; paint(); draw(); },
  });
  const clock = slider(controls, {
    label: "time t", min: 0, max: times.length - 1, value: moment,
    show: (k) => times[k].toFixed(2), input: (k) => { moment = k; draw(); },
  });
  player(controls, (share) => {
    clock.value = Math.round(share * (times.length - 1));
    clock.dispatchEvent(new Event("input"));
  });
  paint();
  draw();
}
export default { render };
