// The built package in a browser: trains, attaches, transfers parameters, replaces, ends. Needs dist/ (npm
// run build).

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { open, serve } from './chromium.mjs';

let server, browser;
before(async () => {
  server = await serve();
  browser = await open(server.url);
  await browser.page.evaluate(async () => {
    const g = await import('/dist/index.js');
    class MLP extends g.Module {
      constructor(width = 32) {
        super();
        this.l1 = new g.Linear(1, width, { init: g.init.fanIn() });
        this.l2 = new g.Linear(width, 1, { init: g.init.fanIn() });
      }
    }
    const forward = (m, { x }) => m.l2.fwd(g.tanh(m.l1.fwd(x)));
    const loss = (m, { x, y }) => g.mean(g.square(g.sub(forward(m, { x }), y)));
    const B = 64;
    const batch = () => {
      const x = Float32Array.from({ length: B }, () => Math.random() * 6 - 3);
      return { x, y: x.map(Math.sin) };
    };
    const spec = (more) => ({
      model: new MLP(), loss, inputs: { x: [B, 1], y: [B, 1] }, optimizer: { kind: 'adam', lr: 0.01 }, seed: 1, ...more,
    });
    Object.assign(globalThis, { g, MLP, forward, loss, B, batch, spec });
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});
const inPage = (f, arg) => browser.page.evaluate(f, arg);

test('there is WebGPU', async () => {
  const status = await inPage(() => g.checkWebGPU());
  assert.equal(status.ok, true, JSON.stringify(status));
});

test('trains, with steps that are not awaited', async () => {
  const seen = await inPage(async () => {
    const begin = performance.now();
    const train = await g.compile(spec({ device: 'webgpu' }));
    const first = await train.step(batch());
    const ready = performance.now() - begin;
    const all = await Promise.all(Array.from({ length: 1000 }, () => train.step(batch())));
    const queued = await train.step(batch(), { read: false });
    const last = await train.step(batch());
    const lr = await train.currentLR();
    await train.setLR(0.5);
    const other = await train.currentLR();
    const counts = (await train.inspect()).counts;
    const end = await train.destroy();
    return { ready, first, kinds: [...new Set(all.map(({ kind }) => kind))], queued, last, lr, other, counts, end, after: await train.step(batch()), device: train.deviceName };
  });

  assert.equal(seen.first.kind, 'completed');
  assert.deepEqual(seen.kinds, ['completed']);
  assert.equal(seen.queued.kind, 'queued');
  assert.ok(seen.last.loss < 0.2 * seen.first.loss, `${seen.first.loss} to ${seen.last.loss}`);
  assert.deepEqual([seen.lr, seen.other], [0.01, 0.5]);
  assert.deepEqual([seen.end.liveBuffers, seen.end.livePrograms, seen.end.livePipelines, seen.end.sessions], [0, 0, 0, 0]);
  assert.equal(seen.after.kind, 'aborted');
});

test('attached functions follow the parameters; shapes are compiled once', async () => {
  const seen = await inPage(async () => {
    const train = await g.compile(spec());
    const infer = await train.attach({
      forward: (m, { x }) => g.capture('out', forward(m, { x })), inputs: { x: [null, 1] }, maxCachedShapes: 2,
    });
    const runs = await Promise.all([1, 1, 1, 1, 5].map((n) => infer.run({ x: new Float32Array(n).fill(0.5) })));
    const programs = (await train.counters()).programs;
    await infer.run({ x: new Float32Array(7) });
    const evicted = (await train.counters()).programs;
    const before = runs[0].output[0];
    await train.step(batch());
    const after = (await infer.run({ x: new Float32Array(1).fill(0.5) })).output[0];
    const wrong = await infer.run({ x: new Int32Array(1) });
    const flat = await train.downloadParams();
    const tree = await train.downloadParams();
    await train.uploadParams({ 'l2.b': new Float32Array([7]) }, { partial: true });
    await train.uploadParams({ ...flat, 'l2.b': new Float32Array([8]) });
    const uploaded = (await train.downloadParams())['l2.b'][0];
    const missing = await train.uploadParams({ 'l2.b': new Float32Array([7]) }).catch((e) => e.message);
    await train.reset();
    const reset = (await infer.run({ x: new Float32Array(1).fill(0.5) }));
    await train.destroy();
    return {
      kinds: runs.map(({ kind }) => kind), shape: runs[4].captures.shape('out'), programs, evicted, before, after, wrong: wrong.error?.message,
      names: Object.keys(flat), same: Object.keys(tree).join() === Object.keys(flat).join() && tree['l1.W'].every((v, i) => v === flat['l1.W'][i]), uploaded, missing, reset: reset.output[0],
    };
  });
  assert.deepEqual(seen.kinds, Array(5).fill('completed'));
  assert.deepEqual(seen.shape, [5, 1]);
  assert.deepEqual([seen.programs, seen.evicted], [3, 3]);
  assert.notEqual(seen.before, seen.after);
  assert.equal(seen.reset, seen.before);
  assert.match(seen.wrong, /'x' is Int32Array/);
  assert.deepEqual(seen.names, ['l1.W', 'l1.b', 'l2.W', 'l2.b']);
  assert.equal(seen.same, true);
  assert.equal(seen.uploaded, 8);
  assert.match(seen.missing, /3 parameters are missing/);
});

test('a model that cannot be traced leaves the old one; another takes its place', async () => {
  const seen = await inPage(async () => {
    const train = await g.compile(spec());
    const infer = await train.attach({ forward, inputs: { x: [3, 1] } });
    await infer.run({ x: new Float32Array(3) });
    const bad = new MLP();
    bad.l2 = new g.Linear(5, 1);
    const error = await train.replaceModel(bad).catch((e) => ({ name: e.name, message: e.message }));
    const goesOn = (await train.step(batch())).kind;
    await train.replaceModel(new MLP(8), { seed: 3 });
    const shapes = train.paramShapes['l1.W'];
    const kinds = [(await train.step(batch())).kind, (await infer.run({ x: new Float32Array(3) })).kind];
    const counters = await train.counters();
    const pending = train.step(batch());
    const end = await train.destroy();
    return { error, goesOn, shapes, kinds, seed: train.seed, counters, pending: (await pending).kind, end };
  });
  assert.equal(seen.error.name, 'ShapeError');
  assert.match(seen.error.message, /matmul/);
  assert.equal(seen.goesOn, 'completed');
  assert.deepEqual(seen.shapes, [1, 8]);
  assert.deepEqual(seen.kinds, ['completed', 'completed']);
  assert.equal(seen.seed, 3);
  assert.equal(seen.counters.sessions, 1);
  assert.equal(seen.pending, 'aborted');
  assert.equal(seen.end.liveBuffers, 0);
});

test('a forward function of its own', async () => {
  const seen = await inPage(async () => {
    const infer = await g.compileForward({ model: new MLP(), forward: (m, i) => ({ y: forward(m, i), z: g.argmax(i.x) }), inputs: { x: [4, 1] }, seed: 5 });
    const run = await infer.run({ x: new Float32Array([1, 2, 3, 0]) });
    await infer.destroy();
    return { kind: run.kind, y: [...run.outputs.y], z: [...run.outputs.z], shapes: run.shapes, after: (await infer.run({ x: new Float32Array(4) })).kind };
  });
  assert.equal(seen.kind, 'completed');
  assert.deepEqual(seen.z, [2]);
  assert.equal(seen.after, 'aborted');
});

test('an error shows the line of the user', async () => {
  const message = await inPage(async () => {
    const { mistaken, model } = await import('/test/browser/user.js');
    return g.compile({ model, loss: mistaken, inputs: { x: [4, 1] }, optimizer: { kind: 'sgd', lr: 1 } }).catch((e) => e.message);
  });
  assert.match(message, /matmul.*\[4, 8\].*\[9, 1\]/);
  assert.match(message, /user\.js:7:22\n/);
  assert.match(message, /7 \|   return g\.mean\(m\.l2\.fwd\(m\.l1\.fwd\(x\)\)\);\n +\| {22}\^/);
});

test('a loss that is not finite fails its step, and changes nothing', async () => {
  const seen = await inPage(async () => {
    const train = await g.compile(spec());
    const nan = new Float32Array(B).fill(NaN);
    const [before, failed, after] = await Promise.all([train.step(batch()), train.step({ x: nan, y: nan }), train.step(batch())]);
    const finite = Object.values(await train.downloadParams()).every((values) => values.every(Number.isFinite));
    await train.destroy();
    return { kinds: [before.kind, failed.kind, after.kind], error: failed.error?.kind, finite };
  });
  assert.deepEqual(seen, { kinds: ['completed', 'failed', 'completed'], error: 'not-finite', finite: true });
});

test('a standalone function with a wildcard has parameters before it runs', async () => {
  const names = await inPage(async () => {
    const infer = await g.compileForward({ model: new MLP(), forward, inputs: { x: [null, 1] } });
    const names = Object.keys(await infer.downloadParams());
    await infer.destroy();
    return names;
  });
  assert.equal(names.length, 4);
});

test('compiling and ending again and again leaves no worker, and no memory', async () => {
  const cycles = (count) => inPage(async (count) => {
    for (let i = 0; i < count; i++) {
      const train = await g.compile(spec());
      const last = train.step(batch());
      await train.destroy();
      await last;
      if (train.pending !== 0) return train.pending;
    }
    return 0;
  }, count);
  const devtools = await browser.page.context().newCDPSession(browser.page);
  const heap = async () => {
    await devtools.send('HeapProfiler.collectGarbage');
    return (await devtools.send('Runtime.getHeapUsage')).usedSize;
  };
  // The memory is that of the GPU process without files; the first programs fill the driver's pools and
  // caches.
  const processes = await browser.page.context().browser().newBrowserCDPSession();
  const { id } = (await processes.send('SystemInfo.getProcessInfo')).processInfo.find(({ type }) => type === 'GPU');
  const status = `/proc/${id}/status`;
  if (!existsSync(status)) console.log(`skipped: there is no ${status} to see the memory of the GPU's process`);
  const gpu = () => (existsSync(status) ? 1024 * Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync(status, 'utf8'))[1]) : 0);
  assert.equal(await cycles(10), 0);
  const before = [await heap(), gpu()];
  assert.equal(await cycles(20), 0);
  const grown = [await heap() - before[0], gpu() - before[1]];
  assert.ok(grown[0] < 500_000, `the page has ${grown[0]} bytes more after 20 programs`);
  assert.ok(grown[1] < 8_000_000, `the GPU's process has ${grown[1]} bytes more after 20 programs`);
  // The browser reports this with a delay.
  for (let i = 0; i < 20 && browser.page.workers().length > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(browser.page.workers().length, 0);
});

test('tied parameters are one; a state that is put back goes on exactly', async () => {
  const seen = await inPage(async () => {
    class Tied extends g.Module {
      a = new g.Linear(1, 1, { bias: false, init: g.init.ones() });
      b = this.a;
      frozen = this.param([1], { init: g.init.constant(2), frozen: true });
    }
    const run = (m, { x, y }) => g.mean(g.square(g.sub(g.add(m.b.fwd(m.a.fwd(x)), m.frozen), y)));
    const train = await g.compile(spec({ model: new Tied(), loss: run, optimizer: { kind: 'adam', lr: g.lr.warmup({ peak: 0.1, steps: 4, after: 0.1 }) } }));
    const data = batch();
    const rate = await train.currentLR();
    await train.step(data);
    const state = await train.downloadState();
    const file = g.saveSafetensors(state.tensors, state.metadata);
    const after = [(await train.step(data)).loss, (await train.step(data)).loss];
    await train.uploadState(state);
    const again = [(await train.step(data)).loss, (await train.step(data)).loss];
    await train.uploadState(file);
    const fromFile = [(await train.step(data)).loss, (await train.step(data)).loss];
    await train.uploadParams({ b: { W: new Float32Array([3]) } }, { partial: true });
    const tree = await train.downloadParams();
    const names = train.paramNames;
    const flat = await train.downloadParams();
    await train.destroy();
    return { rate, after, again, names, tree: [tree['a.W'][0], tree['frozen'][0]], flat: Object.keys(flat), state: Object.entries(state.tensors).map(([name, { dtype }]) => `${name} ${dtype}`), metadata: state.metadata, fromFile };
  });
  assert.deepEqual(seen.names, ['a.W', 'frozen']);
  assert.deepEqual(seen.tree, [3, 2]);
  assert.deepEqual(seen.flat, ['a.W', 'frozen']);
  assert.ok(Math.abs(seen.rate - 0.025) < 1e-9, `${seen.rate}`);
  // The second step has another rate, which depends on the attempted steps.
  assert.deepEqual(seen.again, seen.after);
  assert.deepEqual(seen.fromFile, seen.after);
  assert.deepEqual(seen.metadata, { 'gradloom.state': '1', 'gradloom.attempted_steps': '1', 'gradloom.applied_steps': '1', 'gradloom.seed': '1' });
  assert.ok(seen.state.includes("optim.m.a.W f32"));
});
