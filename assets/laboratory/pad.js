// The pad on which a reader draws x(t): with a mouse, a finger or the keys.

// Move the curve to (t, x) from (t0, x0), straight between them: x stays a function of t.
function stroke(curve, times, [t0, x0], [t, x]) {
  const index = (at) => (at / times[times.length - 1]) * (times.length - 1);
  const [from, to] = [index(t0), index(t)];
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  const changed = curve.slice();
  for (let k = Math.max(0, Math.round(low)); k <= Math.min(curve.length - 1, Math.round(high)); k++) {
    const share = from === to ? 1 : Math.min(1, Math.max(0, (k - from) / (to - from)));
    changed[k] = snapped(x0 + share * (x - x0));
  }
  return changed;
}

// The means of neighbours (1, 2, 1) around what is not as before: a hand trembles, and where a
// stroke ends the curve jumps.
function smoothed(curve, before) {
  const last = curve.length - 1;
  const near = (k) => curve.some((x, i) => Math.abs(i - k) <= 1 && x !== before[i]);
  const mean = (k) => (curve[Math.max(0, k - 1)] + 2 * curve[k] + curve[Math.min(last, k + 1)]) / 4;
  return curve.map((x, k) => (near(k) ? snapped(mean(k)) : x));
}

// Lift the curve at place k by dx, and its neighbours less: a bump, not a spike.
function lifted(curve, k, dx) {
  const bump = (i) => dx * Math.exp(-(((i - k) / 2) ** 2));
  return curve.map((x, i) => snapped(x + bump(i)));
}

// Make the pad in an svg. read() gives the curve; drawn(curve, how) is told what it became: how is
// "drawing" within a stroke, "done" at its end, and "keys".
function makePad(svg, height, { read, end, drawn }) {
  const { times, reach } = TASKS.draw;
  const range = { x: [0, times[times.length - 1]], y: [-reach, reach] };
  const panel = fill(svg, height, { ...range, title: "draw here", xlabel: "time t", ylabel: "x" });
  shade(panel, end, reach);
  const { x, y } = { x: panel.X(0), y: panel.Y(reach) };
  const size = { width: panel.X(times[times.length - 1]) - x, height: panel.Y(-reach) - y };
  const ground = node("rect", { x, y, ...size, fill: "transparent", class: "pad", tabindex: 0 }, panel.group);
  let cursor = 0;

  function show() {
    panel.clear();
    panel.line(read().map((value, k) => [times[k], value]), { "stroke-width": 2.5 });
    if (document.activeElement === ground) panel.dot(times[cursor], read()[cursor], { r: 6 });
    const words = `x is ${read()[cursor].toFixed(2)} at time ${times[cursor].toFixed(1)}`;
    ground.setAttribute("aria-valuenow", read()[cursor]);
    ground.setAttribute("aria-valuetext", words);
  }

  const label = "The motion to be learnt: left and right choose a time, up and down move x";
  const role = { role: "slider", "aria-label": label, "aria-orientation": "vertical" };
  const limits = { "aria-valuemin": -REACH, "aria-valuemax": REACH };
  for (const [name, value] of Object.entries({ ...role, ...limits })) ground.setAttribute(name, value);

  ground.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    ground.focus({ preventScroll: true });
    ground.setPointerCapture(event.pointerId);
    let [before, start] = [panel.toData(event), read()];
    const move = (next) => {
      for (const part of next.getCoalescedEvents?.() ?? []) to(part);
      to(next);
    };
    const to = (part) => {
      const now = panel.toData(part);
      drawn(stroke(read(), times, before, now), "drawing");
      before = now;
      show();
    };
    const stop = () => {
      ground.removeEventListener("pointermove", move);
      drawn(smoothed(smoothed(read(), start), start), "done");
      show();
    };
    to(event);
    ground.addEventListener("pointermove", move);
    ground.addEventListener("lostpointercapture", stop, { once: true });
  });
  ground.addEventListener("keydown", (event) => {
    const [along, up] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [0, 0];
    if (!along && !up) return;
    event.preventDefault();
    cursor = Math.min(times.length - 1, Math.max(0, cursor + along));
    if (up) drawn(lifted(read(), cursor, 0.1 * up), "keys");
    show();
  });
  ground.addEventListener("focus", show);
  ground.addEventListener("blur", show);
  show();
  return show;
}
