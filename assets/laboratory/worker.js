// A training in a Web Worker: messages come in, frames go out. The training itself is engine.js.
//
// In a page that has loaded engine.js and this script, one worker per model, from file:// too:
//   const worker = laboratory.worker();
//   worker.onmessage = ({ data }) => data.type === "frame" ? draw(data) : say(data.message);
//   worker.postMessage({ type: "start", id: 7, settings: { ... } });  // those of createTrainer
//   worker.postMessage({ type: "run", until: 1000 });  // without until: as long as nobody pauses
//   worker.postMessage({ type: "pause" });
//   worker.postMessage({ type: "step", count: 1 });    // so many iterations, then pause
//   worker.postMessage({ type: "reset" });             // the first weights again, paused
//   worker.postMessage({ type: "rate", rate: 0.02 });
// Every message is answered: by { type: "error", field, message }, which changes nothing, or by
//   { type: "frame", id, iteration, running, n, diverged, losses, train, test, paths, reach,
//     field }
// Frames also come about 12 times per second while it runs, and when it ends: at `until`, or when every
// member has diverged. id: as in the last start; diverged: a boolean per member; losses: per member
// a list with the losses of the iterations since the last frame, each before its step (the list
// ends where the member diverges); train and test: as errors() of engine.js; the rest as solve()
// and field() there.
const laboratory = {};

// Answer the messages that come to `port` as described above.
laboratory.serve = function (port, engine) {
  "use strict";
  const { createTrainer, need, whole } = engine;
  const [SLICE, PERIOD] = [25, 66]; // milliseconds between two looks at the mail, and two frames
  let [trainer, started, losses] = [null, null, null]; // started: the id and the settings
  let [running, until, waits, shown] = [false, 0, false, 0];

  function begin(id, settings) {
    trainer = createTrainer(settings); // what is wrong is said here, before anything changes
    [started, running] = [{ id, settings }, false];
    losses = Array.from({ length: trainer.members }, () => []);
  }

  function post() {
    const { n, iteration, diverged } = trainer;
    const [solution, field] = [trainer.solve(), trainer.field()];
    const arrays = { ...solution, field }; // handed over, not copied
    const told = { id: started.id, iteration, running, n };
    const out = Array.from(diverged, Boolean);
    const members = { diverged: out, losses, ...trainer.errors(solution) };
    const frame = { type: "frame", ...told, ...members, ...arrays };
    port.postMessage(frame, Object.values(arrays).map((array) => array.buffer));
    losses = losses.map(() => []);
    shown = performance.now();
  }

  const goesOn = () => trainer.iteration < until && trainer.diverged.includes(0);

  function slice() {
    waits = false;
    if (!running) return;
    const end = performance.now() + SLICE;
    while (running && performance.now() < end) {
      trainer.step();
      trainer.loss.forEach((loss, k) => trainer.diverged[k] || losses[k].push(loss));
      running = goesOn();
    }
    if (!running || performance.now() - shown > PERIOD) post();
    wake();
  }

  // Messages are read between two slices.
  function wake() {
    if (running && !waits) setTimeout(slice, 0);
    waits ||= running;
  }

  const answers = {
    start: ({ id = null, settings }) => begin(id, settings),
    reset: () => begin(started.id, started.settings),
    run({ until: given = Infinity }) {
      need(given === Infinity || whole(given, 1), "until", "a whole number from 1");
      until = given;
      running = goesOn();
    },
    step({ count = 1 }) {
      need(whole(count, 1), "count", "a whole number from 1");
      answers.run({ until: trainer.iteration + count });
    },
    pause() {
      running = false;
    },
    rate({ rate }) {
      need(Number.isFinite(rate) && rate > 0, "rate", "a positive number");
      trainer.rate = rate;
      started.settings = { ...started.settings, rate }; // a reset keeps it
    },
  };

  port.onmessage = ({ data }) => {
    try {
      need(Object.hasOwn(answers, data?.type), "type", Object.keys(answers).join(", "));
      need(trainer !== null || data.type === "start", "type", "start, before anything else");
      answers[data.type](data);
      post();
      wake();
    } catch (error) {
      if (!error.field) throw error;
      port.postMessage({ type: "error", field: error.field, message: error.message });
    }
  };
};

// The worker's code is the text of two functions: a page that was opened as a file may load none.
laboratory.worker = () => {
  const code = `(${laboratory.serve})(self, (${neuralOdes})())`;
  return new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
};

if (typeof module !== "undefined") module.exports = laboratory;
