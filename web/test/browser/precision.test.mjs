// 16-bit floats, and the precision f16, on WebGPU and in the CPU's module. Needs dist/ (npm run build).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { opened } from './chromium.mjs';

const here = opened();

/** Runs in the page. */
async function everything(device) {
  const g = await import('/dist/index.js');
  class Net extends g.Module {
    w = this.param([3], { dtype: 'f16', init: g.init.literal(Float32Array.of(0.1, 70000, -2)) });
    v = this.param([3], { dtype: 'bf16', init: g.init.literal(Float32Array.of(1 / 3, 1e38, 1)) });
  }
  const infer = await g.compileForward({
    model: new Net(), device, inputs: { x: { shape: [3], dtype: 'bf16' }, y: { shape: [3], dtype: 'f16' } },
    forward: (m, { x, y }) => ({
      sum: g.add(g.cast(x, 'f32'), g.cast(y, 'f32')), x, y: g.mul(y, m.w), cast: g.cast(g.cast(m.v, 'f32'), 'f16'), v: m.v,
    }),
  });
  const ran = await infer.run({ x: Float32Array.of(1.001, 2, 3), y: Float32Array.of(0.1, 0.5, 1e9) });
  const outputs = Object.fromEntries(Object.entries(ran.outputs).map(([name, data]) => [name, [data.constructor.name, ...data]]));
  const params = await infer.downloadParams();
  const file = g.saveSafetensors({ w: { data: params.w, shape: [3], dtype: 'f16' }, v: { data: params.v, shape: [3], dtype: 'bf16' } });
  const header = new TextDecoder().decode(new Uint8Array(file).subarray(8, file.byteLength - 12)).trim();
  await infer.uploadParams({ w: Float32Array.of(1, 2, 3.0001) }, { partial: true });
  const uploaded = [...(await infer.downloadParams()).w];
  await infer.destroy();

  class Mlp extends g.Module {
    l1 = new g.Linear(4, 16);
    l2 = new g.Linear(16, 1);
  }
  const spec = (precision) => ({
    model: new Mlp(), device, seed: 1, precision, inputs: { x: [8, 4], factor: [] }, optimizer: { kind: 'sgd', lr: 1e-7 },
    loss: (m, { x, factor }) => g.mul(g.mean(g.square(m.l2.fwd(g.tanh(m.l1.fwd(x))))), factor),
  });
  const x = Float32Array.from({ length: 32 }, (_, i) => ((i * 7) % 11) / 5 - 1);
  let onCpu = '';
  if (device === 'cpu') await g.compile(spec('f16')).catch(({ message }) => { onCpu = message; });
  const half = await g.compile(spec(device === 'cpu' ? 'bf16' : 'f16'));
  const steps = [];
  for (let i = 0; i < 12; i++) {
    const { kind, applied, loss } = await half.step({ x, factor: Float32Array.of(1e6) });
    steps.push({ kind, applied, loss });
  }
  const state = await half.downloadState();
  const scale = state.tensors['optim.loss_scale']?.data[0];
  await half.uploadState(state);
  const again = await half.step({ x, factor: Float32Array.of(1) });
  await half.destroy();
  const whole = await g.compile(spec('f32'));
  const { loss } = await whole.step({ x, factor: Float32Array.of(1e6) });
  const scaled = 'optim.loss_scale' in (await whole.downloadState()).tensors;
  await whole.destroy();
  let refused = '';
  await g.compile(spec('f8')).catch(({ message }) => { refused = message; });
  let param = '';
  try {
    new (class extends g.Module { w = this.param([1], { dtype: 'i32' }); })();
  } catch ({ message }) {
    param = message;
  }
  const hasF16 = device === 'webgpu' && (await navigator.gpu.requestAdapter()).features.has('shader-f16');
  return { outputs, header, uploaded, steps, scale, again: again.applied, loss, scaled, refused, param, hasF16, onCpu };
}

for (const device of ['webgpu', 'cpu']) {
  test(`16 bits and the precision f16 on ${device}`, async () => {
    const seen = await here.page.evaluate(everything, device);
    const half = (values) => values.map(Math.fround);
    assert.deepEqual(seen.outputs.x, ['Float32Array', 1, 2, 3]);
    assert.deepEqual(seen.outputs.sum, ['Float32Array', ...half([1.0999755859375, 2.5, Infinity])]);
    assert.deepEqual(seen.outputs.y, ['Float32Array', ...half([0.0099945068359375, Infinity, -Infinity])]);
    assert.deepEqual(seen.outputs.v.slice(0, 2), ['Float32Array', 0.333984375]);
    assert.ok(Math.abs(seen.outputs.v[2] - 1e38) < 4e35);
    assert.deepEqual(seen.outputs.cast, ['Float32Array', 0.333984375, Infinity, 1]);
    assert.match(seen.header, /"v":\{"dtype":"BF16","shape":\[3\],"data_offsets":\[0,6\]\}/);
    assert.match(seen.header, /"w":\{"dtype":"F16"/);
    assert.deepEqual(seen.uploaded, [1, 2, 3]);
    assert.ok(seen.steps.every(({ kind }) => kind === 'completed'));
    assert.ok(Math.abs(seen.steps[0].loss - seen.loss) < 0.01 * seen.loss, `${seen.steps[0].loss} and ${seen.loss}`);
    const skipped = seen.steps.filter(({ applied }) => !applied).length;
    assert.equal(seen.scale, device === 'cpu' ? undefined : 1024 / 2 ** skipped);
    assert.match(seen.onCpu, device === 'cpu' ? /the CPU does not compute in f16/ : /^$/);
    assert.equal(seen.steps.at(-1).applied, true);
    assert.equal(skipped > 0, seen.hasF16, `${skipped} steps were skipped`);
    assert.equal(seen.again, true);
    assert.equal(seen.scaled, false);
    assert.match(seen.refused, /precision is 'f8', not one of/);
    assert.match(seen.param, /dtype is 'i32', not one of 'f32', 'f16', 'bf16'/);
  });
}
