// Shared by every figure: SVG axes, labelled controls, a small network and its flow.
const COLOURS = { NODE: "#E69F00", ANODE: "#CC79A7", SONODE: "#0072B2", TONODE: "#009E73" };
const DASHES = { NODE: "6 3", ANODE: "2 3", SONODE: "" };

function node(tag, attributes = {}, parent = null) {
  const html = ["div", "label", "input", "select", "option", "output", "p", "button", "span"];
  const made = html.includes(tag)
    ? document.createElement(tag)
    : document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else made.setAttribute(key, value);
  }
  if (parent) parent.appendChild(made);
  return made;
}

function frame(el, model) {
  const box = node("div", { class: "sonode-figure", role: "group", "aria-label": model.get("description") }, el);
  return { box, controls: node("div", { class: "controls" }, box) };
}

function picture(box, width, height) {
  return node("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "drawing" }, box);
}

// Several pictures side by side, which stand below each other where there is no room.
function pictures(box, count, width, height) {
  const row = node("div", { class: "pictures" }, box);
  return Array.from({ length: count }, () => picture(row, width, height));
}

// A button that lets time run from 0 to 1 in some seconds: draw(share) per frame.
// It pauses when the reader moves a slider.
function player(parent, draw, seconds = 4) {
  const button = node("button", { type: "button", text: "▶ play" }, parent);
  let began = null;
  const stop = () => { began = null; button.textContent = "▶ play"; };
  const step = (now) => {
    if (began === null || !button.isConnected) return;
    began ||= now;
    const share = Math.min(1, (now - began) / (1000 * seconds));
    draw(share);
    if (share < 1) requestAnimationFrame(step); else stop();
  };
  button.addEventListener("click", () => {
    if (began !== null) return stop();
    [began, button.textContent] = [0, "❚❚ pause"];
    requestAnimationFrame(step);
  });
  parent.addEventListener("input", (event) => event.isTrusted && stop()); // a hand on a slider
  return button;
}

// Axes in a rectangle of the picture: data to pixels by X and Y, curves by line().
function axes(svg, { left, top, width, height, x, y, title = "", xlabel = "", ylabel = "" }) {
  const group = node("g", {}, svg);
  const X = (v) => left + ((v - x[0]) / (x[1] - x[0])) * width;
  const Y = (v) => top + height - ((v - y[0]) / (y[1] - y[0])) * height;
  const grey = { stroke: "currentColor", "stroke-opacity": 0.2 };
  for (const v of ticks(x)) {
    node("line", { x1: X(v), x2: X(v), y1: top, y2: top + height, ...grey }, group);
    node("text", { x: X(v), y: top + height + 15, "text-anchor": "middle", text: +v.toPrecision(3) }, group);
  }
  for (const v of ticks(y)) {
    node("line", { x1: left, x2: left + width, y1: Y(v), y2: Y(v), ...grey }, group);
    node("text", { x: left - 6, y: Y(v) + 4, "text-anchor": "end", text: +v.toPrecision(3) }, group);
  }
  node("text", { x: left + width / 2, y: top - 8, "text-anchor": "middle", "font-weight": "bold", text: title }, group);
  node("text", { x: left + width / 2, y: top + height + 32, "text-anchor": "middle", text: xlabel }, group);
  if (ylabel) {
    const at = `translate(${left - 36} ${top + height / 2}) rotate(-90)`;
    node("text", { transform: at, "text-anchor": "middle", text: ylabel }, group);
  }
  // Curves end at the axes; a mark that stands on an axis is drawn whole.
  const clipped = (room) => {
    const id = `inside-${(axes.count = (axes.count ?? 0) + 1)}-${Math.random().toString(36).slice(2, 8)}`;
    const clip = node("clipPath", { id }, group);
    node("rect", { x: left - room, y: top - room, width: width + 2 * room, height: height + 2 * room }, clip);
    return { "clip-path": `url(#${id})` };
  };
  const [inside, layer] = [clipped(1.5), node("g", clipped(8), group)];
  const clamp = (v, [a, b]) => Math.min(Math.max(v, a - (b - a)), b + (b - a));
  return {
    X, Y, layer, group,
    clear() { layer.replaceChildren(); },
    line(points, attributes = {}) {
      const d = points.map(([a, b], i) => `${i ? "L" : "M"}${X(clamp(a, x)).toFixed(1)} ${Y(clamp(b, y)).toFixed(1)}`);
      return node("path", { d: d.join(""), fill: "none", stroke: "currentColor", "stroke-width": 2, ...inside, ...attributes }, layer);
    },
    dot(a, b, attributes = {}) {
      return node("circle", { cx: X(clamp(a, x)), cy: Y(clamp(b, y)), r: 4, fill: "currentColor", ...attributes }, layer);
    },
    toData(event) {
      const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [x[0] + ((p.x - left) / width) * (x[1] - x[0]), y[0] + ((top + height - p.y) / height) * (y[1] - y[0])];
    },
  };
}

function ticks([low, high], count = 5) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
}

