// Times the creation of each pipeline of a model's step, one after the other, in a headless Chromium, where
// it is most of the compile time. In: the built package. Out: a line for each kernel: milliseconds (the
// median of three browsers), characters, label; then the sum.
// Options: --model sine|addition.

import { open, serve } from '../test/browser/chromium.mjs';

const args = process.argv.slice(2);
const model = args.includes('--model') ? args[args.indexOf('--model') + 1] : 'sine';

const server = await serve();
const runs = [];
for (let run = 0; run < 3; run++) {
  const browser = await open(server.url);
  runs.push(await browser.page.evaluate(async (model) => {
    const g = await import('/dist/index.js');
    const { spec } = (await import('/bench/models.js'))[model](g);
    const train = await g.compile({ ...spec, device: 'webgpu' });
    const { kernels } = await train.inspect();
    await train.destroy();
    const adapter = await navigator.gpu.requestAdapter();
    const names = ['maxStorageBuffersPerShaderStage', 'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupStorageSize'];
    const device = await adapter.requestDevice({ requiredLimits: Object.fromEntries(names.map((name) => [name, adapter.limits[name]])) });
    const make = async (code) => {
      const module = device.createShaderModule({ code });
      await module.getCompilationInfo();
      const began = performance.now();
      await device.createComputePipelineAsync({ layout: 'auto', compute: { module } });
      return performance.now() - began;
    };
    // The first pipeline also starts the driver's compiler.
    await make('@compute @workgroup_size(1) fn main() {}');
    const times = [];
    for (const [source, label] of new Map(kernels.map(({ source, label }) => [source, label]))) times.push({ label, characters: source.length, ms: await make(source) });
    return times;
  }, model));
  await browser.close();
}
await server.close();

let sum = 0;
runs[0].forEach(({ label, characters }, i) => {
  const ms = runs.map((times) => times[i].ms).sort((a, b) => a - b)[1];
  sum += ms;
  console.log(`${ms.toFixed(1).padStart(7)} ms ${String(characters).padStart(6)}  ${label}`);
});
console.log(`${sum.toFixed(1).padStart(7)} ms in all`);
