// Numbers of bytes and operations beyond 32 bits, in the 32-bit module: the counts are the same as on any
// other host. Needs the modules (npm run wasm).

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as g from '../../.test/src/index.js';

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url));
g.configure({ wasm: join(target, 'web/gradloom.wasm'), cpuWasm: join(target, 'web/gradloom-cpu.wasm') });

class Of extends g.Module {
  constructor(...shapes) {
    super();
    this.w = shapes.map((shape) => this.param(shape, { init: g.init.zeros() }));
  }
}
const traced = (shapes, inputs, forward) => g.traceForward({ model: new Of(...shapes), inputs, forward });

for (const shape of [[8192, 8192], [256, 1024, 1024], [2 ** 28]]) {
  test(`a parameter of f32[${shape.join(', ')}]`, async () => {
    const { plan } = await traced([shape], {}, (m) => g.sum(m.w[0]));
    assert.equal(plan.totals.store, shape.reduce((a, b) => a * b) * 4);
  });
}

test('values of a step that are more than 4 GiB before they share bytes', async () => {
  const { plan } = await traced([], { x: [64, 1024, 1024] }, (m, { x }) => {
    let all = x;
    for (let i = 0; i < 24; i++) all = g.cumsum(all, -1);
    return g.sum(all);
  });
  const apart = plan.buffers.reduce((sum, { bytes }) => sum + bytes, 0);
  assert.ok(apart > 2 ** 32, `${apart}`);
  assert.ok(plan.totals.step < apart && plan.totals.bytes_written > 2 ** 32, JSON.stringify(plan.totals));
});

test('operations of a product are counted in 64 bits', async () => {
  const { plan } = await traced([[4096, 8192]], { x: [512, 4096] }, (m, { x }) => g.matmul(x, m.w[0]));
  assert.equal(plan.totals.flops, 2 * 512 * 4096 * 8192);
});

test('scores of a long attention are no value', async () => {
  const heads = [1, 12, 65536, 64];
  const { plan } = await traced([], { q: heads, k: heads, v: heads }, (m, { q, k, v }) => g.attention(q, k, v, { causal: true }));
  assert.ok(plan.totals.flops > 2 ** 40, `${plan.totals.flops}`);
});

test('what 32 bits do not index says so', async () => {
  await assert.rejects(traced([[65536, 65536]], {}, (m) => g.sum(m.w[0])), /f32\[65536, 65536\] has more elements than the indices of 32 bits count/);
  await assert.rejects(traced([[2 ** 33]], {}, (m) => g.sum(m.w[0])), /8589934592 is more than/);
});

test("the CPU's module says that it has 4 GiB", async () => {
  const spec = { model: new Of([32768, 16384], [32768, 16384]), inputs: { x: [1, 32768] }, forward: (m, { x }) => g.add(g.matmul(x, m.w[0]), g.matmul(x, m.w[1])) };
  await assert.rejects(g.compileForward({ ...spec, device: 'cpu' }).then((forward) => forward.run({ x: new Float32Array(32768) })),
    (error) => /4294967296|no memory for \d+ bytes/.test(error.message) && ['plan', 'device'].includes(error.kind));
});
