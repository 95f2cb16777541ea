"""How fast the laboratory trains: three models, three seeds each, 50 points of a sine.

The three models train at the same time, each in a worker of its own, in node or in Chromium.
Each round says for every model its iterations per second of wall time, and the seconds after
which the first, the second and the third seed had a loss below 1e-2; a NODE never has. Every
round is a new process, where nothing is compiled yet: what a reader sees who presses play.

If the book is built, the page itself is measured too, with its pictures: the seconds from
pressing play until the page says that a model has learnt the sine; the share of its own time
that the main thread computes; and its tasks of over 50 ms of wall time, which are also long
where other programs keep the processor.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import browser  # noqa: E402

SCRIPTS = [ROOT / "assets/laboratory" / name for name in ("engine.js", "worker.js")]

# race(make, rate, seconds): train in three workers; `make` makes one, with the page's methods.
RACE = """
async function race(make, rate, seconds) {
  const times = Array.from({ length: 50 }, (_, k) => (10 * k) / 49);
  const data = times.map((t) => [[Math.sin(t)]]);
  const train = (model) => new Promise((resolve, reject) => {
    const [worker, learnt, grid] = [make(), [], []];
    for (let x = 0; x < 15; x++) for (let v = 0; v < 15; v++) grid.push([x / 7 - 1, v / 7 - 1]);
    const points = model === "NODE" ? grid.map(([x]) => [x]) : grid;
    let [began, frames] = [0, 0];
    worker.onerror = (event) => reject(new Error(event.message));
    worker.onmessage = ({ data: frame }) => {
      const now = (performance.now() - began) / 1000;
      if (frame.type === "error") return reject(new Error(frame.message));
      frames++;
      frame.train.forEach((error, k) => {
        if (error < 1e-2) learnt[k] ??= now;
      });
      if (began === 0) {
        began = performance.now();
        worker.postMessage({ type: "run" });
      } else if (now > seconds) {
        worker.terminate();
        const sorted = learnt.filter((t) => t !== undefined).sort((a, b) => a - b);
        resolve({ model, rate: frame.iteration / now, frames: frames / now, learnt: sorted });
      }
    };
    const settings = { model, x0: [[0]], times, data, rate, points };
    worker.postMessage({ type: "start", settings });
  });
  return Promise.all(["NODE", "ANODE", "SONODE"].map(train));
}
"""

NODE = """
const { Worker } = require("worker_threads");
const [neuralOdes, laboratory] = given.scripts.map(require);
const port = 'require("worker_threads").parentPort';
const code = `(${laboratory.serve})(${port}, (${neuralOdes})())`;
function make() {
  const worker = new Worker(code, { eval: true });
  worker.on("message", (data) => worker.onmessage({ data }));
  return worker;
}
race(make, given.rate, given.seconds).then((rows) => console.log(JSON.stringify(rows)));
"""


def in_node(rate, seconds):
    """One round in a new process of node."""
    given = {"scripts": list(map(str, SCRIPTS)), "rate": rate, "seconds": seconds}
    script = f"const given = {json.dumps(given)};{RACE}{NODE}"
    done = subprocess.run(["node", "-e", script], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def in_chromium(rate, seconds):
    """One round in a new browser, on a page that is opened as a file."""
    with tempfile.TemporaryDirectory() as folder:
        tags = "".join(f"<script src='{path.as_uri()}'></script>" for path in SCRIPTS)
        page = Path(folder) / "page.html"
        page.write_text(f"<!doctype html>{tags}<script>{RACE}</script>", "utf8")
        with browser.started(browser.chromium()) as running:
            tab = running.new_page()
            tab.goto(page.as_uri())
            call = "([rate, seconds]) => race(laboratory.worker, rate, seconds)"
            return tab.evaluate(call, [rate, seconds])


# How long the main thread was busy, in milliseconds, when it was busy for more than 50.
WATCH = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) =>
    longTasks.push(...list.getEntries().map((task) => Math.round(task.duration)))
  ).observe({ type: "longtask" });
}"""
LEARNT = """([name, began]) => document.querySelector(".laboratory .note").innerText
  .includes(`${name} has learnt`) && (performance.now() - began) / 1000"""
TABLE = """() => [...document.querySelectorAll(".laboratory tbody tr")]
  .map((row) => Number(row.querySelector("td").textContent))"""


def in_the_page(page, seconds):
    """One round on the page of the book: a line of what a reader sees."""
    with browser.started(browser.chromium()) as running:
        wide = {"width": 1400, "height": 1100}
        tab = running.new_page(viewport=wide, reduced_motion="reduce")
        tab.goto(f"{page.as_uri()}#task=sine")
        tab.wait_for_timeout(1500)  # until the page is at rest
        tab.evaluate(WATCH)
        meter = tab.context.new_cdp_session(tab)
        meter.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = _computed(meter)
        began = tab.evaluate("performance.now()")
        tab.get_by_role("button", name="play").click()
        learnt = {
            name: tab.wait_for_function(LEARNT, arg=[name, began]).json_value()
            for name in ("SONODE", "ANODE(1)")
        }
        tab.wait_for_timeout(1000 * seconds)
        done = dict(zip(("NODE", "ANODE", "SONODE"), tab.evaluate(TABLE)))
        took = (tab.evaluate("performance.now()") - began) / 1000
        busy = (_computed(meter) - before) / took
        tasks = tab.evaluate("longTasks")
    said = ", ".join(f"{name} {time:.2f} s" for name, time in learnt.items())
    longest = f"{len(tasks)} tasks over 50 ms, the longest {max(tasks, default=0)} ms"
    return (
        f"learnt: {said}; iterations after {took:.1f} s: {done}; "
        f"the main thread computes {busy:.0%} of the time; {longest}"
    )


def _computed(meter):
    """Seconds that the main thread has computed."""
    metrics = meter.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def main():
    """Print every round of every place."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="how long each round trains")
    parser.add_argument("--rate", type=float, default=0.02, help="the learning rate")
    given = parser.parse_args()
    print(__doc__)
    places = {"node": in_node} if shutil.which("node") else {}
    places |= {"Chromium": in_chromium} if browser.chromium() else {}
    for name, place in places.items():
        for count in range(given.rounds):
            for row in place(given.rate, given.seconds):
                learnt = ", ".join(f"{t:.2f}" for t in row["learnt"]) or "no"
                speed = f"{row['rate']:5.0f} iterations, {row['frames']:3.0f} frames per second"
                print(
                    f"{name:9} {count + 1} {row['model']:7} {speed}, learnt: {learnt} s",
                    flush=True,
                )
    page = ROOT / "_build/html/book/laboratory.html"
    if browser.chromium() and page.exists():
        for count in range(given.rounds):
            print(f"the page  {count + 1} {in_the_page(page, given.seconds)}", flush=True)


if __name__ == "__main__":
    main()
