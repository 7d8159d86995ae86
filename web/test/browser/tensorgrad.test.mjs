// Programs in the style of tensorgrad 0.4.6 (test/programs, whose types `npm run check` checks): they train
// in a browser to the results stated here. They keep its style; samples/ have ours. Needs dist/ (npm run
// build).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { opened } from './chromium.mjs';

const here = opened();

/** Runs a program in the page. */
async function run(name) {
  const { outputFiles: [file] } = await build({
    entryPoints: [fileURLToPath(new URL(`../programs/${name}.ts`, import.meta.url))], bundle: true, format: 'esm', target: 'es2022', write: false,
    external: ['gradloom'],
  });
  const begin = performance.now();
  const seen = await here.page.evaluate(async (text) => {
    const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
    return (await import(url)).run();
  }, file.text);
  console.log(`${name}: ${Math.round(performance.now() - begin)} ms`);
  return seen;
}

test('a sine: the loss goes below 0.005', async () => {
  const { losses, at } = await run('sine');
  assert.ok(losses[0] > 0.3 && losses.at(-1) < 0.005, `${losses[0]} to ${losses.at(-1)}`);
  [-1, 0.5, 2].forEach((x, i) => assert.ok(Math.abs(at[i] - Math.sin(x)) < 0.15, `${at[i]} at ${x}`));
});

test('sums of digits: a causal transformer is right nine times in ten', async () => {
  const seen = await run('adder');
  assert.ok(seen.right > 0.9 && seen.loss < 0.3, `${seen.right}, ${seen.loss}`);
  assert.deepEqual(seen.names, ['attn.0']);
  assert.deepEqual(seen.shape, [32, 4, 6, 6]);
  assert.equal(seen.heads, 32 * 4);
  // The first query attends only to itself.
  assert.deepEqual(seen.first, [1, 0, 0, 0, 0, 0]);
});

test('stripes: a convolutional network knows them all', async () => {
  const { first, last, right } = await run('stripes');
  assert.ok(first > 0.9 && last < 0.1, `${first} to ${last}`);
  assert.equal(right, 1);
});

test('bumps: an autoencoder with noise halves its loss, and its decoder draws', async () => {
  const { first, last, distinct, output } = await run('vae');
  assert.ok(first > 10 && last < 0.5 * first, `${first} to ${last}`);
  // Each step has its own noise.
  assert.ok(distinct > 480, `${distinct}`);
  assert.equal(output.length, 48);
  assert.ok(output.every((p) => p >= 0 && p <= 1) && Math.max(...output) > 0.5 && Math.min(...output) < 0.1, `${output}`);
});

test('a bandit: the policy takes the arm that pays', async () => {
  const { first, last } = await run('bandit');
  assert.ok(first < 0.5 && last > 0.9, `${first} to ${last}`);
});

test('reset, rates, replacing, up and down', async () => {
  const seen = await run('handles');
  assert.ok(seen.learnt < 0.2 && seen.right > 0.9, `${seen.learnt}, ${seen.right}`);
  assert.deepEqual([seen.reset, seen.moved, seen.unmoved], [true, true, true]);
  assert.equal(seen.firstAgain, seen.first);
  // These are the parameters after the last step, whose loss was measured before its update.
  assert.ok(Math.abs(seen.still - seen.learnt) < 0.02, `${seen.still}, ${seen.learnt}`);
  assert.equal(seen.wide, 32);
  assert.ok(seen.replaced < 0.2 && seen.rightAgain > 0.9, `${seen.replaced}, ${seen.rightAgain}`);
  assert.deepEqual(seen.flights, ['completed', 'aborted', 'completed']);
  assert.match(seen.partial, /3 parameters are missing/);
  assert.equal(seen.pending, 'aborted');
  assert.deepEqual(seen.names, ['l1.W', 'l1.b', 'l2.W', 'l2.b']);
  assert.equal(seen.seed, 12);
});

test('rings: frozen features stay, the rest learns', async () => {
  const { first, last, kept } = await run('frozen');
  assert.ok(first > 0.2 && last < 0.02, `${first} to ${last}`);
  assert.deepEqual(kept, ['frequencies', 'fixed.W', 'fixed.b']);
});
