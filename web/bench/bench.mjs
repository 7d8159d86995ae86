// Times training steps in a headless Chromium. In: the built package. Out: a line of JSON for each model: milliseconds from import to the first finished
// step, of compiling, of a step (median, loss read each time), of the main thread's work; dispatches, passes, bytes.
// Options: --steps N (default 20), --model sine|addition, --device webgpu|cpu.

import { open, serve } from '../test/browser/chromium.mjs';

const args = process.argv.slice(2);
const option = (name, otherwise) => (args.includes(name) ? args[args.indexOf(name) + 1] : otherwise);
const models = args.includes('--model') ? [option('--model')] : ['sine', 'addition'];

const server = await serve();
for (const model of models) {
  const browser = await open(server.url);
  const seen = await browser.page.evaluate(async ({ model, steps, device }) => {
    const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
    const long = [];
    new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration))).observe({ entryTypes: ['longtask'] });
    const models = await import('/bench/models.js');
    const began = performance.now();
    const g = await import('/dist/index.js');
    const { spec, batch } = models[model](g);
    const train = await g.compile({ ...spec, device });
    const compiled = performance.now();
    const first = await train.step(batch);
    const ready = performance.now();
    const [times, calls] = [[], []];
    let last = first;
    for (let i = 0; i < steps; i++) {
      const start = performance.now();
      const step = train.step(batch);
      calls.push(performance.now() - start);
      last = await step;
      times.push(performance.now() - start);
    }
    const queue = performance.now();
    for (let i = 0; i + 1 < steps; i++) void train.step(batch, { read: false });
    await train.step(batch);
    const queued = (performance.now() - queue) / steps;
    const { counts } = await train.inspect();
    await train.destroy();
    calls.sort((a, b) => a - b);
    return {
      model, device: train.device, name: train.deviceName, import_to_first_step_ms: ready - began, compile_ms: compiled - began,
      step_ms: median(times), queued_step_ms: queued, main_thread_p99_ms: calls[Math.floor(calls.length * 0.99)], long_tasks: long,
      first_loss: first.loss, last_loss: last.loss, ...counts,
    };
  }, { model, steps: Number(option('--steps', '20')), device: option('--device', 'webgpu') });
  console.log(JSON.stringify(seen));
  await browser.close();
}
await server.close();
