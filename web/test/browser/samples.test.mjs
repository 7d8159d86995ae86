// Some of the samples in a page, on WebGPU: they reach the same results as on the CPU
// (test/samples/samples.test.mjs has all of them). SwiftShader is slow, so these are the small ones. Needs
// dist/ (npm run build).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { opened } from './chromium.mjs';

const here = opened();

/** Trains a sample in the page; returns its result, and the losses of the first and the last step. */
const trained = (name, steps) => here.page.evaluate(async ({ name, steps }) => {
  const { run } = await import(`/samples/dist/${name}.js`);
  const losses = [];
  const result = await run({ device: 'webgpu', steps, onStep: (_, loss) => losses.push(loss) });
  return { ...result, first: losses[0], last: losses.at(-1) };
}, { name, steps });

test('sin: a curve is fitted', async () => {
  const { furthest } = await trained('sin');
  assert.ok(furthest <= 0.04, `${furthest}`);
});

test('spirals: 97% of new points are put on their spiral', async () => {
  const { accuracy } = await trained('spirals');
  assert.ok(accuracy >= 0.97, `${accuracy}`);
});

test('kan: the curves are those of the formula', async () => {
  const { correlations } = await trained('kan', 500);
  assert.ok(correlations.every((c) => c >= 0.98), `${correlations}`);
});

test('gan: the made points spread', async () => {
  const { first, last, inAHeap } = await trained('gan', 100);
  assert.ok(Math.abs(last - first) < 1 && inAHeap > 0.02, `${first} to ${last}, ${inAHeap}`);
});

test('lstm: the loss falls', async () => {
  const { first, last } = await trained('lstm', 15);
  assert.ok(last < 0.7 * first, `${first} to ${last}`);
});

test('vae: the loss falls, and digits are drawn', async () => {
  const { first, last, likeDigits } = await trained('vae', 150);
  assert.ok(last < 0.5 * first && likeDigits > 0.1, `${first} to ${last}, ${likeDigits}`);
});
