// Every object of options from JavaScript: unknown kinds and names, and invalid numbers, are errors that list
// the possibilities; nothing is ignored, and nothing becomes NaN silently. Needs the modules (npm run wasm).

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as g from '../../.test/src/index.js';

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url));
g.configure({ cpuWasm: join(target, 'web/gradloom-cpu.wasm') });

const open = [];
after(() => Promise.all(open.map((program) => program.destroy())));
const kept = async (program) => {
  open.push(await program);
  return open.at(-1);
};

class Net extends g.Module {
  constructor(make) {
    super();
    Object.assign(this, make(this));
  }
}
const param = (options, shape = [4, 2]) => new (class extends g.Module { w = this.param(shape, options); })();
/** Returns the initial parameters of a model. */
const initialOf = async (model, seed = 7) => {
  const infer = await kept(g.compileForward({ model, forward: (m) => m.w, inputs: {}, seed, device: 'cpu' }));
  return (await infer.downloadParams()).w;
};

test('initial values as plain objects are those of the functions', async () => {
  const data = Float32Array.from({ length: 8 }, (_, i) => i / 4);
  const pairs = [
    [{ kind: 'zeros' }, g.init.zeros()], [{ kind: 'ones' }, g.init.ones()], [{ kind: 'constant', value: 3 }, g.init.constant(3)],
    [{ kind: 'randn' }, g.init.randn()], [{ kind: 'randn', scale: 0.5 }, g.init.randn({ scale: 0.5 })], [{ kind: 'randn' }, undefined],
    [{ kind: 'uniform', low: -1, high: 2 }, g.init.uniform(-1, 2)],
    [{ kind: 'kaiming' }, g.init.kaiming()], [{ kind: 'kaiming', gain: 1 }, g.init.kaiming({ gain: 1 })],
    [{ kind: 'kaiming', gain: undefined }, g.init.kaiming({ gain: Math.SQRT2 })], [{ kind: 'kaiming' }, { kind: 'kaiming', gain: Math.SQRT2 }],
    [{ kind: 'kaimingUniform' }, g.init.kaimingUniform()], [{ kind: 'xavier' }, g.init.xavier()], [{ kind: 'xavier', gain: 1 }, g.init.xavier()],
    [{ kind: 'xavierUniform' }, g.init.xavierUniform()], [{ kind: 'orthogonal' }, g.init.orthogonal()],
    [{ kind: 'truncatedNormal' }, g.init.truncatedNormal({ std: 0.02 })], [{ kind: 'fanIn' }, g.init.fanIn()],
    [{ kind: 'literal', data }, g.init.literal(data)], [{ kind: 'literal', values: data }, g.init.literal(data)],
    [{ kind: 'literal', data: [...data] }, g.init.literal(data)], [{ kind: 'literal', data: Float64Array.from(data) }, g.init.literal(data)],
  ];
  const seen = new Map();
  for (const [plain, made] of pairs) {
    const [a, b] = [await initialOf(param({ init: plain })), await initialOf(param({ init: made }))];
    assert.ok(a.every(Number.isFinite), JSON.stringify(plain));
    assert.deepEqual(a, b, JSON.stringify(plain));
    seen.set(plain.kind, a);
  }
  assert.equal(seen.size, 13);
  assert.deepEqual(seen.get('literal'), data);
  // He et al.: sqrt(2 / fan-in), estimated from many elements.
  const wide = await initialOf(param({ init: { kind: 'kaiming' } }, [200, 300]));
  const std = Math.sqrt(wide.reduce((sum, x) => sum + x * x, 0) / wide.length);
  assert.ok(Math.abs(std / Math.sqrt(2 / 200) - 1) < 0.02, String(std));
  // Layers accept them too.
  for (const layer of [new g.Linear(4, 2, { init: { kind: 'kaiming' } }), new g.Embedding(4, 2, { init: { kind: 'ones' } }), new g.Conv1d(2, 2, 3, { init: { kind: 'xavier' } })]) {
    const infer = await kept(g.compileForward({ model: layer, forward: (m) => m.W, inputs: {}, seed: 1, device: 'cpu' }));
    assert.ok((await infer.downloadParams()).W.every(Number.isFinite));
  }
});

