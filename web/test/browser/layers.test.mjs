// Convolutions, pooling, recurrent layers and options in a browser, compared with explicit sums. Needs dist/
// (npm run build).

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, serve } from './chromium.mjs';

let server, browser, seen;
before(async () => {
  server = await serve();
  browser = await open(server.url);
  seen = await browser.page.evaluate(async () => {
    const g = await import('/dist/index.js');
    const numbers = (count, step) => Float32Array.from({ length: count }, (_, i) => ((i * step) % 11) / 5 - 1);
    const literal = (values) => ({ init: g.init.literal(values) });
    class M extends g.Module {
      conv = new g.Conv2d(2, 3, [2, 3], { padding: [0, 1], stride: [1, 2], ...literal(numbers(36, 5)) });
      up = new g.ConvTranspose2d(2, 1, 2, { stride: 2, bias: false, ...literal(numbers(8, 3)) });
      norm = new g.GroupNorm(1, 2);
      lstm = new g.LSTM(4, 3);
      gru = new g.GRU(4, 3);
    }
    const model = new M();
    const infer = await g.compileForward({
      model, seed: 3, inputs: { x: [1, 2, 4, 4], i: { shape: [4], dtype: 'i32' } },
      forward: (m, { x, i }) => {
        const rows = g.reshape(x, [2, 4, 4]);
        return {
          conv: m.conv.fwd(x), up: m.up.fwd(x), norm: m.norm.fwd(x), lstm: m.lstm.fwd(rows), gru: m.gru.fwd(rows),
          max: g.maxPool2d(x, 2), maxOverlapping: g.maxPool2d(x, 3, { stride: 1, padding: 1 }), avg: g.avgPool2d(x, [2, 4]),
          einsum: g.einsum('bij,bkj->ik', [rows, rows]), atan: g.atan(x), std: g.std(x), norms: g.normAxes(x, [2, 3]),
          smoothed: g.crossEntropyWith(g.reshape(x, [8, 4]).slice(0, [0, 4]), i, { labelSmoothing: 0.1, ignoreIndex: -1 }),
          sums: g.cumsum(x, -1), sorted: g.sort(g.flatten(x)), order: g.argsortDescending(x), top: g.topK(x, 2).values,
          put: g.scatter(x, g.mul(g.cast(g.gt(x, 0), 'i32'), 3), x, -1), sine: g.sin(g.mul(x, 1e9)),
          windowed: g.attention(x, x, x, { causal: true, window: 2, scale: 1 }),
          chunk: g.chunk(x, 3, -1)[1], grid: g.meshgrid([g.arange(2), g.arange(3)])[1], nearest: g.nearestUpsample2d(x, 2),
        };
      },
    });
    const x = numbers(32, 7);
    const ran = await infer.run({ x, i: new Int32Array([2, -1, 0, 1]) });
    if (ran.kind !== 'completed') return { failed: ran.error?.message };
    const out = Object.fromEntries(Object.entries(ran.outputs).map(([name, data]) => [name, [...data]]));
    await infer.destroy();
    let refused;
    try {
      await g.compileForward({ model, inputs: { x: [1, 2, 4, 4] }, forward: (m, { x }) => ({ y: g.maxPool2d(x, 2, { strides: 2 }) }) });
    } catch (error) {
      refused = error.message;
    }
    class Cnn extends g.Module {
      conv = new g.Conv2d(1, 4, 3, { padding: 1 });
      out = new g.Linear(4 * 4 * 4, 2);
    }
    const train = await g.compile({
      model: new Cnn(), seed: 1, inputs: { x: [4, 1, 8, 8], t: { shape: [4], dtype: 'i32' } },
      optimizer: { kind: 'lion', lr: g.lr.exponential({ peak: 0.01, gamma: 0.99 }) },
      loss: (m, { x, t }) => g.crossEntropy(m.out.fwd(g.reshape(g.maxPool2d(g.relu(m.conv.fwd(x)), 2), [4, 64])), t),
    });
    const losses = [];
    const batch = { x: numbers(256, 7), t: new Int32Array([0, 1, 0, 1]) };
    for (let step = 0; step < 60; step++) losses.push((await train.step(batch)).loss);
    await train.destroy();
    const sums = async (options, rows) => {
      class W extends g.Module { w = this.param([3], { init: g.init.ones() }); }
      const run = await g.compile({
        model: new W(), seed: 1, inputs: { x: [rows, 3] }, loss: (m, { x }) => g.mean(g.sumAxes(g.mul(x, m.w), 1)), ...options,
      });
      const result = await run.step({ x: numbers(12, 7) });
      const { w } = await run.downloadParams();
      const names = Object.keys((await run.downloadState()).tensors);
      await run.destroy();
      return { loss: result.loss, w: [...(w.data ?? w)], names };
    };
    const sgd = (more) => ({ optimizer: { kind: 'sgd', lr: 1, ...more } });
    const trained = {
      whole: await sums(sgd(), 4), parts: await sums({ ...sgd(), accumulate: 2 }, 2),
      clipped: await sums(sgd({ clipGradValue: 0.01 }), 4), normalized: await sums(sgd({ normalizeGrads: (name) => name === 'w' }), 4),
      averaged: await sums({ ...sgd(), averageDecay: 0.9 }, 4),
      none: await sums(sgd({ normalizeGrads: () => false }), 4).catch((error) => error.message),
    };
    return { trained, out, x: [...x], weights: [...numbers(36, 5)], up: [...numbers(8, 3)], shapes: ran.shapes, refused, losses };
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const near = (name, wanted, tolerance = 1e-5) => {
  const got = seen.out[name];
  assert.equal(got.length, wanted.length, name);
  got.forEach((v, i) => assert.ok(Math.abs(v - wanted[i]) <= tolerance * Math.max(1, Math.abs(wanted[i])), `${name}[${i}] is ${v}, not ${wanted[i]}`));
};
const X = (c, r, k) => (r < 0 || r > 3 || k < 0 || k > 3 ? 0 : seen.x[c * 16 + r * 4 + k]);
const range = (n) => Array.from({ length: n }, (_, i) => i);
const sum = (values) => values.reduce((a, b) => a + b, 0);

test('it ran', () => assert.equal(seen.failed, undefined));

test('convolutions are sums of what the weights see', () => {
  // There are 3 outputs of 3 x 2 positions; the bias is initially zero.
  near('conv', range(3).flatMap((o) => range(3).flatMap((r) => range(2).map((k) =>
    sum(range(2).flatMap((c) => range(2).flatMap((a) => range(3).map((b) =>
      seen.weights[o * 12 + c * 6 + a * 3 + b] * X(c, r + a, 2 * k + b - 1)))))))));
  assert.deepEqual(seen.shapes.conv, [1, 3, 3, 2]);
  near('up', range(8).flatMap((r) => range(8).map((k) =>
    sum(range(2).map((c) => seen.up[c * 4 + (r % 2) * 2 + (k % 2)] * X(c, r >> 1, k >> 1))))));
});

test('pools', () => {
  const largest = (c, rows, columns) => Math.max(...rows.flatMap((r) => columns.filter((k) => k in [0, 0, 0, 0]).map((k) => X(c, r, k))));
  near('max', range(2).flatMap((c) => [0, 2].flatMap((r) => [0, 2].map((k) => largest(c, [r, r + 1], [k, k + 1])))));
  const inside = (i) => [i - 1, i, i + 1].filter((j) => j >= 0 && j < 4);
  near('maxOverlapping', range(2).flatMap((c) => range(4).flatMap((r) => range(4).map((k) => largest(c, inside(r), inside(k))))));
  near('avg', range(2).flatMap((c) => [0, 2].map((r) => sum([r, r + 1].flatMap((a) => range(4).map((k) => X(c, a, k)))) / 8)));
});

test('functions with options, texts and lists', () => {
  near('einsum', range(4).flatMap((i) => range(4).map((k) => sum(range(2).flatMap((b) => range(4).map((j) => X(b, i, j) * X(b, k, j)))))));
  near('atan', seen.x.map(Math.atan));
  const mean = sum(seen.x) / 32;
  near('std', [Math.sqrt(sum(seen.x.map((v) => (v - mean) ** 2)) / 31)]);
  near('norms', range(2).map((c) => Math.hypot(...seen.x.slice(c * 16, c * 16 + 16))));
  const loss = (row, t) => {
    const logs = row.map((v) => v - Math.log(sum(row.map(Math.exp))));
    return -0.9 * logs[t] - 0.1 * (sum(logs) / 4);
  };
  near('smoothed', [(loss(seen.x.slice(0, 4), 2) + loss(seen.x.slice(8, 12), 0) + loss(seen.x.slice(12, 16), 1)) / 3]);
  near('chunk', range(2).flatMap((c) => range(4).flatMap((r) => [X(c, r, 2), X(c, r, 3)])));
  near('grid', [0, 1, 2, 0, 1, 2]);
  near('nearest', range(2).flatMap((c) => range(8).flatMap((r) => range(8).map((k) => X(c, r >> 1, k >> 1)))));
  assert.match(seen.refused, /has no option .strides.\n.*did you mean .stride./);
});

test('layers', () => {
  const mean = sum(seen.x) / 32;
  const deviation = Math.sqrt(sum(seen.x.map((v) => (v - mean) ** 2)) / 32 + 1e-5);
  near('norm', seen.x.map((v) => (v - mean) / deviation));
  assert.deepEqual([seen.shapes.lstm, seen.shapes.gru], [[2, 4, 3], [2, 4, 3]]);
  assert.ok([...seen.out.lstm, ...seen.out.gru].every((v) => Math.abs(v) < 1 && v !== 0));
});

test('rows in order, sums along rows, windows of attention', () => {
  const rows = range(8).map((r) => seen.x.slice(r * 4, r * 4 + 4));
  near('sums', rows.flatMap((row) => row.map((_, i) => sum(row.slice(0, i + 1)))));
  near('sorted', [...seen.x].sort((a, b) => a - b));
  const order = (row) => range(4).sort((a, b) => row[b] - row[a] || a - b);
  near('order', rows.flatMap(order));
  near('top', rows.flatMap((row) => order(row).slice(0, 2).map((i) => row[i])));
  near('put', rows.flatMap((row) => {
    const put = [...row];
    row.forEach((v) => { put[v > 0 ? 3 : 0] = v; });
    return put;
  }));
  near('sine', seen.x.map((v) => Math.sin(Math.fround(v * 1e9))));
  near('windowed', rows.flatMap((row, r) => {
    const keys = r % 4 === 0 ? [row] : [rows[r - 1], row];
    const weights = keys.map((key) => Math.exp(sum(key.map((v, i) => v * row[i]))));
    return range(4).map((i) => sum(keys.map((key, k) => (weights[k] / sum(weights)) * key[i])));
  }));
});

test('what a training program can vary', () => {
  const { whole, parts, clipped, normalized, averaged, none } = seen.trained;
  const gradient = whole.w.map((w) => 1 - w);
  assert.ok(Math.abs(whole.loss - parts.loss) < 1e-6);
  parts.w.forEach((w, i) => assert.ok(Math.abs(w - whole.w[i]) < 1e-6));
  clipped.w.forEach((w, i) => assert.ok(Math.abs(1 - w - Math.max(-0.01, Math.min(0.01, gradient[i]))) < 1e-6));
  normalized.w.forEach((w, i) => assert.ok(Math.abs(1 - w - gradient[i] / Math.hypot(...gradient)) < 1e-5));
  assert.ok(averaged.names.some((name) => name === 'optim.average.w'), averaged.names.join());
  assert.match(none, /normalizeGrads chose no parameter/);
});

test('a network of convolutions learns', () => {
  assert.ok(seen.losses.at(-1) < 0.5 * seen.losses[0], `${seen.losses[0]} to ${seen.losses.at(-1)}`);
});
