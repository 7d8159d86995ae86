// The package on another origin than the page, as from a CDN. Needs dist/ (npm run build).

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, serve } from './chromium.mjs';

let page, cdn, closed, browser;
before(async () => {
  page = await serve();
  cdn = await serve(undefined, { 'access-control-allow-origin': '*' });
  closed = await serve();
  browser = await open(page.url);
});
after(async () => {
  await browser?.close();
  await Promise.all([page, cdn, closed].map((server) => server?.close()));
});

const trained = (url, configured) => browser.page.evaluate(async ({ url, configured }) => {
  const g = await import(url);
  if (configured) g.configure(configured);
  class One extends g.Module {
    constructor() {
      super();
      this.w = this.param([1], { init: g.init.literal(new Float32Array([2])) });
    }
  }
  const kinds = [];
  for (const device of ['webgpu', 'cpu']) {
    try {
      const train = await g.compile({
        model: new One(), loss: (m, { x }) => g.sum(g.mul(m.w, x)), inputs: { x: [1] }, optimizer: { kind: 'sgd', lr: 0.5 }, device,
      });
      const { loss } = await train.step({ x: new Float32Array([3]) });
      kinds.push([loss, (await train.downloadParams()).w[0]]);
      await train.destroy();
    } catch (thrown) {
      kinds.push(`${thrown.name} ${thrown.kind}: ${thrown.message}`);
    }
  }
  return { kinds, worker: Worker === globalThis.Worker && /native code/.test(String(Worker)) };
}, { url, configured });

test('a page imports it from another origin and trains', async () => {
  assert.deepEqual(await trained(`${cdn.url}/dist/index.js`), { kinds: [[6, 0.5], [6, 0.5]], worker: true });
});

test('a worker that was named is taken from another origin, too', async () => {
  assert.deepEqual((await trained(`${page.url}/dist/index.js`, { worker: `${cdn.url}/dist/worker.js` })).kinds, [[6, 0.5], [6, 0.5]]);
});

test('a worker that another origin does not give away is an error that says so', async () => {
  const { kinds } = await trained(`${page.url}/dist/index.js?closed`, { worker: `${closed.url}/dist/worker.js` });
  for (const error of kinds) assert.match(error, /^GradloomError internal: the worker failed[\s\S]*Access-Control-Allow-Origin/);
});
