// Each sample (samples/*.ts) is trained on the CPU to the result stated in its header. Needs dist/ (npm run
// build).

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';

const sample = (name) => import(`../../samples/dist/${name}.js`);

/** By name: a description of the sample, and a check of its stated result. */
const STATED = {
  sin: ['a curve is fitted', ({ furthest }) => furthest <= 0.04],
  spirals: ['97% of new points are put on their spiral', ({ accuracy }) => accuracy >= 0.97],
  addition: ['95% of sums that were not shown are right', ({ right }) => right >= 0.95],
  names: ['names that were kept back cost 2.3 nats a letter', ({ loss, invented }) => loss <= 2.3 && invented.length >= 20],
  cnn: ['96% of new drawings are read rightly', ({ accuracy }) => accuracy >= 0.96],
  vae: ['80% of what is drawn is like a digit', ({ likeDigits, different }) => likeDigits >= 0.8 && different >= 8],
  gan: ['75% of the points are in a heap, and all heaps have some', ({ inAHeap, least }) => inAHeap >= 0.75 && least >= 0.05],
  image: ['Fourier features reach 25 dB, 8 more than without', ({ plain, fine }) => fine >= 25 && fine >= plain + 8],
  flow: ['85% of the points end on a moon', ({ onAMoon }) => onAMoon >= 0.85],
  kan: ['the curves are those of the formula', ({ error, correlations }) => error <= 0.1 && correlations.every((c) => c >= 0.99)],
  cartpole: ['the pole is up for 190 of 200 moves', ({ moves }) => moves >= 190],
  tictactoe: ['2% of games are lost, none against itself', ({ lost, drawsItself }) => lost <= 0.02 && drawsItself],
  transformer: ['95% of new rows are sorted', ({ sorted }) => sorted >= 0.95],
  lstm: ['a hidden curve is continued', ({ error }) => error <= 0.1],
};

for (const [name, [result, isReached]] of Object.entries(STATED)) {
  test(`${name}: ${result}`, async () => {
    const seen = await (await sample(name)).run({ device: 'cpu' });
    const numbers = Object.entries(seen).filter(([, value]) => ['number', 'boolean'].includes(typeof value));
    assert.ok(isReached(seen), JSON.stringify(Object.fromEntries(numbers)));
  });
}

test('each takes a number of steps, and tells the loss of every one', async () => {
  for (const name of Object.keys(STATED)) {
    const losses = [];
    await (await sample(name)).run({
      device: 'cpu', steps: 3,
      onStep(step, loss) {
        assert.equal(step, losses.length, name);
        losses.push(loss);
      },
    });
    assert.equal(losses.length, 3, name);
    assert.ok(losses.every(Number.isFinite), `${name}: ${losses}`);
  }
});

test('no sample is left out', () => {
  const files = readdirSync(new URL('../../samples', import.meta.url)).filter((name) => name.endsWith('.ts'));
  assert.deepEqual(files.map((name) => name.replace('.ts', '')).sort(), Object.keys(STATED).sort());
});
