// Values and steps of more bytes than fit in 32 bits: only the adapter limits a page. Needs dist/ (npm run
// build).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { opened } from './chromium.mjs';

const here = opened();
// Buffers of SwiftShader are smaller than 1 GiB.
const BYTES = 2 ** 30 - 2 ** 20;

test('a value of nearly 1 GiB is made, overwritten, computed with and read back', async () => {
  const seen = await here.page.evaluate(async () => {
    const g = await import('/dist/index.js');
    const [K, N] = [16368, 16384];
    class Wide extends g.Module {
      constructor() {
        super();
        this.W = this.param([K, N], { init: g.init.zeros() });
      }
    }
    const forward = (m, { x }) => g.matmul(x, m.W);
    const model = await g.compileForward({ model: new Wide(), forward, inputs: { x: [1, K] }, device: 'webgpu' });
    const W = new Float32Array(K * N);
    for (let i = 0; i < K; i++) W[i * N + i] = i;
    W[K * N - 2] = 0.5;
    await model.uploadParams({ W });
    const { output } = await model.run({ x: new Float32Array(K).fill(2) });
    const { W: back } = await model.downloadParams();
    const wrong = back.findIndex((value, i) => value !== W[i]);
    await model.destroy();
    return { output: [0, 1, 8191, K - 1, N - 2, N - 1].map((i) => output[i]), wrong, bytes: W.byteLength };
  });
  assert.deepEqual(seen.output, [0, 2, 2 * 8191, 2 * 16367, 1, 0]);
  assert.equal(seen.wrong, -1);
  assert.ok(seen.bytes === BYTES, `${seen.bytes}`);
});

test('what the adapter has no buffer for is refused with its number', async () => {
  const error = await here.page.evaluate(async () => {
    const g = await import('/dist/index.js');
    class Wider extends g.Module {
      constructor() {
        super();
        this.W = this.param([32768, 16384], { init: g.init.zeros() });
      }
    }
    const forward = (m, { x }) => g.matmul(x, m.W);
    return g.compileForward({ model: new Wider(), forward, inputs: { x: [1, 32768] }, device: 'webgpu' })
      .then(() => 'it was taken', ({ message }) => message);
  });
  assert.match(error, /`?W`? takes 2147483648 bytes, a buffer of the device at most 1073741824/);
});