test('initial values that are none are errors that list the kinds', () => {
  const cases = [
    [{ kind: 'kaimming' }, /no kind of initial values 'kaimming'\nhelp: did you mean 'kaiming'\? it is one of zeros, ones, constant, randn/],
    [{ kind: 'toString' }, /no kind of initial values 'toString'\nhelp: it is one of|did you mean/], [{ kind: 'constructor' }, /no kind of initial values/],
    [{}, /no kind of initial values undefined\nhelp: it is one of zeros/], [{ kind: 3 }, /no kind of initial values 3/],
    ['kaiming', /init is 'kaiming', not initial values[\s\S]*kinds are zeros, ones/], [g.init.kaiming, /init is a function[\s\S]*call it: init\.kaiming\(\)/],
    [null, /init is null/], [0.5, /init is 0\.5/], [[1], /init is an array/], [new Float32Array(8), /no kind of initial values/],
    [{ kind: 'kaiming', gian: 1 }, /has no option 'gian'\nhelp: did you mean 'gain'\? its options are kind, gain/],
    [{ kind: 'zeros', value: 1 }, /'zeros' has no option 'value'/], [{ kind: 'randn', std: 1 }, /has no option 'std'/],
    [{ kind: 'kaiming', gain: NaN }, /gain is NaN, not a finite number/], [{ kind: 'randn', scale: Infinity }, /scale is Infinity/],
    [{ kind: 'randn', scale: '1' }, /scale is '1', not a finite number/], [{ kind: 'randn', scale: null }, /scale is null/],
    [{ kind: 'constant' }, /value is missing/], [{ kind: 'uniform', low: 1 }, /high is missing/], [{ kind: 'uniform', low: 2, high: 1 }, /low 2 is above high 1/],
    [{ kind: 'literal' }, /data is undefined, not a Float32Array/], [{ kind: 'literal', data: 3 }, /data is 3/], [{ kind: 'literal', data: 'x' }, /data is 'x'/],
    [{ kind: 'literal', data: new Float32Array(3) }, /3 initial values for \[4, 2\]/], [{ kind: 'literal', data: [1, 2, 3, 4, 5, 6, 7, NaN] }, /the element 7 is NaN/],
    [{ kind: 'literal', data: ['a', 1, 2, 3, 4, 5, 6, 7] }, /the element 0 is NaN/], [{ kind: 'literal', data: new BigInt64Array(8) }, /not a Float32Array/],
    [{ kind: 'literal', data: new Float32Array(8), values: new Float32Array(8) }, /both data and values/], [{ kind: 'literal', date: [] }, /no option 'date'/],
  ];
  for (const [init, message] of cases) {
    assert.throws(() => param({ init }), (error) => {
      assert.equal(error.name, 'ShapeError');
      assert.match(error.message, message);
      assert.match(error.origin.file, /options\.test\.mjs$/);
      return true;
    }, String(message));
  }
});

test('functions of initial values take objects of their own options', () => {
  for (const [call, message] of [
    [() => g.init.randn(0.5), /the options of init\.randn are 0\.5, not an object\nhelp: its options are scale/], [() => g.init.kaiming(NaN), /are NaN, not an object/],
    [() => g.init.kaiming({ scale: 1 }), /init\.kaiming has no option 'scale'\nhelp: .*gain/], [() => g.init.xavier({ gain: NaN }), /gain is NaN/], [() => g.init.orthogonal(null), /are null/],
    [() => param({ init: g.init.uniform(1) }), /high is missing/], [() => param({ init: g.init.constant() }), /value is missing/], [() => param({ init: g.init.literal() }), /data is undefined/],
    [() => param({ init: g.init.uniform(NaN, 1) }), /low is NaN/],
  ]) assert.throws(call, (error) => error instanceof g.GradloomError && message.test(error.message) || assert.fail(error.message), String(call));
});

test('what is compiled from nothing is an error, too', async () => {
  for (const make of [g.compile, g.compileForward, g.trace, g.traceForward]) {
    for (const spec of [undefined, null, 3, 'x', [], {}, { model: param({}) }]) {
      await assert.rejects(async () => make(spec), (error) => error instanceof g.GradloomError || assert.fail(`${make.name} ${String(spec)}: ${error.stack}`));
    }
  }
});

/** Traces a function of one tensor. */
const traced = (run, inputs = { x: [2, 3, 8, 8] }) => g.traceForward({ model: new (class extends g.Module {})(), forward: (m, { x }) => run(x), inputs });

