// The package in Node.js: a thread with the CPU's module trains. Also checks numerically what tensorgrad's
// users rely on: learning rates, decay, states that resume with identical bits, unknown options. Needs the
// modules (npm run wasm).

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as g from '../../.test/src/index.js';

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url));
g.configure({ wasm: join(target, 'web/gradloom.wasm'), cpuWasm: join(target, 'web/gradloom-cpu.wasm') });

const open = [];
after(() => Promise.all(open.map((program) => program.destroy())));
const kept = async (program) => {
  open.push(await program);
  return open.at(-1);
};

/** A model with one trained number: the loss is `w * x`, so its gradient is x. */
class One extends g.Module {
  constructor(options = {}) {
    super();
    this.w = this.param([1], { init: g.init.literal(new Float32Array([2])), ...options });
  }
}
const one = (more = {}) => kept(g.compile({
  model: new One(), loss: (m, { x }) => g.sum(g.mul(m.w, x)), inputs: { x: [1] }, optimizer: { kind: 'sgd', lr: 0.1 }, seed: 1, device: 'cpu', ...more,
}));
const x = new Float32Array([1]);
const w = async (program) => (await program.downloadParams()).w[0];
const near = (seen, wanted, what = '') => assert.ok(Math.abs(seen - wanted) <= 1e-6 * Math.max(1, Math.abs(wanted)), `${what} ${seen}, not ${wanted}`);

/** Captures the console output of `work`. */
async function said(work) {
  const { warn } = console;
  const lines = [];
  console.warn = (line) => lines.push(line);
  try {
    await work();
  } finally {
    console.warn = warn;
  }
  return lines;
}

test('it trains in a thread, and forward functions follow', async () => {
  const train = await one();
  assert.equal(train.device, 'cpu');
  const infer = await train.attach({ forward: (m, { x }) => g.mul(m.w, x), inputs: { x: [null] } });
  const r = await train.step({ x });
  assert.deepEqual([r.kind, r.loss], ['completed', 2]);
  near(await w(train), 1.9);
  near((await infer.run({ x: new Float32Array([1, 2]) })).output[1], 3.8);
  // As in tensorgrad, an undeclared input is ignored; the console warns once.
  const lines = await said(async () => {
    for (let i = 0; i < 2; i++) assert.equal((await train.step({ x, y: x })).kind, 'completed');
  });
  assert.deepEqual(lines, ["gradloom: there is no input 'y', and it is not used. Did you mean 'x'? The inputs are: x."]);
});

test('learning rates are those of the formulas, step by step', async () => {
  // Steps t count from 1; s = max(1, t - startStep).
  const s = (t, start = 0) => Math.max(1, t - start);
  const linear = (s) => 0.5 + (0.1 - 0.5) * Math.min(s / 4, 1);
  const cosine = (s) => 0.1 + 0.5 * 0.4 * (1 + Math.cos(Math.PI * Math.min(s / 4, 1)));
  const cases = [
    [{ kind: 'linear', peak: 0.5, final: 0.1, steps: 4 }, (t) => linear(s(t))],
    [{ kind: 'linear', peak: 0.5, final: 0.1, steps: 4, startStep: 2 }, (t) => linear(s(t, 2))],
    [{ kind: 'cosineAnnealing', peak: 0.5, final: 0.1, steps: 4 }, (t) => cosine(s(t))],
    [{ kind: 'warmup', peak: 0.5, steps: 3, after: { kind: 'linear', peak: 0.5, final: 0.1, steps: 4 } }, (t) => (t <= 3 ? 0.5 * t / 3 : linear(t - 3))],
    [{ kind: 'warmup', peak: 0.5, steps: 3, after: 0.2 }, (t) => (t <= 3 ? 0.5 * t / 3 : 0.2)],
    [{ kind: 'staircase', peak: 0.5, every: 2, gamma: 0.1 }, (t) => 0.5 * 0.1 ** Math.floor((t - 1) / 2)],
    [{ kind: 'multiStep', peak: 0.5, milestones: [2, 5], gamma: 0.1 }, (t) => 0.5 * 0.1 ** [2, 5].filter((m) => m <= t).length],
    [g.lr.multiStep({ peak: 0.5, milestones: [1], gamma: 0.1, startStep: 3 }), (t) => 0.5 * 0.1 ** [1].filter((m) => m <= s(t, 3)).length],
  ];
  for (const [lr, at] of cases) {
    const train = await one({ optimizer: { kind: 'sgd', lr } });
    let before = await w(train);
    for (let t = 1; t <= 7; t++) {
      near(await train.currentLR(), at(t), `${JSON.stringify(lr)} at ${t}:`);
      await train.step({ x });
      // With this loss, a step changes the number by the rate.
      const now = await w(train);
      assert.ok(Math.abs(before - now - at(t)) < 1e-6, `${JSON.stringify(lr)} at ${t}: moved ${before - now}`);
      before = now;
    }
  }
});

