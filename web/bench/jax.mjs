// Trains an MLP 784-512-512-10 on the CPU in comparison with jax-js' wasm, alternately, in a headless
// Chromium: each round uses a fresh browser for each library. In: the built package; jax-js, which is not a
// dependency:
//   npm install --no-save @jax-js/jax@0.1.25 && node bench/jax.mjs
// Out: for a page that is cross-origin isolated and one that is not, a line of JSON for each library: medians
// over the rounds of milliseconds from import to the first finished step and of a step (the median of its
// round, and the minimum, which a busy machine affects less; with a new batch each and the loss awaited), the
// losses of a round; then the speed of gradloom relative to jax-js. Both start with the same weights and use
// the same batches.
// Options: --rounds N (6), --steps N (30), --optimizer sgd|adam (sgd), --isolated yes|no (both), --cpu-wasm
// URL (gradloom's module: dist/.. of this folder; by default the page's choice).

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ISOLATED, open, serve } from '../test/browser/chromium.mjs';

const args = process.argv.slice(2);
const option = (name, otherwise) => (args.includes(name) ? args[args.indexOf(name) + 1] : otherwise);
const JAX = 'node_modules/@jax-js/jax/dist/index.js';
if (!existsSync(fileURLToPath(new URL(`../${JAX}`, import.meta.url)))) {
  console.error('jax-js is missing: npm install --no-save @jax-js/jax@0.1.25');
  process.exit(1);
}
const spec = { steps: Number(option('--steps', '30')), adam: option('--optimizer', 'sgd') === 'adam', cpuWasm: option('--cpu-wasm'), jax: `/${JAX}` };
const rounds = Number(option('--rounds', '6'));
const pages = { no: {}, yes: ISOLATED };

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const round = (x) => Math.round(x * 100) / 100;

for (const isolated of args.includes('--isolated') ? [option('--isolated')] : ['no', 'yes']) {
  const server = await serve(undefined, pages[isolated]);
  const seen = { gradloom: [], jax: [] };
  for (let i = 0; i < rounds; i++) {
    for (const library of ['gradloom', 'jax']) {
      const browser = await open(server.url, { gpu: false });
      seen[library].push(await browser.page.evaluate(async ([library, spec]) => (await import('/bench/mlp.js')).run(library, spec), [library, spec]));
      await browser.close();
    }
  }
  await server.close();
  const of = (library, name) => round(median(seen[library].map((result) => result[name])));
  for (const library of ['gradloom', 'jax']) {
    console.log(JSON.stringify({
      library, isolated, rounds, first_ms: of(library, 'first'), step_ms: of(library, 'step'), least_ms: of(library, 'least'),
      steps_ms: seen[library].map(({ step }) => round(step)), firsts_ms: seen[library].map(({ first }) => round(first)),
      losses: seen[library][0].losses.map((loss) => Number(loss.toPrecision(6))),
    }));
  }
  const apart = Math.max(...seen.gradloom[0].losses.map((loss, i) => Math.abs(loss - seen.jax[0].losses[i])));
  console.log(JSON.stringify({
    isolated, optimizer: spec.adam ? 'adam' : 'sgd', step_speed: round(of('jax', 'step') / of('gradloom', 'step')), least_speed: round(of('jax', 'least') / of('gradloom', 'least')),
    first_speed: round(of('jax', 'first') / of('gradloom', 'first')), losses_apart: apart,
  }));
  if (!(apart < 1e-3)) throw new Error('the losses differ');
}
