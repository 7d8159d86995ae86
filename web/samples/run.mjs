// Runs a sample in Node.js: node samples/run.mjs NAME [STEPS] [DEVICE]. Needs dist/ (npm run build).

import { readdirSync } from 'node:fs';
import { inspect } from 'node:util';

const [name = 'sin', steps, device = 'auto'] = process.argv.slice(2);
const samples = readdirSync(new URL('.', import.meta.url)).flatMap((file) => /^(.+)\.ts$/.exec(file)?.[1] ?? []);
if (!samples.includes(name)) {
  console.error(`there is no sample '${name}': ${samples.join(', ')}`);
  process.exit(1);
}
const { run } = await import(`./dist/${name}.js`);
const begin = performance.now();
let shown = 0;
const result = await run({
  device, steps: Number(steps) || undefined,
  onStep(step, loss) {
    if (step > 0 && performance.now() - shown < 1000) return;
    shown = performance.now();
    console.log(`step ${String(step).padStart(5)}  loss ${loss.toFixed(4)}`);
  },
});
console.log(inspect(result, { maxArrayLength: 4, breakLength: 110, compact: 4 }));
console.log(`${((performance.now() - begin) / 1000).toFixed(1)} s`);
