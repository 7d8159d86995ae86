// A browser without WebGPU: the same programs run in the CPU's module. Needs dist/ (npm run build).

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, serve } from './chromium.mjs';

let server, browser;
before(async () => {
  server = await serve();
  browser = await open(server.url, { gpu: false });
  await load(browser);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const load = ({ page }) => page.evaluate(async () => {
  const [g, mlp] = [await import('/dist/index.js'), await import('/test/browser/mlp.js')];
  Object.assign(globalThis, { g, ...mlp });
});
const inPage = (f, arg) => browser.page.evaluate(f, arg);

test('it is told why there is no WebGPU, and what can be done', async () => {
  const status = await inPage(() => g.checkWebGPU());
  assert.equal(status.ok, false);
  assert.equal(status.reason, 'no-adapter');
  assert.match(status.message, /no adapter/);
  assert.match(status.help, /device: 'cpu'/);

  // A caller that requests only WebGPU gets the error.
  const error = await inPage(() => g.compile({ ...sine(g).spec, device: 'webgpu' }).catch(({ kind, message }) => ({ kind, message })));
  assert.equal(error.kind, 'unsupported');
  assert.match(error.message, /adapter/);
});

test("'auto' takes the CPU, trains the sine from 0.5 below 0.01, and nothing is left", async () => {
  const seen = await inPage(async () => {
    const { spec, forward, batch } = sine(g);
    const train = await g.compile(spec);
    const infer = await train.attach({ forward, inputs: { x: [null, 1] } });
    const first = await train.step(batch);
    const all = await Promise.all(Array.from({ length: 500 }, () => train.step(batch)));
    const at = (values) => infer.run({ x: Float32Array.from(values) });
    const [one, three] = [await at([0.5]), await at([-1, 0, 1])];

    // The runs use the current parameters: y is the last bias if the last weights are 0.
    const params = await train.downloadParams();
    await train.uploadParams({ l3: { W: new Float32Array(32), b: new Float32Array([3]) } }, { partial: true });
    const constant = (await at([0.5])).output[0];
    const queued = await train.step(batch, { read: false });

    const pending = [train.step(batch), train.step(batch), infer.run({ x: new Float32Array(1) })];
    const end = await train.destroy();
    return {
      device: train.device, name: train.deviceName, first: first.loss, kinds: [...new Set(all.map(({ kind }) => kind))], last: all.at(-1).loss,
      one: [...one.output], three: [...three.output], shape: params['l2.W'].length, constant, queued: queued.kind,
      pending: await Promise.all(pending.map((step) => step.then(({ kind }) => kind))), end,
      after: [(await train.step(batch)).kind, (await infer.run({ x: new Float32Array(1) })).kind], left: train.pending,
    };
  });
  assert.deepEqual([seen.device, seen.name], ['cpu', 'CPU']);
  assert.deepEqual(seen.kinds, ['completed']);
  assert.ok(seen.first > 0.2 && seen.last < 0.01, `${seen.first} to ${seen.last}`);
  [[seen.one[0], 0.5], ...seen.three.map((y, i) => [y, i - 1])].forEach(([y, x]) => assert.ok(Math.abs(y - Math.sin(x)) < 0.2, `${y} at ${x}`));
  assert.equal(seen.shape, 32 * 32);
  assert.equal(seen.constant, 3);
  assert.equal(seen.queued, 'queued');
  assert.deepEqual(seen.pending, ['aborted', 'aborted', 'aborted']);
  assert.deepEqual([seen.end.sessions, seen.end.programs, seen.end.liveBuffers], [0, 0, 0]);
  assert.deepEqual(seen.after, ['aborted', 'aborted']);
  assert.equal(seen.left, 0);

  // The browser reports this with a delay.
  for (let i = 0; i < 20 && browser.page.workers().length > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(browser.page.workers().length, 0);
});

test('losses and parameters are those of the GPU, within 1e-4', async () => {
  const STEPS = 10;
  const other = await open(server.url);
  try {
    await load(other);
    const gpu = await other.page.evaluate((steps) => fewSteps(g, 'webgpu', steps), STEPS);
    const cpu = await inPage((steps) => fewSteps(g, 'cpu', steps), STEPS);
    assert.equal(cpu.losses.length, STEPS);
    assert.ok(cpu.losses.at(-1) < cpu.losses[0]);
    near('losses', cpu.losses, gpu.losses);
    assert.deepEqual(Object.keys(cpu.params), ['l1.W', 'l1.b', 'l2.W', 'l2.b', 'l3.W', 'l3.b']);
    for (const [name, values] of Object.entries(cpu.params)) near(name, values, gpu.params[name]);
  } finally {
    await other.close();
  }
});

test('fused loops are compiled to WebAssembly, once each, with the bits of the interpreter', async () => {
  const run = (worker) => inPage(async (worker) => {
    const channel = new BroadcastChannel('loops');
    const counted = () => new Promise((resolve) => {
      channel.onmessage = ({ data }) => resolve(data);
      channel.postMessage('count');
    });
    const { LayerNorm, Linear, Module, compile, configure, gelu, init, mean, square, sub } = g;
    configure({ worker: () => new Worker(worker, { type: 'module' }) });
    // These are row reductions, functions with long formulas, and widths that are not multiples of four.
    class Model extends Module {
      l1 = new Linear(3, 301, { init: init.fanIn() });
      norm = new LayerNorm(301);
      l2 = new Linear(301, 1, { init: init.fanIn() });
    }
    const spec = {
      model: new Model(), seed: 3, device: 'cpu', inputs: { x: [7, 3], y: [7, 1] }, optimizer: { kind: 'adam', lr: 0.01 },
      loss: (m, { x, y }) => mean(square(sub(m.l2.fwd(gelu(m.norm.fwd(m.l1.fwd(x)))), y))),
    };
    const train = await compile(spec);
    const batch = { x: Float32Array.from({ length: 21 }, (_, i) => Math.sin(i)), y: Float32Array.from({ length: 7 }, (_, i) => Math.cos(i)) };
    const losses = [];
    for (let step = 0; step < 20; step++) losses.push((await train.step(batch)).loss);
    const { asked, made } = await counted();
    await train.destroy();
    configure({ worker: undefined });
    channel.close();
    return { losses, asked, made };
  }, worker);
  const [compiled, interpreted] = [await run('/test/browser/counting-worker.js'), await run('/test/browser/counting-worker.js?refuse')];
  assert.ok(compiled.made >= 5 && compiled.made === compiled.asked, JSON.stringify(compiled));
  assert.equal(interpreted.made, 0);
  assert.ok(interpreted.asked > 0);
  assert.ok(compiled.losses.at(-1) < compiled.losses[0]);
  assert.deepEqual(compiled.losses, interpreted.losses);
});

function near(name, seen, wanted) {
  assert.equal(seen.length, wanted.length);
  const apart = Math.max(...seen.map((value, i) => Math.abs(value - wanted[i])));
  // Not `>`, so that NaN fails too.
  assert.ok(apart <= 1e-4, `${name}: ${apart} apart`);
}