test('setLR: without startStep from the next step on, with it where it says', async () => {
  const train = await one();
  for (let t = 1; t <= 3; t++) await train.step({ x });
  const shape = { kind: 'linear', peak: 0.5, final: 0.1, steps: 4 };
  await train.setLR(shape);
  near(await train.currentLR(), 0.4);
  await train.step({ x });
  near(await train.currentLR(), 0.3);
  await train.setLR({ ...shape, startStep: 4 });
  near(await train.currentLR(), 0.4);
  await train.setLR({ ...shape, startStep: 0 });
  near(await train.currentLR(), 0.1);
  await train.setLR(0.25);
  near(await train.currentLR(), 0.25);
});

test('decay: what a parameter says, then the filter, then how it starts', async () => {
  class P extends g.Module {
    yes = this.param([1], { init: g.init.ones(), decay: true });
    no = this.param([1], { init: g.init.constant(1), decay: false });
    blank = this.param([1], { init: g.init.ones() });
    plain = this.param([1], { init: g.init.constant(1) });
    norm = new g.LayerNorm(1);
    decayed = new g.RMSNorm(1, { decay: true });
  }
  const run = async (more) => {
    const train = await kept(g.compile({
      model: new P(), inputs: { x: [1] }, seed: 1, device: 'cpu', optimizer: { kind: 'adamw', lr: 0.1, weightDecay: 0.5, ...more },
      loss: (m, { x }) => g.sum(g.mul(g.add(g.add(g.add(m.yes, m.no), g.add(m.blank, m.plain)), g.add(g.add(m.norm.g, m.norm.b), m.decayed.g)), g.mul(x, 0))),
    }));
    await train.step({ x });
    const after = await train.downloadParams();
    return Object.keys(after).filter((name) => Math.abs(after[name][0] - 0.95) < 1e-6);
  };
  assert.deepEqual(await run(), ['yes', 'plain', 'decayed.g']);
  assert.deepEqual(await run({ decayFilter: (name) => name === 'blank' }), ['yes', 'blank', 'decayed.g']);
});

