// Neural ODEs, whole: small networks, Runge-Kutta, backpropagation through its steps, Adam and
// several seeds. Plain JavaScript without any library, in double precision. The formulas and the
// rule for initial weights are those of sonode_utils; tests hold loss and gradients against torch.
//
//   const { createTrainer, stream } = neuralOdes();      // in node: require("./engine.js")()
//   const times = Array.from({ length: 50 }, (_, k) => k / 5);
//   const trainer = createTrainer({
//     model: "SONODE",                          // or "NODE", "ANODE"
//     x0: [[0]],                                // positions at times[0]: (batch, d)
//     times,                                    // when data and paths are wanted, increasing
//     data: times.map((t) => [[Math.sin(t)]]),  // positions: (time, batch, d)
//     mask: times.map((t) => (t < 7 ? 1 : 0)),  // per time 1: trains; 0: tests; -1: no data there,
//   });                                         // only a path is wanted (data may be null)
//   trainer.step(200);                          // 200 iterations of Adam, every member
//   trainer.errors();                           // { train: [one per member], test: [...] }
//
// Further settings: seeds [0, 1, 2], one member each; augment, ANODE's extra dimensions (d unless
// given); rate 0.01, of Adam; hidden [20, 20], widths; steps 1, Runge-Kutta steps per interval
// between two times; points [], states (point, n) where field() is wanted, such as a grid of the
// phase plane. n is the length of a state z: NODE's x has d, ANODE's [x, a] has d + augment,
// SONODE's [x, v] has 2 d. A wrong setting throws an error whose `field` is its name.
//
// A trainer: n, members, iteration; rate, which may be changed between steps; diverged, 1 for
// members that are out: their loss or gradient was not finite, so they were put back to the
// weights before and stay there. gradient() computes each member's loss, into `loss`, and gives
// the gradients. All weights of a member stand in one row, in torch's order: of f, then of g,
// each layer's weight (input, output), then its bias. For weights and gradients: (member, weight).
// setWeights(flat) puts weights in. solve() -> { paths: (member, time, batch, n), reach: (member,
// batch), how many times come before a path blows up; from there on its last state is repeated }.
// field() -> dz/dt: (member, point, n). What they give are flat Float64Arrays without NaN. An
// error is null where it cannot be told: no such times, or a path that blew up.
function neuralOdes() {
  "use strict";

  // ---- Random numbers ----------------------------------------------------------------------

  // Uniform numbers in [0, 1), 32 bits each, by Doty-Humphrey's sfc32 ("small fast counter"). Its
  // state begins with a hash (FNV-1a) of the purpose and with the seed. Equal names, equal numbers.
  function stream(purpose, seed) {
    let [a, b, c, count] = [0x811c9dc5, seed | 0, Math.floor(seed / 2 ** 32) | 0, 1];
    for (const letter of purpose) a = Math.imul(a ^ letter.codePointAt(0), 0x01000193);
    function next() {
      const sum = (((a + b) | 0) + count) | 0;
      count = (count + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + sum) | 0;
      return (sum >>> 0) / 2 ** 32;
    }
    for (let k = 0; k < 20; k++) next(); // until every bit of the state depends on all others
    return next;
  }

  // ---- A small network ---------------------------------------------------------------------

  // Where everything stands: weights and biases in a row of `size` weights, and the values of all
  // layers, one after the other, in `values` places of a tape. Hidden layers have ELU, or tanh.
  function network(sizes, tanh) {
    let [size, values] = [0, 0];
    const layers = [];
    for (let l = 0; l + 1 < sizes.length; l++) {
      const [n, m, hidden] = [sizes[l], sizes[l + 1], l + 2 < sizes.length];
      const offsets = { weight: size, bias: size + n * m, input: values, output: values + n };
      layers.push({ n, m, hidden, ...offsets });
      size += (n + 1) * m;
      values += n;
    }
    return { layers, tanh, size, output: values, values: values + sizes[sizes.length - 1] };
  }

  // As torch draws a linear layer: uniform between -b and b, b = 1 / sqrt(inputs), biases too.
  function drawWeights(net, w, random) {
    for (const { n, m, weight } of net.layers) {
      for (let k = 0; k < (n + 1) * m; k++) w[weight + k] = (2 * random() - 1) / Math.sqrt(n);
    }
  }

  // The input is read from tape[at]; every layer's values are written behind it.
  function forward(net, w, tape, at) {
    for (const { n, m, hidden, weight, bias, input, output } of net.layers) {
      for (let j = 0; j < m; j++) {
        let sum = w[bias + j];
        for (let i = 0, k = weight + j; i < n; i++, k += m) sum += tape[at + input + i] * w[k];
        if (hidden) sum = net.tanh ? Math.tanh(sum) : sum > 0 ? sum : Math.exp(sum) - 1;
        tape[at + output + j] = sum;
      }
    }
  }

  // The chain rule, last layer first. delta stands as the values on the tape: it comes with the
  // loss's gradient by the output, and leaves with the gradient by the input at its beginning.
  // The gradient by the weights is added to `gradient`.
  function backward(net, w, tape, at, delta, gradient) {
    for (let l = net.layers.length - 1; l >= 0; l--) {
      const { n, m, hidden, weight, bias, input, output } = net.layers[l];
      for (let j = 0; j < m; j++) {
        const y = tape[at + output + j]; // both derivatives can be told from the value itself
        if (hidden) delta[output + j] *= net.tanh ? 1 - y * y : y > 0 ? 1 : 1 + y;
        gradient[bias + j] += delta[output + j];
      }
      for (let i = 0, k = weight; i < n; i++) {
        const x = tape[at + input + i];
        let sum = 0;
        for (let j = output; j < output + m; j++, k++) {
          sum += w[k] * delta[j];
          gradient[k] += x * delta[j];
        }
        delta[input + i] = sum;
      }
    }
  }

  // ---- Settings ----------------------------------------------------------------------------

  function need(fine, field, what) {
    if (!fine) throw Object.assign(new Error(`${field} must be ${what}`), { field });
  }

  function whole(value, least, most = Number.MAX_SAFE_INTEGER) {
    return Number.isInteger(value) && value >= least && value <= most;
  }

  function table(field, rows, count, width) {
    const fine = (row) => Array.isArray(row) && row.length === width && row.every(Number.isFinite);
    const right = Array.isArray(rows) && rows.length === (count ?? rows.length) && rows.every(fine);
    need(right, field, `${count ?? ""} rows of ${width} finite numbers`);
    return Float64Array.from(rows.flat());
  }

  function checked(given) {
    need(given !== null && typeof given === "object", "settings", "an object");
    const { model, x0, data, times, seeds = [0, 1, 2], hidden = [20, 20], rate = 0.01 } = given;
    need(["NODE", "ANODE", "SONODE"].includes(model), "model", '"NODE", "ANODE" or "SONODE"');
    need(x0?.[0]?.length > 0, "x0", "an array (batch, d)");
    const [batch, d] = [x0.length, x0[0].length];
    const { augment = d, steps = 1, points = [], mask = times?.map?.(() => 1) } = given;
    need(whole(augment, 1, 100), "augment", "a whole number from 1 to 100");
    need(whole(steps, 1, 100), "steps", "a whole number from 1 to 100");
    need(Number.isFinite(rate) && rate > 0, "rate", "a positive number");
    const list = (values) => Array.isArray(values) && values.length > 0;
    need(list(seeds) && seeds.every((k) => whole(k, 0)), "seeds", "whole numbers from 0");
    need(list(hidden) && hidden.every((k) => whole(k, 1, 100)), "hidden", "widths from 1 to 100");
    const rises = (t, k) => Number.isFinite(t) && (k === 0 || t > times[k - 1]);
    need(list(times) && times.length > 1 && times.every(rises), "times", "two or more, rising");
    const roles = list(mask) && mask.length === times.length && mask.includes(1);
    need(roles && mask.every((k) => [-1, 0, 1].includes(k)), "mask", "1, 0 or -1 per time, a 1");
    need(list(data) && data.length === times.length, "data", "an array (time, batch, d)");
    const target = new Float64Array(times.length * batch * d);
    data.forEach((rows, k) => {
      if (mask[k] >= 0) target.set(table("data", rows, batch, d), k * batch * d);
    });
    const n = { NODE: d, ANODE: d + augment, SONODE: 2 * d }[model];
    const flat = { x0: table("x0", x0, batch, d), points: table("points", points, null, n) };
    return { model, d, n, batch, seeds, hidden, rate, steps, times, mask, target, ...flat };
  }

  // ---- One model, several seeds ------------------------------------------------------------

  const C = [0, 1 / 2, 1 / 2, 1, 0]; // the classical Runge-Kutta method: where in the step each
  const B = [1 / 6, 1 / 3, 1 / 3, 1 / 6]; // stage is taken, and what it counts for
  const [BETA1, BETA2, EPSILON] = [0.9, 0.999, 1e-8]; // of Adam
  const LARGE = 1e9; // a state beyond this is taken for infinite

  function createTrainer(settings) {
    const { model, d, n, batch, seeds, hidden, steps, times, mask, target, x0, points, rate } =
      checked(settings);
    const second = model === "SONODE";
    const known = second ? d : 0; // of dz/dt, so many are no output of f: SONODE's x' = v
    const f = network([n, ...hidden, n - known], false);
    const g = network(second ? [d, ...hidden, d] : [0], true); // v(0) = g(x(0))
    const [members, size] = [seeds.length, f.size + g.size];
    const end = (k) => (k + 1) * size; // of member k's row
    const rows = (flat, from) => seeds.map((_, k) => flat.subarray(end(k - 1) + from, end(k)));
    const make = () => new Float64Array(members * size);
    const [weights, before, gradients, means, squares] = Array.from({ length: 5 }, make);
    const part = (from) => ({ w: rows(weights, from), slope: rows(gradients, from) });
    const [ofF, ofG] = [part(0), part(f.size)];
    const [loss, diverged] = [new Float64Array(members), new Uint8Array(members)];
    const trainer = { n, members, rate, iteration: 0, loss, diverged, weights };

    const h = times.map((t, k) => (t - times[k - 1]) / steps); // the step before each time

    // All that a training writes to is made here, once.
    const last = mask.lastIndexOf(1); // a training solves until there
    const count = mask.filter((role) => role === 1).length * batch * d; // numbers to be fitted
    const tape = new Float64Array(Math.max(1, last * steps) * 4 * f.values);
    const delta = new Float64Array(f.values);
    const [tapeG, deltaG] = [new Float64Array(g.values), new Float64Array(g.values)];
    const [z, k, sum, adjoint, byInput] = Array.from({ length: 5 }, () => new Float64Array(n));
    const residual = new Float64Array(times.length * d);

    seeds.forEach((seed, member) => {
      const random = stream(`weights, ${model}`, seed);
      drawWeights(f, ofF.w[member], random);
      drawWeights(g, ofG.w[member], random);
    });
    before.set(weights);

    // z becomes the state that trajectory b begins with: the data, then zeros or g(x0).
    function begin(member, b) {
      z.fill(0);
      for (let i = 0; i < d; i++) z[i] = x0[b * d + i];
      if (!second) return;
      for (let i = 0; i < d; i++) tapeG[i] = z[i];
      forward(g, ofG.w[member], tapeG, 0);
      for (let i = 0; i < d; i++) z[d + i] = tapeG[g.output + i];
    }

    // k becomes dz/dt at the state that stands at tape[at].
    function speed(member, at) {
      forward(f, ofF.w[member], tape, at);
      for (let i = 0; i < known; i++) k[i] = tape[at + d + i];
      for (let i = known; i < n; i++) k[i] = tape[at + f.output + i - known];
    }

    // z moves on by one Runge-Kutta step. Its four evaluations of f stay on the tape.
    function step(member, length, at) {
      k.fill(0);
      sum.fill(0);
      for (let stage = 0; stage < 4; stage++, at += f.values) {
        for (let i = 0; i < n; i++) tape[at + i] = z[i] + length * C[stage] * k[i];
        speed(member, at);
        for (let i = 0; i < n; i++) sum[i] += length * B[stage] * k[i];
      }
      for (let i = 0; i < n; i++) z[i] += sum[i];
    }

    // The same step backwards: from the loss's gradient by the state after it to the gradient by
    // the state before it, both in `adjoint`. A stage matters to the end of the step and, through
    // its speed, to the next stage.
    function stepBack(member, length, at) {
      byInput.fill(0);
      sum.fill(0);
      for (let stage = 3; stage >= 0; stage--) {
        const from = at + stage * f.values;
        for (let i = 0; i < n; i++) {
          k[i] = length * (B[stage] * adjoint[i] + C[stage + 1] * byInput[i]);
        }
        for (let i = known; i < n; i++) delta[f.output + i - known] = k[i];
        backward(f, ofF.w[member], tape, from, delta, ofF.slope[member]);
        for (let i = 0; i < n; i++) byInput[i] = delta[i];
        for (let i = 0; i < known; i++) byInput[d + i] += k[i];
        for (let i = 0; i < n; i++) sum[i] += byInput[i];
      }
      for (let i = 0; i < n; i++) adjoint[i] += sum[i];
    }

    // The mean square error of one member at the times that train, and its exact gradient: that of
    // the discrete solution, not of the ODE's.
    function lossAndGradient(member) {
      ofF.slope[member].fill(0); // g's slopes are the end of the same row
      let total = 0;
      for (let b = 0; b < batch; b++) {
        begin(member, b);
        for (let t = 0, at = 0; t <= last; t++) {
          for (let s = 0; t > 0 && s < steps; s++, at += 4 * f.values) step(member, h[t], at);
          for (let i = 0; i < d; i++) {
            const error = mask[t] === 1 ? z[i] - target[(t * batch + b) * d + i] : 0;
            residual[t * d + i] = error;
            total += error * error;
          }
        }
        adjoint.fill(0);
        for (let t = last, at = last * steps * 4 * f.values; t >= 0; t--) {
          for (let i = 0; i < d; i++) adjoint[i] += (2 / count) * residual[t * d + i];
          for (let s = 0; t > 0 && s < steps; s++) {
            at -= 4 * f.values;
            stepBack(member, h[t], at);
          }
        }
        if (!second) continue;
        for (let i = 0; i < d; i++) deltaG[g.output + i] = adjoint[d + i];
        backward(g, ofG.w[member], tapeG, 0, deltaG, ofG.slope[member]);
      }
      return total / count;
    }

    // One step of Adam, from `iteration` before it.
    function adam(member) {
      const [at, rate] = [member * size, trainer.rate / (1 - BETA1 ** (trainer.iteration + 1))];
      const unbiased = Math.sqrt(1 - BETA2 ** (trainer.iteration + 1));
      for (let i = at; i < at + size; i++) {
        const slope = gradients[i];
        before[i] = weights[i];
        means[i] += (1 - BETA1) * (slope - means[i]);
        squares[i] = BETA2 * squares[i] + (1 - BETA2) * slope * slope;
        weights[i] -= (rate * means[i]) / (Math.sqrt(squares[i]) / unbiased + EPSILON);
      }
    }

    function allFinite(member) {
      let zero = 0 * loss[member]; // zero times a number is zero, unless it is infinite or NaN
      for (let i = member * size; i < (member + 1) * size; i++) zero += 0 * gradients[i];
      return zero === 0;
    }

    trainer.step = (iterations = 1) => {
      for (let i = 0; i < iterations; i++, trainer.iteration++) {
        for (let member = 0; member < members; member++) {
          if (diverged[member]) continue;
          loss[member] = lossAndGradient(member);
          if (allFinite(member)) {
            adam(member);
            continue;
          }
          diverged[member] = 1;
          for (let i = member * size; i < (member + 1) * size; i++) weights[i] = before[i];
        }
      }
    };

    trainer.gradient = () => {
      for (let member = 0; member < members; member++) loss[member] = lossAndGradient(member);
      return gradients.slice();
    };

    trainer.setWeights = (flat) => {
      const values = Float64Array.from(flat);
      const fine = values.length === weights.length && values.every(Number.isFinite);
      need(fine, "weights", `${weights.length} finite numbers`);
      weights.set(values);
      before.set(values);
    };

    trainer.solve = () => {
      const paths = new Float64Array(members * times.length * batch * n);
      const reach = new Int32Array(members * batch).fill(times.length);
      for (let row = 0; row < members * batch; row++) {
        const [member, b] = [Math.floor(row / batch), row % batch];
        begin(member, b);
        for (let t = 0; t < times.length; t++) {
          for (let s = 0; t > 0 && s < steps; s++) step(member, h[t], 0);
          const lost = !z.every((value) => Math.abs(value) < LARGE);
          if (lost && t < reach[row]) reach[row] = t;
          const at = ((member * times.length + t) * batch + b) * n;
          if (t < reach[row]) paths.set(z, at);
          else if (t > 0) paths.copyWithin(at, at - batch * n, at - batch * n + n);
        }
      }
      return { paths, reach };
    };

    trainer.field = () => {
      const speeds = new Float64Array(members * points.length);
      for (let at = 0; at < speeds.length; at += n) {
        const member = Math.floor(at / points.length);
        for (let i = 0; i < n; i++) tape[i] = points[(at % points.length) + i];
        speed(member, 0);
        for (let i = 0; i < n; i++) speeds[at + i] = Math.abs(k[i]) < LARGE ? k[i] : 0;
      }
      return speeds;
    };

    trainer.errors = ({ paths, reach } = trainer.solve()) => {
      const over = (role) => seeds.map((_, member) => {
        let [total, count] = [0, 0];
        for (let t = 0; t < times.length; t++) {
          for (let b = 0; mask[t] === role && b < batch; b++) {
            for (let i = 0; i < d; i++, count++) {
              const path = paths[((member * times.length + t) * batch + b) * n + i];
              total += (path - target[(t * batch + b) * d + i]) ** 2;
              if (t >= reach[member * batch + b]) total = NaN;
            }
          }
        }
        return Number.isFinite(total / count) ? total / count : null;
      });
      return { train: over(1), test: over(0) };
    };

    return trainer;
  }

  return { createTrainer, stream, need, whole };
}

if (typeof module !== "undefined") module.exports = neuralOdes;
