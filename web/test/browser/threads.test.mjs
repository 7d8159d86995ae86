// The variants of the CPU's module: vectors with fused multiply-adds if the browser supports them, threads if
// the page is cross-origin isolated. Needs dist/ (npm run build).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISOLATED, open, serve } from './chromium.mjs';

/** Opens a page of a server with these headers; `use` gets the page and the files that it requests. */
async function withPage(headers, use) {
  const server = await serve(undefined, headers);
  const browser = await open(server.url, { gpu: false });
  try {
    const asked = [];
    browser.page.context().on('request', (request) => asked.push(request.url().slice(server.url.length)));
    await browser.page.evaluate(async () => {
      // The page behaves as on a machine with two cores.
      Object.defineProperty(navigator, 'hardwareConcurrency', { value: 2 });
      const [g, models] = [await import('/dist/index.js'), await import('/bench/models.js')];
      // A transformer with products of many blocks: a few steps with this module, or the one that the page
      // chooses.
      globalThis.trained = async (cpuWasm, steps = 4) => {
        g.configure({ cpuWasm });
        const { spec, batch } = models.addition(g);
        const train = await g.compile({ ...spec, device: 'cpu' });
        const losses = [];
        for (let i = 0; i < steps; i++) {
          losses.push((await train.step(batch)).loss);
          // Other threads are started with a delay.
          if (i === 0) await new Promise((resolve) => setTimeout(resolve, 400));
        }
        const logits = await train.attach({ forward: (m, { ids }) => m.fwd(ids), inputs: { ids: { shape: [null, 8], dtype: 'i32' } } });
        const { output } = await logits.run({ ids: batch.ids.subarray(0, 24) });
        const { counts } = await train.inspect();
        const params = await train.downloadParams();
        await train.destroy();
        return { losses, threads: counts.threads, numbers: [...Object.values(params).flatMap((values) => [...values]), ...output] };
      };
      globalThis.g = g;
    });
    await use(browser.page, asked);
  } finally {
    await browser.close();
    await server.close();
  }
}

const modules = (asked) => [...new Set(asked.filter((path) => path.endsWith('.wasm')))];

test('a browser with fused multiply-adds takes the module that has them, whose numbers are those of the other, within rounding', () =>
  withPage({}, async (page, asked) => {
    const relaxed = await page.evaluate(() => trained());
    assert.deepEqual(modules(asked), ['/dist/gradloom-cpu-relaxed.wasm']);
    const plain = await page.evaluate(() => trained('/dist/gradloom-cpu.wasm'));
    assert.deepEqual([relaxed.threads, plain.threads], [1, 1]);
    assert.ok(relaxed.losses.at(-1) < relaxed.losses[0], `${relaxed.losses}`);
    relaxed.losses.forEach((loss, i) => assert.ok(Math.abs(loss - plain.losses[i]) < 1e-4, `${relaxed.losses} and ${plain.losses}`));
    // Repeated, it has the same bits: rounding depends on the machine, and is always the same.
    assert.deepEqual(await page.evaluate(() => trained()), relaxed);
  }));

test('a page that is isolated computes in threads, with the bits of one thread, and nothing is left', () =>
  withPage(ISOLATED, async (page, asked) => {
    const { two, says, runs } = await page.evaluate(async () => {
      // The messages of the second worker, and whether it has a thread to run.
      const says = [];
      let crew;
      g.configure({
        worker: () => {
          const worker = new Worker('/dist/worker.js', { type: 'module' });
          const post = worker.postMessage.bind(worker);
          worker.postMessage = (message, transfer) => {
            if (message.kind === 'thread') {
              ({ crew } = message);
              worker.addEventListener('message', ({ data }) => says.push(data));
            }
            post(message, transfer);
          };
          return worker;
        },
      });
      const two = await trained();
      g.configure({ worker: undefined });
      return { two, says, runs: [...crew.places].slice(0, 2) };
    });
    assert.deepEqual(modules(asked), ['/dist/gradloom-cpu-threads.wasm']);
    assert.deepEqual([two.threads, says, runs], [2, [{ event: 'waits' }], [1, 2]]);
    const one = await page.evaluate(() => trained('/dist/gradloom-cpu-threads.wasm'));
    assert.equal(one.threads, 1);
    assert.ok(two.numbers.length > 100_000 && two.numbers.every(Number.isFinite));
    assert.deepEqual({ ...two, threads: 1 }, one);
    // The browser reports this with a delay.
    for (let i = 0; i < 40 && page.workers().length > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(page.workers().length, 0);
  }));

test('the first instance is that of the worker that is asked, whichever worker comes first', () =>
  withPage(ISOLATED, async (page) => {
    const seen = await page.evaluate(async () => {
      let made = 0;
      g.configure({
        worker: () => {
          const worker = new Worker('/dist/worker.js', { type: 'module' });
          const post = worker.postMessage.bind(worker);
          if (made++ === 0) worker.postMessage = (...message) => { setTimeout(() => post(...message), 500); };
          return worker;
        },
      });
      const { threads, losses } = await trained(undefined, 2);
      return { threads, learns: losses[1] < losses[0] };
    });
    assert.deepEqual(seen, { threads: 2, learns: true });
  }));

test('elsewhere there is one worker', () =>
  withPage({}, async (page) => {
    const seen = await page.evaluate(async () => {
      const started = [];
      globalThis.Worker = new Proxy(Worker, { construct: (target, args) => { started.push(String(args[0])); return Reflect.construct(target, args); } });
      const { threads } = await trained(undefined, 1);
      return { threads, workers: started.length, isolated: crossOriginIsolated };
    });
    assert.deepEqual(seen, { threads: 1, workers: 1, isolated: false });
  }));

test('where other workers cannot start, one thread computes', () =>
  withPage(ISOLATED, async (page) => {
    const seen = await page.evaluate(async () => {
      let started = 0;
      g.configure({ worker: () => new Worker(started++ === 0 ? '/dist/worker.js' : '/missing.js', { type: 'module' }) });
      const { losses } = await trained();
      return { started, learns: losses.at(-1) < losses[0] };
    });
    assert.deepEqual(seen, { started: 2, learns: true });
  }));

test('a worker that ends in the middle of something ends the program, with an error', () =>
  withPage(ISOLATED, async (page) => {
    const seen = await page.evaluate(async () => {
      const made = [];
      const waits = new Promise((resolve) => {
        g.configure({
          worker: () => {
            const worker = new Worker('/dist/worker.js', { type: 'module' });
            if (made.push(worker) === 2) worker.addEventListener('message', () => setTimeout(resolve), { once: true });
            return worker;
          },
        });
      });
      class One extends g.Module {
        constructor() {
          super();
          this.w = this.param([1]);
        }
      }
      const train = await g.compile({ model: new One(), loss: (m) => g.sum(m.w), inputs: {}, optimizer: { kind: 'sgd', lr: 1 }, device: 'cpu' });
      await train.step({});
      await waits;
      made[1].onerror(new ErrorEvent('error', { message: 'it stopped' }));
      const lost = await train.lost;
      const { kind, error } = await train.step({});
      return { made: made.length, lost: lost.message, kind, step: error.message };
    });
    assert.equal(seen.made, 2);
    assert.match(seen.lost, /it stopped/);
    assert.equal(seen.kind, 'failed');
    assert.match(seen.step, /it stopped/);
  }));