/** Calls that take options, by name. */
const optim = (config) => g.trace({ model: param({}), loss: (m) => g.sum(m.w), inputs: {}, optimizer: config });
const spec = (more) => g.trace({ model: param({}), loss: (m) => g.sum(m.w), inputs: {}, optimizer: { kind: 'sgd', lr: 0.1 }, ...more });
const forward = (more) => g.traceForward({ model: param({}), forward: (m) => m.w, inputs: {}, ...more });
const at = {
  'this.param': (o) => param(o), 'this.state': (o) => new Net((m) => ({ s: m.state([2], o) })),
  Linear: (o) => new g.Linear(2, 2, o), Embedding: (o) => new g.Embedding(2, 2, o), LayerNorm: (o) => new g.LayerNorm(2, o),
  RMSNorm: (o) => new g.RMSNorm(2, o), GroupNorm: (o) => new g.GroupNorm(1, 2, o), CausalSelfAttention: (o) => new g.CausalSelfAttention(4, 2, o),
  Conv1d: (o) => new g.Conv1d(2, 2, 3, o), Conv2d: (o) => new g.Conv2d(2, 2, 3, o),
  ConvTranspose1d: (o) => new g.ConvTranspose1d(2, 2, 3, o), ConvTranspose2d: (o) => new g.ConvTranspose2d(2, 2, 3, o),
  sum: (o) => traced((x) => g.sum(x, 0, o)), mean: (o) => traced((x) => g.mean(x, 0, o)), gelu: (o) => traced((x) => g.gelu(x, o)),
  maxPool2d: (o) => traced((x) => g.maxPool2d(x, 2, o)), avgPool2d: (o) => traced((x) => g.avgPool2d(x, 2, o)),
  conv2d: (o) => traced((x) => g.conv2d(x, g.ones([2, 3, 3, 3]), o)), conv1d: (o) => traced((x) => g.conv1d(x, g.ones([2, 3, 3]), o), { x: [2, 3, 8] }),
  crossEntropy: (o) => traced((x) => g.crossEntropy(x, g.arange(2), o), { x: [2, 3] }), nllLoss: (o) => traced((x) => g.nllLoss(x, g.arange(2), o), { x: [2, 3] }),
  rope: (o) => traced((x) => g.rope(x, x, o)[0]), selfAttention: (o) => traced((x) => g.selfAttention(x, 2, o), { x: [1, 4, 12] }),
  adam: (o) => optim({ kind: 'adam', lr: 0.1, ...o }), adamw: (o) => optim({ kind: 'adamw', lr: 0.1, weightDecay: 0.1, ...o }), sgd: (o) => optim({ kind: 'sgd', lr: 0.1, ...o }),
  linear: (o) => optim({ kind: 'sgd', lr: { kind: 'linear', peak: 1, final: 0, steps: 5, ...o } }), staircase: (o) => optim({ kind: 'sgd', lr: g.lr.staircase({ peak: 1, every: 2, gamma: 0.5, ...o }) }),
  warmup: (o) => optim({ kind: 'sgd', lr: { kind: 'warmup', peak: 1, steps: 5, after: { kind: 'exponential', peak: 1, gamma: 0.9, ...o } } }),
  compile: (o) => spec(o), compileForward: (o) => forward(o), input: (o) => traced((x) => x, { x: { shape: [2], ...o } }), configure: (o) => g.configure(o),
};
/** Names of numbers, flags and texts of each call. */
const NUMBERS = {
  'this.state': ['init'], LayerNorm: ['eps'], RMSNorm: ['eps'], GroupNorm: ['eps'], Conv1d: ['groups'], Conv2d: ['groups', 'stride', 'padding'], ConvTranspose1d: ['groups'],
  ConvTranspose2d: ['groups'], maxPool2d: ['stride', 'padding'], avgPool2d: ['stride', 'padding'], conv2d: ['stride', 'padding', 'groups', 'dilation'], conv1d: ['stride', 'groups'], rope: ['base'],
  adam: ['lr', 'beta1', 'beta2', 'eps', 'clipGradNorm', 'clipGradValue'], adamw: ['weightDecay'], sgd: ['lr', 'momentum', 'weightDecay'], linear: ['peak', 'final', 'steps', 'startStep'],
  staircase: ['every', 'gamma'], warmup: ['gamma'], compile: ['seed', 'clipGradNorm', 'memoryBudget', 'averageDecay', 'accumulate'], compileForward: ['seed', 'maxCachedShapes'],
};
const FLAGS = {
  'this.param': ['decay', 'frozen'], Linear: ['bias', 'decay', 'frozen'], Embedding: ['decay'], LayerNorm: ['bias', 'decay'], RMSNorm: ['decay', 'frozen'], Conv2d: ['bias', 'decay'],
  sgd: ['nesterov'], sum: ['keepDims'], mean: ['keepDims'], selfAttention: ['causal'], compile: ['portable'],
};
const TEXTS = {
  'this.param': ['dtype'], 'this.state': ['dtype'], gelu: ['approximate'], crossEntropy: ['reduction'], nllLoss: ['reduction'], compile: ['precision', 'unused', 'device'],
  compileForward: ['precision', 'device', 'output'], input: ['dtype'],
};