function slider(parent, { label, min, max, step = 1, value, show = String, input }) {
  const holder = node("label", {}, parent);
  node("span", { text: label }, holder);
  const range = node("input", { type: "range", min, max, step }, holder);
  const shown = node("output", {}, holder);
  range.value = value;
  const update = () => { shown.textContent = show(+range.value); range.setAttribute("aria-valuetext", shown.textContent); };
  range.addEventListener("input", () => { update(); input(+range.value); });
  update();
  return range;
}

function choice(parent, { label, options, value, change }) {
  const holder = node("label", {}, parent);
  node("span", { text: label }, holder);
  const select = node("select", {}, holder);
  for (const option of options) node("option", { value: option, text: option }, select);
  select.value = value;
  select.addEventListener("change", () => change(select.value));
  return select;
}

// A point that is dragged by mouse, touch or arrow keys; moved(dx, dy) in data units.
function handle(panel, mark, label, moveTo, nudge) {
  mark.classList.add("handle");
  for (const [k, v] of Object.entries({ tabindex: 0, role: "button", "aria-label": label })) mark.setAttribute(k, v);
  // A finger that drags does not scroll the page: touch-action has no effect inside an svg.
  mark.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  mark.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    mark.focus();
    const move = (e) => moveTo(...panel.toData(e));
    const stop = () => { window.removeEventListener("pointermove", move); window.removeEventListener("pointerup", stop); };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", stop);
  });
  mark.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by) return;
    event.preventDefault();
    nudge(0.05 * by[0], 0.05 * by[1]);
  });
}

const ACTIVATIONS = { elu: (v) => (v > 0 ? v : Math.expm1(v)), tanh: Math.tanh, none: (v) => v };

// layers: [{w: (n_in, n_out), b: (n_out)}], the activation after all but the last.
function mlp(layers, activation) {
  const act = ACTIVATIONS[activation];
  return (z) => layers.reduce((h, { w, b }, i) => {
    const out = b.map((bias, j) => h.reduce((sum, value, k) => sum + value * w[k][j], bias));
    return i < layers.length - 1 ? out.map(act) : out;
  }, z);
}

// Classic Runge-Kutta of z' = field(t, z) over [t0, t1]: the states at all steps.
function flow(field, z0, t0, t1, steps) {
  const h = (t1 - t0) / steps;
  const add = (a, b, s) => a.map((v, i) => v + s * b[i]);
  const path = [z0];
  for (let n = 0, z = z0; n < steps; n++) {
    const t = t0 + n * h;
    const k1 = field(t, z), k2 = field(t + h / 2, add(z, k1, h / 2));
    const k3 = field(t + h / 2, add(z, k2, h / 2)), k4 = field(t + h, add(z, k3, h));
    z = z.map((v, i) => v + (h / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
    path.push(z);
  }
  return path;
}