test('options that are not known are errors that say what was meant', async () => {
  const optimizer = (more) => one({ optimizer: { kind: 'adam', lr: 0.1, ...more } });
  const refused = async (work, message) => {
    const error = await Promise.resolve().then(work).then(() => null, (thrown) => thrown);
    assert.ok(error instanceof g.ShapeError, `${error}`);
    assert.match(error.message, message);
  };
  await refused(() => optimizer({ beta_1: 0.9 }), /the optimizer 'adam' has no option 'beta_1'\n.*did you mean 'beta1'\?/);
  await refused(() => optimizer({ b2: 0.9 }), /no option 'b2'\n.*'beta2'/);
  await refused(() => optimizer({ momentum: 0.9 }), /no option 'momentum'\n.*its options are kind, lr/);
  await refused(() => one({ optimizr: {} }), /`?compile`? has no option 'optimizr'\n.*'optimizer'/);
  await refused(() => one({ adam: { lr: 1 } }), /no option 'adam'\n.*optimizer: \{ kind: 'adam'/);
  await refused(() => one({ optimizer: { kind: 'adamm', lr: 1 } }), /no optimizer 'adamm'/);
  await refused(() => one({ optimizer: { kind: 'sgd', lr: { kind: 'cosine', peak: 1, final: 0, steps: 1 } } }), /no schedule 'cosine'\n.*'cosineAnnealing'/);
  await refused(() => one({ optimizer: { kind: 'sgd', lr: { kind: 'linear', peak: 1, end: 0, steps: 1 } } }), /no option 'end'/);
  await refused(() => one({ optimizer: { kind: 'sgd', lr: { kind: 'linear', peak: 1, steps: 1 } } }), /lr\.final is undefined/);
  await refused(() => one({ inputs: { x: { shape: [1], type: 'f32' } } }), /the input 'x' has no option 'type'/);
  await refused(() => new g.Linear(1, 1, { biases: false }), /Linear has no option 'biases'\n.*'bias'/);
  await refused(() => new g.LayerNorm(1, { epsilon: 1 }), /LayerNorm has no option 'epsilon'\n.*'eps'/);
  await refused(() => new One({ decays: true }), /this\.param\(\.\.\) has no option 'decays'\n.*'decay'/);
  await refused(() => one({ loss: (m, { x }) => g.sum(g.mul(m.w, x), 0, { keepdims: true }) }), /`sum` has no option 'keepdims'\n.*'keepDims'/);
  await refused(() => one({ loss: (m, { x }) => g.sum(g.crossEntropy(g.reshape(m.w, [1, 1]), x, { reduce: 'sum' })) }), /no option 'reduce'/);
  await refused(() => one({ model: One }), /the model is a class/);
  const train = await one();
  assert.match((await train.step({ x }, { wait: false })).error.message, /step has no option 'wait'/);
  await refused(() => train.reset({ parameters: true }), /no option 'parameters'\n.*'params'/);
  await refused(() => train.attach({ forward: (m) => m.w, inputs: {}, outputs: 'f32' }), /attach has no option 'outputs'\n.*'output'/);
});

test('the dtype of a result is said, or an error', async () => {
  const train = await one();
  const forward = (m, { x }) => g.argmax(g.mul(m.w, x), 0);
  const other = await train.attach({ forward, inputs: { x: [3] } });
  await assert.rejects(other.prepare(), /gives i32\[\].*'f32'[\s\S]*say `output: 'i32'`/);
  const { kind, error } = await other.run({ x: new Float32Array(3) });
  assert.equal(kind, 'failed');
  assert.match(error.message, /gives i32\[\]/);
  await assert.rejects((await train.attach({ forward: (m) => m.w, inputs: {}, output: 'i32' })).prepare(), /gives f32\[1\], and its output is 'i32'/);
  const infer = await train.attach({ forward, inputs: { x: [3] }, output: 'i32' });
  const { output } = await infer.run({ x: new Float32Array([1, 3, 2]) });
  assert.ok(output instanceof Int32Array);
  assert.deepEqual([...output], [1]);
});

test('parameters that the loss does not depend on: a warning, silence, or an error', async () => {
  class Two extends One {
    idle = new g.Linear(1, 2);
  }
  const lines = await said(async () => {
    const train = await one({ model: new Two() });
    await train.step({ x });
    assert.deepEqual(train.unusedParams, ['idle.W', 'idle.b']);
    const params = await train.downloadParams();
    assert.deepEqual(Object.keys(params).sort(), ['idle.W', 'idle.b', 'w']);
    params['idle.b'][1] = 7;
    await train.uploadParams(params);
    // Parameters that are not used are still part of the model.
    const infer = await train.attach({ forward: (m) => m.idle.b, inputs: {} });
    assert.deepEqual([...(await infer.run({})).output], [0, 7]);
  });
  assert.equal(lines.length, 1);
  assert.match(lines[0], /does not depend on idle\.W, idle\.b/);
  assert.deepEqual(await said(() => one({ model: new Two(), unused: 'allow' })), []);
  await assert.rejects(one({ model: new Two(), unused: 'error' }), /idle\.W/);
});

test('a forward program has all parameters of its model', async () => {
  class Two extends One {
    head = new g.Linear(1, 2);
  }
  const infer = await kept(g.compileForward({ model: new Two(), forward: (m, { x }) => g.mul(m.w, x), inputs: { x: [1] }, device: 'cpu', seed: 3 }));
  const params = await infer.downloadParams();
  assert.deepEqual(Object.keys(params).sort(), ['head.W', 'head.b', 'w']);
  params.w[0] = 5;
  await infer.uploadParams(params);
  assert.equal((await infer.run({ x })).output[0], 5);
});

test('a downloaded state goes on with the same bits, from a file and in another program', async () => {
  class Noisy extends g.Module {
    l1 = new g.Linear(4, 8);
    l2 = new g.Linear(8, 1);
    seen = this.state([1], { dtype: 'i32', init: 5 });
  }
  const spec = {
    model: new Noisy(), seed: 77, inputs: { x: [6, 4] }, optimizer: { kind: 'adam', lr: { kind: 'cosineAnnealing', peak: 0.05, final: 0, steps: 30 } }, device: 'cpu',
    loss: (m, { x }) => {
      m.seen.set(g.add(m.seen, 1));
      return g.mean(g.square(g.add(m.l2.fwd(g.dropout(g.tanh(m.l1.fwd(x)), 0.3)), g.mul(g.randn([6, 1]), 0.1))));
    },
  };
  const batch = (i) => ({ x: Float32Array.from({ length: 24 }, (_, k) => Math.sin(i * 24 + k)) });
  const steps = async (train, from, count) => {
    const losses = [];
    for (let i = from; i < from + count; i++) losses.push((await train.step(batch(i))).loss);
    return losses;
  };
  const train = await kept(g.compile(spec));
  await steps(train, 0, 4);
  await train.setLR({ kind: 'linear', peak: 0.03, final: 0, steps: 10 });
  await steps(train, 4, 3);
  const state = await train.downloadState();
  assert.deepEqual(state.metadata, {
    'gradloom.state': '1', 'gradloom.attempted_steps': '7', 'gradloom.applied_steps': '7', 'gradloom.seed': '77',
    'gradloom.lr': '{"kind":"linear","peak":0.03,"final":0,"steps":10,"startStep":4}',
  });
  assert.deepEqual([...state.tensors.seen.data], [12]);
  const file = g.saveSafetensors(state.tensors, state.metadata);
  const wanted = await steps(train, 7, 5);
  assert.equal(new Set(wanted).size, 5);

  const other = await kept(g.compile(spec));
  await steps(other, 0, 2);
  await other.uploadState(file);
  assert.deepEqual(await steps(other, 7, 5), wanted);
  assert.deepEqual(await other.downloadState(), await train.downloadState());
  await other.uploadState(state);
  assert.deepEqual(await steps(other, 7, 5), wanted);

  // An upload changes all or nothing, and the error names the problem.
  const before = await other.downloadState();
  const stranger = await kept(g.compile({ ...spec, seed: 78 }));
  await assert.rejects(stranger.uploadState(file), /made with the seed 77[\s\S]*seed: 77/);
  // A rate is included in a state that is downloaded afterwards.
  void stranger.setLR(0.125);
  assert.equal((await stranger.downloadState()).metadata['gradloom.lr'], '0.125');
  const { 'optim.m.l1.W': _, ...less } = state.tensors;
  await assert.rejects(other.uploadState({ ...state, tensors: less }), /lacks 1 tensors: optim\.m\.l1\.W/);
  const swapped = { ...state.tensors['l1.W'], shape: [...state.tensors['l1.W'].shape].reverse() };
  await assert.rejects(other.uploadState({ ...state, tensors: { ...state.tensors, 'l1.W': swapped } }), /'l1\.W' of the state is f32\[\d+, \d+\]; here it is f32\[/);
  await assert.rejects(other.uploadState(g.saveSafetensors(state.tensors)), /does not say 'gradloom\.state'/);
  await assert.rejects(other.uploadState({ ...state, metadata: { ...state.metadata, 'gradloom.attempted_steps': '-1' } }), /not a whole number/);
  assert.deepEqual(await other.downloadState(), before);
});

test('states, gradients, segments and loops', async () => {
  class Seen extends One {
    mean = this.state([2]);
    count = this.state([], { dtype: 'i32' });
  }
  const train = await kept(g.compile({
    model: new Seen(), inputs: { x: [3, 2] }, optimizer: { kind: 'sgd', lr: 0 }, device: 'cpu', seed: 1,
    loss: (m, { x }) => {
      // Running sums of w * x, row by row, in a loop whose body is recomputed.
      const [last, all] = g.scan(3, { sum: m.mean }, { row: x }, ({ sum }, { row }) => {
        const next = g.checkpoint(() => g.add(sum, g.mul(g.tanh(row), m.w)));
        return [{ sum: next }, next];
      });
      m.mean.set(last.sum);
      m.count.set(g.add(m.count, 1));
      g.capture('all', all);
      g.capture('count', m.count);
      return g.sum(last.sum);
    },
  }));
  const rows = Float32Array.from([1, 2, 3, -1, 0.5, 0]);
  const sum = rows.reduce((a, b) => a + Math.tanh(b), 0);
  const first = await train.step({ x: rows });
  near(first.loss, 2 * sum);
  assert.deepEqual(first.captures.shape('all'), [3, 2]);
  near(first.captures.get('all')[2], 2 * (Math.tanh(1) + Math.tanh(3)));
  const second = await train.step({ x: rows });
  near(second.loss, 4 * sum);
  assert.deepEqual([first, second].map(({ captures }) => captures.get('count')[0]), [0, 1]);
  await train.reset();
  near((await train.step({ x: rows })).loss, 2 * sum);

  // A penalty on the gradient with respect to the input: d (w x)^2 / dx = 2 w^2 x.
  const penalty = await one({ loss: (m, { x }) => g.sum(g.square(g.gradients(g.sum(g.square(g.mul(m.w, x))), [x])[0])) });
  const half = new Float32Array([0.5]);
  const r = await penalty.step({ x: half });
  near(r.loss, 16);
  // d (2 w^2 x)^2 / dw = 16 w^3 x^2 = 32.
  near(await w(penalty), 2 - 3.2);

  await assert.rejects(one({ loss: (m, { x }) => g.sum(g.scan(2, x, x, (a, b) => [a, b])[0]) }), /`scan` of 2 steps/);
  await assert.rejects(one({ loss: (m, { x }) => g.checkpoint(() => undefined) }));
  let leaked;
  await assert.rejects(one({ loss: (m, { x }) => { g.checkpoint(() => (leaked = g.mul(m.w, x))); return g.sum(leaked); } }), g.ShapeError);
});

test('a caught error of a segment ends the trace all the same', async () => {
  const loss = (m, { x }) => {
    try {
      g.checkpoint(() => { throw new Error('mine'); });
    } catch {
      // The user ignores the error.
    }
    return g.sum(g.mul(m.w, x));
  };
  await assert.rejects(one({ loss }), /mine/);
});

test('softmaxCausal along any axis, rope, embedding', async () => {
  class None extends One {}
  const infer = await kept(g.compileForward({
    model: new None(), device: 'cpu', inputs: { x: [2, 3, 3], i: { shape: [2], dtype: 'i32' } },
    forward: (m, { x, i }) => {
      const [q, k] = g.rope(g.reshape(x, [2, 3, 3]).slice(2, [0, 2]), g.reshape(x, [2, 3, 3]).slice(2, [1, 3]));
      return {
        last: g.softmaxCausal(x), rows: g.softmaxCausal(x, -2), same: g.swapAxes(g.softmaxCausal(g.swapAxes(x, 1, 2)), 1, 2), q, k,
        rotated: g.reshape(x, [2, 3, 3]).slice(2, [0, 2]).rope(), table: g.embedding(g.reshape(x, [9, 2]), i),
      };
    },
  }));
  const values = Float32Array.from({ length: 18 }, (_, i) => Math.sin(i));
  const { outputs } = await infer.run({ x: values, i: new Int32Array([4, 0]) });
  assert.deepEqual(outputs.rows, outputs.same);
  assert.notDeepEqual(outputs.rows, outputs.last);
  assert.deepEqual([...outputs.last.slice(0, 3)], [1, 0, 0]);
  assert.deepEqual([outputs.rows[0], outputs.rows[3], outputs.rows[6]], [1, 0, 0]);
  assert.deepEqual(outputs.q, outputs.rotated);
  assert.deepEqual([...outputs.table], [values[8], values[9], values[0], values[1]]);
  await assert.rejects(g.compileForward({
    model: new None(), device: 'cpu', inputs: { i: { shape: [2], dtype: 'i32' } }, forward: (m, { i }) => g.embedding(i, g.ones([3, 2])),
  }), /the table comes first/);
});

test('graphs are values', async () => {
  const ir = await g.trace({
    model: new One(), loss: (m, { x }) => g.capture('loss', g.sum(g.mul(m.w, x))), inputs: { x: [1] }, optimizer: { kind: 'sgd', lr: 0.1 },
  });
  const { ops, tensors, outputs, captures } = ir.graph;
  const index = ops.findIndex(({ kind }) => kind === 'mul');
  const [left, right] = g.getOpInputs(ops[index]).map((id) => ops[tensors[id].source].name);
  assert.deepEqual([left, right].sort(), ['w', 'x']);
  assert.equal(tensors[ops[index].out].source, index);
  assert.match(tensors[ops[index].out].site.file, /node\.test\.mjs$/);
  assert.equal(ir.loss.id, outputs[0]);
  assert.deepEqual([ir.loss.shape, ir.loss.dtype], [[], 'f32']);
  assert.deepEqual(Object.keys(ir.paramGrads), ['w']);
  assert.deepEqual(ir.paramGrads.w.shape, [1]);
  assert.deepEqual([...captures.keys()], ['loss']);
  assert.ok(ir.kernels.length > 0 && /@compute/.test(ir.kernels[0].source));

  const train = await one();
  assert.deepEqual(train.graph.ops.map(({ kind }) => kind), (await g.trace({
    model: new One(), loss: (m, { x }) => g.sum(g.mul(m.w, x)), inputs: { x: [1] }, optimizer: { kind: 'sgd', lr: 0.1 },
  })).graph.ops.map(({ kind }) => kind));
  const infer = await train.attach({ forward: (m, { x }) => g.mul(m.w, x), inputs: { x: [null] } });
  const forward = await infer.graphFor({ x: new Float32Array(3) });
  assert.deepEqual(forward.loss.shape, [3]);
});

test('withCaptures: false leaves captures out', async () => {
  const train = await one({ loss: (m, { x }) => g.capture('loss', g.sum(g.mul(m.w, x))) });
  assert.deepEqual((await train.step({ x })).captures.names(), ['loss']);
  assert.deepEqual((await train.step({ x }, { withCaptures: false })).captures.names(), []);
});

test('a function that cannot be traced is for its runs to tell, and the training goes on', async () => {
  const train = await one();
  for (const forward of [(m, { x }) => g.matmul(x, m.w), () => 3, () => { throw new Error('of the user'); }]) {
    const broken = await train.attach({ forward, inputs: { x: [1, 5] } });
    for (let i = 0; i < 2; i++) {
      const { kind, error } = await broken.run({ x: new Float32Array(5) });
      assert.equal(kind, 'failed');
      assert.ok(error instanceof g.GradloomError, String(error));
    }
    await broken.destroy();
  }
  assert.equal((await train.step({ x })).kind, 'completed');
});

test('parameters that are NaN are refused, all of them', async () => {
  const train = await one();
  const before = await w(train);
  await assert.rejects(train.uploadParams({ w: new Float32Array([NaN]) }), (error) => error.kind === 'store' && /'w' is NaN at element 0/.test(error.message));
  await assert.rejects(train.setLR(-1), /below 0/);
  assert.equal(await w(train), before);
});

test('an aborted compilation is one kind of error, whenever it is', async () => {
  for (const delay of [-1, 0, 1, 5, 20, 60]) {
    const controller = new AbortController();
    const reason = new Error('the visitor left');
    if (delay < 0) controller.abort(reason);
    else setTimeout(() => controller.abort(reason), delay);
    const made = one({ signal: controller.signal, seed: delay + 2 });
    await made.then((program) => program.step({ x }), (error) => {
      assert.deepEqual([error instanceof g.GradloomError, error.kind, error.cause], [true, 'aborted', reason]);
    });
  }
  const signal = AbortSignal.abort();
  await assert.rejects(g.compileForward({ model: new One(), forward: (m) => m.w, inputs: {}, device: 'cpu', signal }), { kind: 'aborted' });
});

test('initial values are those of the seed, also where they are made when they are needed', async () => {
  class Two extends g.Module {
    constructor() {
      super();
      this.a = this.param([3], { init: g.init.randn() });
      this.b = this.param([3], { init: g.init.kaiming() });
    }
  }
  const forward = (m, { x }) => g.sum(g.mul(x, g.add(m.a, m.b)));
  const open = () => kept(g.compileForward({ model: new Two(), forward, inputs: { x: [3] }, seed: 5, device: 'cpu' }));
  const train = await kept(g.compile({
    model: new Two(), loss: forward, inputs: { x: [3] }, optimizer: { kind: 'sgd', lr: 0 }, seed: 5, device: 'cpu',
  }));
  const wanted = await train.downloadParams();
  const ones = { x: new Float32Array([1, 1, 1]) };
  const sum = (...lists) => lists.flatMap((list) => [...list]).reduce((a, b) => a + b);
  assert.deepEqual(await (await open()).downloadParams(), wanted);
  near((await (await open()).run(ones)).output[0], sum(wanted.a, wanted.b), 'run');
  const partial = await open();
  await partial.uploadParams({ a: new Float32Array([1, 2, 3]) }, { partial: true });
  near((await partial.run(ones)).output[0], sum([1, 2, 3], wanted.b), 'partial');
  const whole = await open();
  await whole.uploadParams({ a: new Float32Array(3), b: new Float32Array([4, 5, 6]) });
  near((await whole.run(ones)).output[0], 15, 'whole');
  await assert.rejects(partial.uploadParams({ a: new Float32Array([NaN, 0, 0]), b: new Float32Array(3) }), /NaN/);
  near((await partial.run(ones)).output[0], sum([1, 2, 3], wanted.b), 'as before');
});
