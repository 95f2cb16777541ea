// The laboratory in its page: controls, three workers that train, and what they report. Drawing
// is in view.js and pad.js, the experiment in experiment.js, the training in engine.js.
const STOP = 3000; // iterations after which training pauses by itself
const LEARNT = 0.01; // mean square error at which a motion counts as learnt
const [PLAY, PAUSE] = ["▶ play", "❚❚ pause"];

// The median over the seeds that are still in training; a path that blew up has an infinite error.
function median(errors, diverged) {
  const kept = errors.filter((_, member) => !diverged[member]).map((error) => error ?? Infinity);
  const middle = kept.sort((a, b) => a - b).length >> 1;
  return kept.length % 2 ? kept[middle] : (kept[middle - 1] + kept[middle]) / 2; // of none: NaN
}

function said(error) {
  if (Number.isNaN(error)) return "–";
  if (error === Infinity) return "blows up";
  if (error < 1e-12) return "0";
  return error < 0.001 || error >= 1000 ? error.toExponential(0).replace("-", "−") : error.toPrecision(2);
}

const named = (model, state) => (model === "ANODE" ? `ANODE(${state.extra})` : model);

function html(tag, attributes, parent) {
  const made = parent.appendChild(document.createElement(tag));
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else made.setAttribute(key, value);
  }
  return made;
}

// The parts of the page, top to bottom, still empty.
function furnish(el, model) {
  const { box, controls } = frame(el, model);
  box.classList.add("laboratory");
  const note = node("p", { class: "note", "aria-live": "polite" }, box);
  const bench = node("div", { class: "bench" }, box);
  const [pad] = pictures(bench, 1, 300, 200);
  const fold = html("details", { class: "settings", ...(innerWidth > 600 && { open: "" }) }, bench);
  html("summary", { text: "settings" }, fold);
  const sliders = node("div", { class: "controls" }, fold);
  const [fits, phases] = [0, 1].map(() => pictures(box, 3, 250, 200));
  const results = node("div", { class: "bench" }, box);
  const [loss] = pictures(results, 1, 300, 200);
  const rows = results.appendChild(resultTable());
  const code = node("div", { class: "code" }, box);
  for (const svg of [pad, loss]) svg.columns = 1;
  for (const svg of [...fits, ...phases]) svg.columns = innerWidth > 600 ? 3 : 1;
  return { box, controls, note, bench, pad, sliders, fits, phases, loss, rows, code };
}

function resultTable() {
  const table = document.createElement("table");
  html("caption", { text: `Mean square error inside the training interval and beyond it: median of ${SEEDS} seeds` }, table);
  const head = html("tr", {}, html("thead", {}, table));
  for (const text of ["model", "iterations", "inside", "beyond"]) html("th", { scope: "col", text }, head);
  const body = html("tbody", {}, table);
  for (const model of MODELS) {
    const row = html("tr", {}, body);
    const name = html("th", { scope: "row" }, row);
    html("span", { class: `swatch ${model}` }, name);
    html("span", { class: "name", text: model }, name);
    html("small", {}, name);
    for (let k = 0; k < 3; k++) html("td", { text: "–" }, row);
  }
  return table;
}

function fillRow(row, model, state, tried, frame) {
  const out = frame.diverged.filter(Boolean).length;
  row.querySelector(".name").textContent = named(model, state);
  row.querySelector("small").textContent = out ? ` ${out} of ${SEEDS} seeds diverged` : "";
  const beyond = tried.mask.includes(0) ? median(frame.test, frame.diverged) : NaN;
  const values = [frame.iteration, said(median(frame.train, frame.diverged)), said(beyond)];
  row.querySelectorAll("td").forEach((cell, k) => { cell.textContent = values[k]; });
}

