// Tests of states without parameters, states of forward programs, and gradients by name. Needs the modules
// (npm run wasm).

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

/** A model that counts its calls. */
class Counter extends g.Module {
  l = new g.Linear(3, 2);
  frozen = this.param([2], { frozen: true });
  unused = this.param([2]);
  calls = this.state([], { init: 5 });
  loss(x, y) {
    this.calls.set(g.add(this.calls, 1));
    return g.mean(g.square(g.sub(g.add(g.tanh(this.l.fwd(x)), this.frozen), y)));
  }
}
const inputs = { x: [4, 3], y: [4, 2] };
const spec = { model: new Counter(), loss: (m, { x, y }) => m.loss(x, y), inputs, optimizer: { kind: 'adam', lr: 0.01 }, seed: 3, device: 'cpu', unused: 'allow' };
const batch = (rows = 4, shift = 0) => ({
  x: Float32Array.from({ length: 3 * rows }, (_, i) => Math.sin(i + shift)), y: Float32Array.from({ length: 2 * rows }, (_, i) => Math.cos(3 * i + shift)),
});
const calls = async (program) => (await program.downloadState()).tensors.calls.data[0];

test('states go back alone', async () => {
  const train = await kept(g.compile(spec));
  await train.step(batch());
  await train.step(batch());
  const before = await train.downloadState();
  assert.equal(before.tensors.calls.data[0], 7);
  await train.resetStates();
  const { tensors: { calls: reset, ...rest }, metadata } = await train.downloadState();
  const { calls: _, ...wanted } = before.tensors;
  assert.deepEqual([reset.data[0], rest, metadata], [5, wanted, before.metadata]);
  await train.step(batch());
  // Reset the parameters alone, and then all but the states.
  const first = await kept(g.compile(spec));
  await train.reset({ params: true, states: false, optimizer: false });
  assert.equal(await calls(train), 6);
  assert.deepEqual(await train.downloadParams(), await first.downloadParams());
  await train.reset();
  assert.equal(await calls(train), 5);
});

test('forward programs have the state of their model', async () => {
  const count = { model: new Counter(), inputs: { x: [null, 3] }, forward: (m, { x }) => { m.calls.set(g.add(m.calls, 1)); return m.l.fwd(x); }, seed: 9, device: 'cpu' };
  const own = await kept(g.compileForward(count));
  const x = batch().x;
  for (let i = 0; i < 3; i++) assert.equal((await own.run({ x })).kind, 'completed');
  const state = await own.downloadState();
  assert.deepEqual(Object.keys(state.tensors).sort(), ['calls', 'frozen', 'l.W', 'l.b', 'unused']);
  assert.deepEqual(state.metadata, { 'gradloom.state': '1', 'gradloom.seed': '9' });
  assert.deepEqual([state.tensors.calls.data[0], state.tensors['l.W'].shape, state.tensors['l.W'].dtype], [8, [3, 2], 'f32']);
  // The state is loaded as a file into another program.
  const other = await kept(g.compileForward({ ...count, seed: 10 }));
  await other.uploadState(g.saveSafetensors(state.tensors, state.metadata));
  assert.deepEqual((await other.downloadState()).tensors, state.tensors);
  assert.deepEqual((await other.run({ x })).output, (await own.run({ x })).output);
  await own.resetStates();
  assert.equal(await calls(own), 5);
  assert.deepEqual((await own.downloadParams())['l.W'], state.tensors['l.W'].data);
  // From a training, the optimizer's states are left out; an attached function has the same state.
  const train = await kept(g.compile(spec));
  await train.step(batch());
  const attached = await train.attach({ inputs: count.inputs, forward: (m, { x }) => m.l.fwd(x) });
  const all = (await train.downloadState()).tensors;
  assert.ok(Object.keys(all).some((name) => name.startsWith('optim.')));
  const mine = (await attached.downloadState()).tensors;
  assert.deepEqual(mine, Object.fromEntries(Object.entries(all).filter(([name]) => !name.startsWith('optim.'))));
  await other.uploadState(await train.downloadState());
  assert.deepEqual((await other.downloadState()).tensors, mine);
  await attached.resetStates();
  assert.equal(await calls(train), 5);
  // Nothing changes if a tensor is missing or has another shape.
  const before = await other.downloadState();
  const { 'l.W': _, ...less } = state.tensors;
  await assert.rejects(other.uploadState({ ...state, tensors: less }), /`l\.W` is missing/);
  await assert.rejects(other.uploadState({ ...state, tensors: { ...state.tensors, 'l.W': { ...state.tensors['l.W'], shape: [2, 3] } } }), /'l\.W' of the state is f32\[2, 3\]; here it is f32\[3, 2\]/);
  assert.deepEqual(await other.downloadState(), before);
  await assert.rejects(train.uploadState(state), /does not say 'gradloom\.attempted_steps'/);
});

