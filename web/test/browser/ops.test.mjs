// The composed functions of ops.ts and the layers, in a browser, compared with numbers computed here. Needs
// dist/ (npm run build).

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, serve } from './chromium.mjs';

let server, browser, seen;
before(async () => {
  server = await serve();
  browser = await open(server.url);
  seen = await browser.page.evaluate(async () => {
    const g = await import('/dist/index.js');
    class M extends g.Module {
      norm = new g.LayerNorm(4);
      rms = new g.RMSNorm(4);
      table = this.param([3, 2], { init: g.init.literal(new Float32Array([1, 2, 3, 4, 5, 6])) });
      attention = new g.CausalSelfAttention(4, 2, { init: g.init.randn({ scale: 0.5 }) });
    }
    const infer = await g.compileForward({
      model: new M(), seed: 7, inputs: { x: [3, 4], s: [3, 3], i: { shape: [3], dtype: 'i32' }, t: [1, 3, 4] },
      forward: (m, { x, s, i, t }) => {
        const [left, right] = g.split(x, [1, 3], -1);
        const [q] = g.rope(g.reshape(x, [3, 4]), g.reshape(x, [3, 4]));
        const normal = g.randn([4096]);
        return {
          softmaxCausal: g.softmaxCausal(s), whereCausal: g.whereCausal(s, -5), softmax: g.softmax(x, 0), logSoftmax: g.logSoftmax(x),
          mean: g.mean(x), meanLast: g.mean(x, -1, { keepDims: true }), sum: g.sum(x, 0), argmax: g.argmax(x), argminLast: g.argmin(x, 1),
          less: g.where(g.less(x, 0), 1, 0), fromNumber: g.sub(1, x), divided: g.div(1, g.add(x, 100)), clamp: g.clamp(x, -1, 1), max: g.max(x, 0.5),
          leaky: g.leakyRelu(x), softplus: g.softplus(g.mul(x, 10)), gelu: g.gelu(x), left, right, concat: g.concat([right, left], -1),
          stack: g.stack([i, i], 1), heads: g.splitHeads(x, 2), merged: g.mergeHeads(g.splitHeads(x, 2)), swapped: g.swapAxes(x, 0, 1),
          oneHot: g.oneHot(i, 3), arange: g.arange(4), embedding: g.embedding(m.table, i), take: g.takeAlongAxis(x, g.reshape(i, [1, 3]).broadcastTo([2, 3]).transpose(0, 1), 1),
          takeFirst: g.takeAlongAxis(x, g.constant([2, 1, 0, 2], [1, 4], 'i32'), 0), ce: g.crossEntropy(x, i), ceSum: g.crossEntropy(x, i, { reduction: 'sum' }),
          nll: g.nllLoss(g.logSoftmax(x), i, { reduction: 'none' }), norm: m.norm.fwd(x), rms: m.rms.fwd(x), rope: q, flat: g.flatten(t, 1),
          normalMean: g.mean(normal), normalSquare: g.mean(g.square(normal)), drawn: g.categorical(g.constant([0, 50, 0, 50, 0, 0], [2, 3])),
          attended: m.attention.fwd(t), permuted: g.permute(t, [2, 0, -2]), dropped: g.dropout(x, 0.5),
        };
      },
    });
    const x = new Float32Array([1, -2, 3, 0.5, -0.25, 2, 0, 1, 4, -1, -3, 2]);
    const s = new Float32Array([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const run = () => infer.run({ x, s, i: new Int32Array([2, 0, 1]), t: x });
    const [first, second] = [await run(), await run()];
    const other = x.slice();
    other.set([9, 9, 9, 9], 8);
    const future = await infer.run({ x, s, i: new Int32Array([2, 0, 1]), t: other });
    if (first.kind !== 'completed') return { failed: first.error?.message };
    const out = Object.fromEntries(Object.entries(first.outputs).map(([name, data]) => [name, [...data]]));
    const result = { out, shapes: first.shapes, again: [...second.outputs.normalMean], future: [...future.outputs.attended] };
    await infer.destroy();
    return result;
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const X = [[1, -2, 3, 0.5], [-0.25, 2, 0, 1], [4, -1, -3, 2]];
const I = [2, 0, 1];
const near = (name, wanted, tolerance = 2e-6) => {
  const got = seen.out[name];
  assert.equal(got.length, wanted.length, name);
  got.forEach((v, i) => assert.ok(Math.abs(v - wanted[i]) <= tolerance * Math.max(1, Math.abs(wanted[i])), `${name}[${i}] is ${v}, not ${wanted[i]}`));
};
const each = (f) => X.flat().map(f);
const rows = (f) => X.flatMap(f);
const soft = (row) => { const e = row.map((v) => Math.exp(v - Math.max(...row))); const sum = e.reduce((a, b) => a + b); return e.map((v) => v / sum); };
const total = (row) => row.reduce((a, b) => a + b);

test('it ran', () => assert.equal(seen.failed, undefined));

test('softmax and masks', () => {
  const S = [[1, 2, 3], [4, 5, 6], [7, 8, 9]];
  near('softmaxCausal', S.flatMap((row, q) => { const p = soft(row.slice(0, q + 1)); return row.map((_, k) => p[k] ?? 0); }));
  near('whereCausal', S.flatMap((row, q) => row.map((v, k) => (k <= q ? v : -5))));
  const columns = [0, 1, 2, 3].map((c) => soft(X.map((row) => row[c])));
  near('softmax', X.flatMap((_, r) => columns.map((column) => column[r])));
  near('logSoftmax', rows((row) => soft(row).map(Math.log)));
});

test('reductions', () => {
  near('mean', [total(X.flat()) / 12]);
  near('meanLast', rows((row) => [total(row) / 4]));
  assert.deepEqual(seen.shapes.meanLast, [3, 1]);
  near('sum', [0, 1, 2, 3].map((c) => total(X.map((row) => row[c]))));
  near('argmax', [8]);
  near('argminLast', [1, 0, 2]);
});

test('elementwise, with numbers on either side', () => {
  near('less', each((v) => (v < 0 ? 1 : 0)));
  near('fromNumber', each((v) => 1 - v));
  near('divided', each((v) => 1 / (v + 100)));
  near('clamp', each((v) => Math.min(Math.max(v, -1), 1)));
  near('max', each((v) => Math.max(v, 0.5)));
  near('leaky', each((v) => (v > 0 ? v : 0.01 * v)));
  near('softplus', each((v) => Math.max(10 * v, 0) + Math.log1p(Math.exp(-Math.abs(10 * v)))));
});

test('shapes', () => {
  near('left', rows((row) => row.slice(0, 1)));
  near('right', rows((row) => row.slice(1)));
  near('concat', rows((row) => [...row.slice(1), row[0]]));
  near('stack', I.flatMap((i) => [i, i]));
  near('heads', [0, 1].flatMap((h) => rows((row) => row.slice(2 * h, 2 * h + 2))));
  near('merged', X.flat());
  near('swapped', [0, 1, 2, 3].flatMap((c) => X.map((row) => row[c])));
  assert.deepEqual([seen.shapes.heads, seen.shapes.flat, seen.shapes.permuted], [[2, 3, 2], [1, 12], [4, 1, 3]]);
});

test('indices', () => {
  near('oneHot', I.flatMap((i) => [0, 1, 2].map((k) => (k === i ? 1 : 0))));
  near('arange', [0, 1, 2, 3]);
  near('embedding', I.flatMap((i) => [2 * i + 1, 2 * i + 2]));
  near('take', X.flatMap((row, r) => [row[I[r]], row[I[r]]]));
  near('takeFirst', [X[2][0], X[1][1], X[0][2], X[2][3]]);
});

test('losses', () => {
  const losses = X.map((row, r) => -Math.log(soft(row)[I[r]]));
  near('nll', losses);
  near('ce', [total(losses) / 3]);
  near('ceSum', [total(losses)]);
});

test('layers', () => {
  near('norm', rows((row) => { const m = total(row) / 4; const v = total(row.map((x) => (x - m) ** 2)) / 4; return row.map((x) => (x - m) / Math.sqrt(v + 1e-5)); }), 1e-5);
  near('rms', rows((row) => { const v = total(row.map((x) => x * x)) / 4; return row.map((x) => x / Math.sqrt(v + 1e-6)); }), 1e-5);
  near('rope', X.flatMap((row, t) => {
    const angle = (i) => t * 10000 ** (-i / 2);
    const [c, s] = [[0, 1].map((i) => Math.cos(angle(i))), [0, 1].map((i) => Math.sin(angle(i)))];
    return [...[0, 1].map((i) => row[i] * c[i] - row[i + 2] * s[i]), ...[0, 1].map((i) => row[i + 2] * c[i] + row[i] * s[i])];
  }));
  // A later position does not affect earlier ones.
  assert.deepEqual(seen.future.slice(0, 8), seen.out.attended.slice(0, 8));
  assert.notDeepEqual(seen.future.slice(8), seen.out.attended.slice(8));
});

test('random numbers', () => {
  assert.ok(Math.abs(seen.out.normalMean[0]) < 0.06, `${seen.out.normalMean}`);
  assert.ok(Math.abs(seen.out.normalSquare[0] - 1) < 0.1, `${seen.out.normalSquare}`);
  assert.notEqual(seen.again[0], seen.out.normalMean[0]);
  near('drawn', [1, 0]);
  near('dropped', X.flat());
});