function render({ model, el }) {
  const { stream } = neuralOdes();
  const parts = furnish(el, model);
  const rowOf = (name) => parts.rows.querySelectorAll("tbody tr")[MODELS.indexOf(name)];
  let { state, wrong } = readState(location.hash);
  let tried, panels, frames, losses, lossMost, aMost, told, until;
  let [id, playing, touched, idle, timer] = [0, false, false, 0, 0];
  const changedModels = new Set();
  // Sentences are added one by one, so that a screen reader says each of them once.
  const say = (words) => node("span", { text: `${words} ` }, parts.note);
  const hush = () => parts.note.replaceChildren();

  const workers = Object.fromEntries(MODELS.map((name) => {
    const worker = laboratory.worker();
    worker.onmessage = ({ data }) => hear(name, data);
    return [name, worker];
  }));
  const tell = (message) => MODELS.forEach((name) => workers[name].postMessage(message));

  // ---- Training ------------------------------------------------------------------------------

  // A new experiment: everything is forgotten but what the reader chose.
  function restart(play) {
    tried = experiment(state, stream);
    [frames, losses, told, until] = [{}, new Losses(), new Set(), STOP];
    [aMost, lossMost, playing] = [1, 100, play];
    id++;
    hush();
    build();
    for (const name of MODELS) {
      const points = fieldPoints(name, state, tried);
      workers[name].postMessage({ type: "start", id, settings: settings(name, state, tried, points) });
    }
    if (play) tell({ type: "run", until });
    showButtons();
    showCode();
  }

  function play() {
    const done = Math.max(0, ...Object.values(frames).map((frame) => frame.iteration));
    until = STOP * (1 + Math.floor(done / STOP));
    playing = true;
    tell({ type: "run", until });
    parts.note.querySelector(".end")?.remove();
    showButtons();
  }

  function pause(message = { type: "pause" }) {
    playing = false;
    tell(message);
    showButtons();
  }

  function hear(name, message) {
    if (message.type === "error") return say(`${name}: ${message.message}.`);
    if (message.id !== id) return;
    frames[name] = message;
    losses.add(name, message.losses);
    if (!changedModels.size) requestAnimationFrame(draw);
    changedModels.add(name);
  }

  const over = ({ running, iteration, diverged }) => !running && (iteration >= until || diverged.every(Boolean));

  // What happened since the last look, in a sentence for each event; silence otherwise.
  function news() {
    for (const [name, frame] of Object.entries(frames)) {
      const out = frame.diverged.filter(Boolean).length;
      const error = median(frame.train, frame.diverged);
      const tellOnce = (event, sentence) => told.has(event) || (told.add(event), say(sentence));
      if (out) tellOnce(`${name} ${out}`, `${named(name, state)}: ${out} of ${SEEDS} seeds diverged.`);
      if (error < LEARNT && frame.iteration) {
        tellOnce(name, `${named(name, state)} has learnt the motion after ${frame.iteration} iterations.`);
      }
    }
    if (playing && MODELS.every((name) => frames[name] && over(frames[name]))) {
      playing = false;
      showButtons();
      const errors = MODELS.map((name) => `${named(name, state)} ${said(median(frames[name].train, frames[name].diverged))}`);
      say(`Paused. Errors inside the training interval: ${errors.join(", ")}.`).classList.add("end");
    }
  }

  // ---- Pictures ------------------------------------------------------------------------------

  function build() {
    const small = parts.box.clientWidth < 600;
    const height = small ? 170 : 210;
    for (const svg of [...parts.fits, ...parts.phases]) svg.columns = small ? 1 : 3;
    parts.bench.classList.toggle("with-pad", state.task === "draw");
    const fits = MODELS.map((name, k) => fitPanel(parts.fits[k], height, named(name, state), state, tried));
    panels = { fits, phases: [] };
    MODELS.forEach((name, k) => buildPhase(name, k, height));
    buildLoss();
    if (state.task === "draw") panels.pad = makePad(parts.pad, 200, { read: () => state.x, end: tried.end, drawn });
    Object.keys(frames).forEach((name) => changedModels.add(name));
    if (changedModels.size) requestAnimationFrame(draw);
  }

  function buildPhase(name, k, height) {
    panels.phases[k] = phasePanel(parts.phases[k], height, name, state, tried, aMost);
  }

  function buildLoss() {
    panels.loss = lossPanel(parts.loss, 200, lossMost);
  }

  // The range of a grows at once, and shrinks when less was enough for a while.
  function newRange(most) {
    idle = most < aMost ? idle + 1 : 0;
    if (most === aMost || (most < aMost && idle < 15)) return false;
    [aMost, idle] = [most, 0];
    return true;
  }

  function draw() {
    MODELS.forEach((name, k) => {
      const frame = frames[name];
      if (!changedModels.has(name) || !frame) return;
      if (name === "ANODE" && newRange(reachOfA(frame, tried))) {
        buildPhase(name, k, parts.phases[k].viewBox.baseVal.height);
      }
      drawFit(panels.fits[k], name, frame, tried);
      drawPhase(panels.phases[k], name, frame, state, tried, aMost);
      fillRow(rowOf(name), name, state, tried, frame);
    });
    changedModels.clear();
    if (losses.most() > lossMost) {
      lossMost = losses.most();
      buildLoss();
    }
    drawLosses(panels.loss, losses, Object.fromEntries(MODELS.map((name) => [name, frames[name]?.diverged ?? [false]])));
    news();
  }

  // ---- Controls ------------------------------------------------------------------------------

  // The reader changed something: it goes into the address, and into training.
  function change(field, value) {
    [state, touched] = [{ ...state, [field]: value }, true];
    if (field === "rate") tell({ type: "rate", rate: value });
    else {
      clearTimeout(timer);
      timer = setTimeout(() => restart(playing), 120);
    }
    history.replaceState(null, "", stateText(state));
    showCode();
  }

  function drawn(curve, how) {
    state = { ...state, x: curve };
    if (how === "done") playing = true; // who has drawn wants to see it learnt
    if (how !== "drawing") change("x", curve);
  }

  const button = (text, parent, act) => {
    const made = node("button", { type: "button", text }, parent);
    made.addEventListener("click", () => {
      touched = true;
      act();
    });
    return made;
  };
  const names = Object.fromEntries(Object.entries(TASKS).map(([task, { name }]) => [name, task]));
  const task = choice(parts.controls, {
    label: "task", options: Object.keys(names), value: TASKS[state.task].name, change: (name) => change("task", names[name]),
  });
  const player = button(PLAY, parts.controls, () => (playing ? pause() : play()));
  button("10 iterations", parts.controls, () => pause({ type: "step", count: 10 }));
  button("reset", parts.controls, () => {
    restart(false);
    say("Back at the first weights.");
  });

  const control = (label, min, max, step, read, field, show, write = (v) => v) => {
    const input = (value) => change(field, write(value));
    const range = slider(parts.sliders, { label, min, max, step, value: read(), show, input });
    range.sync = () => {
      range.value = read();
      range.nextElementSibling.textContent = show(+range.value);
      range.setAttribute("aria-valuetext", show(+range.value));
      range.disabled = Boolean(TASKS[state.task].endOnly) && ["noise", "until"].includes(field);
    };
    return range;
  };
  const time = (share) => `t = ${+(share * TASKS[state.task].times.at(-1)).toPrecision(3)}`;
  const ranges = [
    control("noise", 0, 0.5, 0.05, () => state.noise, "noise", (v) => v.toFixed(2)),
    control("learning rate", -3, 1, 0.1, () => Math.log10(state.rate), "rate", (v) => String(+(10 ** v).toPrecision(2)), (v) => +(10 ** v).toPrecision(2)),
    control("trains until", 0.2, 1, 0.05, () => state.until, "until", time),
    control("extra dimensions", 1, 3, 1, () => state.extra, "extra", String),
    control("first seed", 0, 20, 1, () => state.seed, "seed", String),
  ];

  function showButtons() {
    player.textContent = playing ? PAUSE : PLAY;
    task.value = TASKS[state.task].name;
    ranges.forEach((range) => range.sync());
  }

  // The program stands below the results, and is copied where the browser lets a page do so.
  let text = null;
  button("copy as Python", parts.controls, () => {
    const named = { readonly: "", rows: 16, spellcheck: "false", "aria-label": "the same experiment in Python" };
    text ??= html("textarea", named, parts.code);
    showCode();
    text.select();
    const copied = document.execCommand("copy");
    parts.note.querySelector(".copied")?.remove();
    say(copied ? "Copied; the program stands below." : "The program stands below.").classList.add("copied");
  });
  function showCode() {
    if (text) text.value = python(state, tried);
  }

  function arrive(play) {
    ({ state, wrong } = readState(location.hash));
    restart(play);
    if (wrong.length) say(`The address has no valid ${wrong.join(", ")}: the default is used.`);
  }

  addEventListener("hashchange", () => {
    if (!location.hash.includes("=")) return;
    touched = true;
    arrive(true);
    parts.box.scrollIntoView({ block: "start" });
  });
  arrive(false);

  let width = parts.box.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(parts.box.clientWidth - width) < 2) return;
    width = parts.box.clientWidth;
    build();
  }).observe(parts.box);
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const watch = new IntersectionObserver((seen) => {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    if (!touched) play();
  }, { threshold: 0.4 });
  watch.observe(parts.fits[0]);
}
