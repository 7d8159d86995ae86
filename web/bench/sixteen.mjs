// Times 16-bit values in comparison with f32, alternately, in a headless Chromium: uploads and downloads of a
// parameter, and reading safetensors. In: the built package. Out: a line of JSON for each operation and
// dtype: nanoseconds per element and the maximum time for which the page's thread was blocked, medians over
// the rounds; then the ratio to f32.
// Options: --rounds N (6), --elements N (16,777,216).

import { open, serve } from '../test/browser/chromium.mjs';

const args = process.argv.slice(2);
const option = (name, otherwise) => Number(args.includes(name) ? args[args.indexOf(name) + 1] : otherwise);
const [rounds, elements] = [option('--rounds', 6), option('--elements', 1 << 24)];
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

const server = await serve();
const seen = [];
for (let i = 0; i < rounds; i++) {
  const browser = await open(server.url, { gpu: false });
  seen.push(await browser.page.evaluate(async (elements) => {
    const g = await import('/dist/index.js');
    const values = Float32Array.from({ length: elements }, (_, i) => Math.sin(i));
    // Returns the maximum pause between turns of this thread, which are requested continuously.
    const timed = async (job) => {
      let [longest, ends] = [0, false];
      const { port1, port2 } = new MessageChannel();
      const turns = new Promise((resolve) => {
        let last = performance.now();
        port1.onmessage = () => {
          const now = performance.now();
          longest = Math.max(longest, now - last);
          last = now;
          if (ends) resolve();
          else port2.postMessage(null);
        };
        port2.postMessage(null);
      });
      const began = performance.now();
      const result = await job();
      const ms = performance.now() - began;
      ends = true;
      await turns;
      port1.close();
      return { ns: ms * 1e6 / elements, longest, result };
    };
    // A file of one tensor.
    const file = (dtype, bytes) => {
      const header = new TextEncoder().encode(JSON.stringify({ w: { dtype, shape: [elements], data_offsets: [0, bytes.byteLength] } }).padEnd(128));
      return new Blob([BigUint64Array.of(BigInt(header.length)), header, bytes]);
    };
    const bits = { F32: values, BF16: new Uint16Array(elements), F16: new Uint16Array(elements) };
    const words = new Uint32Array(values.buffer);
    for (let i = 0; i < elements; i++) {
      bits.BF16[i] = words[i] >>> 16;
      bits.F16[i] = ((words[i] >>> 16) & 0x8000) | Math.max(0, ((words[i] & 0x7fffffff) >>> 13) - (112 << 10));
    }
    const times = {};
    for (const dtype of ['f32', 'bf16', 'f16']) {
      class One extends g.Module {
        constructor() {
          super();
          this.w = this.param([elements], { dtype, init: g.init.zeros() });
        }
      }
      const model = await g.compileForward({ model: new One(), forward: (m) => g.sum(g.narrow(m.w, 0, 0, 1)), inputs: {}, device: 'cpu' });
      await model.uploadParams({ w: values });
      times[`upload ${dtype}`] = await timed(() => model.uploadParams({ w: values }));
      await model.downloadParams();
      times[`download ${dtype}`] = await timed(() => model.downloadParams());
      await model.destroy();
      const blob = file(dtype.toUpperCase(), bits[dtype.toUpperCase()]);
      const buffer = await blob.arrayBuffer();
      g.loadSafetensors(buffer);
      times[`loadSafetensors ${dtype}`] = await timed(() => g.loadSafetensors(buffer));
      times[`readSafetensors ${dtype}`] = await timed(() => g.readSafetensors(blob));
    }
    return Object.fromEntries(Object.entries(times).map(([name, { ns, longest }]) => [name, { ns, longest }]));
  }, elements));
  await browser.close();
}
await server.close();

const of = (name, what) => Math.round(100 * median(seen.map((times) => times[name][what]))) / 100;
for (const way of ['upload', 'download', 'loadSafetensors', 'readSafetensors']) {
  for (const dtype of ['f32', 'bf16', 'f16']) {
    const name = `${way} ${dtype}`;
    console.log(JSON.stringify({ way, dtype, ns_per_element: of(name, 'ns'), of_f32: Math.round(100 * of(name, 'ns') / of(`${way} f32`, 'ns')) / 100, longest_ms: of(name, 'longest') }));
  }
}
