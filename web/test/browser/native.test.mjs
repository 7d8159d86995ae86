// The same steps as natively. The numbers are those of `gradloom bench --config mnist-mlp --steps 20 --device wgpu --adapter SwiftShader --json`
// (`first_loss`, `final_loss`): the same model, seed and data, on the same kind of device through Vulkan.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, serve } from './chromium.mjs';

const NATIVE = { first: 2.3090553, last: 2.208404 };

test('losses are those of the native program', async () => {
  const server = await serve();
  const browser = await open(server.url);
  try {
    const losses = await browser.page.evaluate(async () => {
      const g = await import('/dist/index.js');
      const [BATCH, PIXELS, WIDTH, CLASSES] = [128, 784, 256, 10];
      class Digits extends g.Module {
        constructor() {
          super();
          const bias = (inputs, outputs) => this.param([outputs], { init: g.init.uniform(-1 / Math.sqrt(inputs), 1 / Math.sqrt(inputs)) });
          this.w1 = this.param([PIXELS, WIDTH], { init: g.init.fanIn() });
          this.b1 = bias(PIXELS, WIDTH);
          this.w2 = this.param([WIDTH, CLASSES], { init: g.init.fanIn() });
          this.b2 = bias(WIDTH, CLASSES);
        }
      }
      const train = await g.compile({
        model: new Digits(), seed: 0, device: 'webgpu',
        loss: (m, { pixels, classes }) =>
          g.crossEntropy(g.relu(g.matmul(pixels, m.w1).add(m.b1)).matmul(m.w2).add(m.b2), classes),
        inputs: { pixels: [BATCH, PIXELS], classes: { shape: [BATCH], dtype: 'i32' } },
        optimizer: { kind: 'adam', lr: 0.001 },
      });
      const batch = {
        pixels: Float32Array.from({ length: BATCH * PIXELS }, (_, i) => (Math.imul(i, 2654435769) >>> 8) / (1 << 24)),
        classes: Int32Array.from({ length: BATCH }, (_, i) => i % CLASSES),
      };
      const losses = [];
      for (let i = 0; i < 20; i++) losses.push((await train.step(batch)).loss);
      await train.destroy();
      return losses;
    });
    assert.ok(Math.abs(losses[0] - NATIVE.first) < 1e-5, `first: ${losses[0]}`);
    assert.ok(Math.abs(losses.at(-1) - NATIVE.last) < 1e-5, `last: ${losses.at(-1)}`);
  } finally {
    await browser.close();
    await server.close();
  }
});
