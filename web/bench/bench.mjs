// Times training steps in a headless Chromium. In: the built package. Out: a line of JSON for each model:
// milliseconds from import to the first finished step, of compiling, of a step (median, with the loss read
// each time), and of the main thread's work; dispatches, passes, bytes.
// Options: --steps N (default 20), --model sine|addition|digits, --device webgpu|cpu.

import { open, serve } from '../test/browser/chromium.mjs';

const args = process.argv.slice(2);
const option = (name, otherwise) => (args.includes(name) ? args[args.indexOf(name) + 1] : otherwise);
const models = args.includes('--model') ? [option('--model')] : ['sine', 'addition', 'digits'];

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
    // The package's work on this thread during training: calls of `step`, and handling the worker's replies.
    const work = [];
    const timed = (job) => {
      const start = performance.now();
      const result = job();
      work.push(performance.now() - start);
      return result;
    };
    class Timed extends Worker {
      set onmessage(handle) {
        super.onmessage = handle && ((event) => timed(() => handle(event)));
      }
    }
    g.configure({ worker: () => new Timed('/dist/worker.js', { type: 'module' }) });
    const { spec, batch } = models[model](g);
    const train = await g.compile({ ...spec, device });
    const compiled = performance.now();
    const first = await train.step(batch);
    const ready = performance.now();
    work.length = 0;
    const times = [];
    let last = first;
    for (let i = 0; i < steps; i++) {
      const start = performance.now();
      last = await timed(() => train.step(batch));
      times.push(performance.now() - start);
    }
    const queue = performance.now();
    for (let i = 0; i + 1 < steps; i++) void timed(() => train.step(batch, { read: false }));
    await timed(() => train.step(batch));
    const queued = (performance.now() - queue) / steps;
    const { counts } = await train.inspect();
    await train.destroy();
    work.sort((a, b) => a - b);
    return {
      model, device: train.device, name: train.deviceName, import_to_first_step_ms: ready - began, compile_ms: compiled - began,
      step_ms: median(times), queued_step_ms: queued, main_thread_p99_ms: work[Math.floor(work.length * 0.99)], long_tasks: long,
      first_loss: first.loss, last_loss: last.loss, ...counts,
    };
  }, { model, steps: Number(option('--steps', '20')), device: option('--device', 'webgpu') });
  console.log(JSON.stringify(seen));
  await browser.close();
}
await server.close();