test('options of every kind refuse what there is not', async () => {
  let count = 0;
  const refused = async (where, options, message) => {
    count++;
    await assert.rejects(async () => at[where](options), (error) => {
      assert.ok(error instanceof g.GradloomError, `${where} ${JSON.stringify(options)}: ${error.stack}`);
      assert.match(error.message, message, `${where} ${String(Object.entries(options ?? {}))}`);
      return true;
    }, `${where} took ${String(Object.entries(options ?? {}))}`);
  };
  for (const where of Object.keys(at)) {
    // The call works without wrong options.
    await at[where](where === 'configure' ? {} : undefined);
    await at[where]({});
    for (const name of ['optionOfNoOne', 'toString', 'constructor']) await refused(where, { [name]: 1 }, new RegExp(`no option '${name}'[\\s\\S]*options`));
  }
  for (const [where, names] of Object.entries(NUMBERS)) {
    for (const name of names) for (const value of [NaN, Infinity, '0.5', {}, true]) {
      await refused(where, { [name]: value }, new RegExp(`${name}[\\s\\S]*(NaN|Infinity|'0\\.5'|an object|\\[object Object\\]|true|number|whole|schedule)`));
    }
  }
  for (const [where, names] of Object.entries(FLAGS)) {
    for (const name of names) for (const value of [NaN, 0, 1, 'false', 'no', {}]) await refused(where, { [name]: value }, new RegExp(`${name} is [\\s\\S]*true or false`));
  }
  for (const [where, names] of Object.entries(TEXTS)) {
    for (const name of names) for (const value of ['nothing', 3, NaN, {}, 'toString']) await refused(where, { [name]: value }, new RegExp(`${name} is [\\s\\S]*not one of '`));
  }
  for (const kind of ['adem', undefined, 'toString', 4]) await assert.rejects(async () => optim({ kind, lr: 0.1 }), /there is no optimizer [\s\S]*it is one of [\s\S]*adam, [\s\S]*sgd/);
  for (const kind of ['cosine', undefined, 'constructor', 4]) {
    await assert.rejects(async () => optim({ kind: 'sgd', lr: { kind } }), /there is no schedule [\s\S]*it is one of linear, cosineAnnealing, warmup, staircase, multiStep, exponential, chained, repeated/);
  }
  for (const where of ['compile', 'compileForward']) await refused(where, { signal: 3 }, /signal is 3, not an AbortSignal/);
  for (const where of ['adam', 'sgd', 'adamw']) {
    await refused(where, { normalizeGrads: 'yes' }, /normalizeGrads is 'yes'/);
    await refused(where, { decayFilter: 'W' }, /decayFilter is 'W', not a function/);
  }
  console.log(`${count} objects of options`);
  assert.ok(count > 400, String(count));
});

test('options of what was compiled refuse what there is not', async () => {
  const train = await kept(g.compile({ model: param({}), loss: (m, { x }) => g.sum(g.mul(m.w, x)), inputs: { x: [] }, optimizer: { kind: 'sgd', lr: 0.1 }, seed: 1, device: 'cpu' }));
  const infer = await train.attach({ forward: (m) => m.w, inputs: {} });
  const x = new Float32Array([1]);
  for (const options of [{ raed: true }, { read: 1 }, { withCaptures: 'no' }, { signal: {} }, { transfer: 0 }]) {
    const result = await train.step({ x }, options);
    assert.equal(result.kind, 'failed', JSON.stringify(options));
  }
  assert.equal((await infer.run({}, { withCaptures: 1 })).kind, 'failed');
  for (const call of [
    () => train.reset({ params: 1 }), () => train.reset({ all: true }), () => train.reset({ states: 'x' }), () => train.uploadParams({}, { partial: 1 }), () => infer.uploadParams({}, { partly: true }),
    () => train.setLR(NaN), () => train.setLR({ kind: 'line' }), () => train.replaceModel(param({}), { seed: NaN }), () => train.replaceModel(param({}), { sead: 1 }),
    () => train.attach({ forward: (m) => m.w, inputs: {}, maxCachedShapes: NaN }), () => train.attach({ forward: (m) => m.w, inputs: {}, output: 'f64' }), () => train.attach({ forward: (m) => m.w, inputs: {}, seed: 1 }),
  ]) await assert.rejects(async () => call(), g.GradloomError, String(call));
  assert.equal((await train.step({ x })).kind, 'completed');
});