test('wrong data and a loss that is not finite are told in words of the package', async () => {
  const train = await kept(g.compile({ ...spec, accumulate: 2 }));
  const { error } = await train.step(batch(4));
  assert.match(error.message, /the input 'x' has 12 elements; \[4, 3\] has 12, and a step takes 2 micro-batches of it: 24/);
  const { x, y } = batch(8);
  const failed = await train.step({ x, y: y.map(() => NaN) });
  assert.equal(failed.error.kind, 'not-finite');
  assert.match(failed.error.message, /help: lower the learning rate/);
  for (const text of [failed.error.message, failed.error.rendered, ...failed.error.help]) assert.doesNotMatch(text, /::|find_not_finite/);
});

test('gradients by name are the slopes of the loss', async () => {
  for (const accumulate of [1, 2]) {
    const train = await kept(g.compile({ ...spec, accumulate }));
    await assert.rejects(train.downloadParamGrads(), /no step was made/);
    const last = batch(4 * accumulate, 1);
    await train.step(batch(4 * accumulate, 7));
    await train.step(last);
    const before = await train.downloadState();
    const grads = await train.downloadParamGrads();
    assert.deepEqual(Object.keys(grads), ['l.W', 'l.b', 'unused']);
    assert.deepEqual(await train.downloadState(), before, 'nothing was changed, the states neither');
    assert.deepEqual(grads.unused, new Float32Array(2));
    // Compares with finite differences of the same loss, computed here in float64.
    const tensors = Object.fromEntries(Object.entries(before.tensors).map(([name, { data }]) => [name, Float64Array.from(data)]));
    const loss = ({ 'l.W': W, 'l.b': b, frozen }) => {
      let sum = 0;
      for (let i = 0; i < 4 * accumulate; i++) for (let j = 0; j < 2; j++) {
        let h = b[j];
        for (let k = 0; k < 3; k++) h += last.x[3 * i + k] * W[2 * k + j];
        sum += (Math.tanh(h) + frozen[j] - last.y[2 * i + j]) ** 2;
      }
      return sum / (8 * accumulate);
    };
    for (const name of ['l.W', 'l.b']) for (let i = 0; i < grads[name].length; i++) {
      const moved = (by) => loss({ ...tensors, [name]: tensors[name].with(i, tensors[name][i] + by) });
      const slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
      assert.ok(Math.abs(grads[name][i] - slope) < 1e-5, `${name}[${i}] is ${grads[name][i]}, not ${slope}`);
    }
    assert.deepEqual(await train.downloadParamGrads(last), grads);
    await assert.rejects(train.downloadParamGrads({ x: last.x }), /the input 'y' is missing/);
    // Another model has another gradient program.
    await train.replaceModel(new Counter(), { seed: 4 });
    await assert.rejects(train.downloadParamGrads(), /no step was made/);
    await train.step(last);
    assert.notDeepEqual(await train.downloadParamGrads(), grads);
    await train.destroy();
    await assert.rejects(train.downloadParamGrads(), /destroyed/);
  }
});
