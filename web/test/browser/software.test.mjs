// A software adapter is not chosen by default, since the CPU's module is faster. Needs dist/ (npm run build).

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, serve } from './chromium.mjs';

let server, browser;
before(async () => {
  server = await serve();
  browser = await open(server.url, { software: true });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test("'auto' takes the CPU, whose module alone is loaded; 'webgpu' takes the adapter", async () => {
  const asked = [];
  browser.page.context().on('request', (request) => asked.push(request.url().slice(server.url.length)));
  const seen = await browser.page.evaluate(async () => {
    const g = await import('/dist/index.js');
    class One extends g.Module {
      constructor() {
        super();
        this.w = this.param([1]);
      }
    }
    const { software } = await g.checkWebGPU();
    const devices = [];
    for (const device of [undefined, 'auto', 'webgpu']) {
      const train = await g.compile({ model: new One(), loss: (m) => g.sum(m.w), inputs: {}, optimizer: { kind: 'sgd', lr: 1 }, ...(device && { device }) });
      const { kind } = await train.step({});
      devices.push(`${train.device} ${kind}`);
      await train.destroy();
    }
    return { software, devices };
  });
  assert.deepEqual(seen, { software: true, devices: ['cpu completed', 'cpu completed', 'webgpu completed'] });
  const first = asked.indexOf('/dist/gradloom.wasm');
  const cpu = asked.indexOf('/dist/gradloom-cpu-relaxed.wasm');
  assert.ok(cpu >= 0 && (first < 0 || first > cpu), `${asked}`);
});

test('where the module of the CPU is missing, the adapter is taken', async () => {
  const device = await browser.page.evaluate(async () => {
    const g = await import('/dist/index.js?alone');
    g.configure({ cpuWasm: '/missing.wasm' });
    class One extends g.Module {
      constructor() {
        super();
        this.w = this.param([1]);
      }
    }
    const train = await g.compile({ model: new One(), loss: (m) => g.sum(m.w), inputs: {}, optimizer: { kind: 'sgd', lr: 1 } }).catch((thrown) => ({ device: thrown.message }));
    return train.device;
  });
  assert.equal(device, 'webgpu');
});
