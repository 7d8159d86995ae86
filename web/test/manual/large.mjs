// Values of a GiB and more in Node.js, through Dawn: a parameter of 1 GiB that is uploaded, computed with,
// trained and read back, and a training step of more than 4 GiB. Needs dist/ (npm run build), the npm package
// `webgpu`, and a GPU.
//
//     node test/manual/large.mjs [rows of the parameter, 16384]

import assert from 'node:assert/strict';
import * as g from '../../dist/index.js';

const K = Number(process.argv[2] ?? 16384);
const N = 16384;
const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(3)} GiB`;
const timed = async (name, work) => {
  const begin = performance.now();
  const result = await work();
  console.log(`${name}: ${((performance.now() - begin) / 1000).toFixed(2)} s`);
  return result;
};

class Wide extends g.Module {
  constructor() {
    super();
    this.W = this.param([K, N], { init: g.init.zeros() });
  }
}

/** Numbers to upload: a diagonal of row numbers, and one half near the end. */
const W = new Float32Array(K * N);
for (let i = 0; i < Math.min(K, N); i++) W[i * N + i] = i;
W[K * N - 2] = 0.5;
console.log(`a parameter of ${gib(W.byteLength)}`);

const forward = (m, { x }) => g.matmul(x, m.W);
const model = await timed('compiled', () => g.compileForward({ model: new Wide(), forward, inputs: { x: [1, K] }, device: 'webgpu' }));
await timed('uploaded', () => model.uploadParams({ W }));
const { output } = await timed('computed', () => model.run({ x: new Float32Array(K).fill(2) }));
[0, 1, Math.min(K, N) - 3].forEach((i) => assert.equal(output[i], 2 * i, `output ${i}`));
const { W: back } = await timed('read back', () => model.downloadParams());
assert.equal(back.findIndex((value, i) => value !== W[i]), -1);
await model.destroy();

// With the gradient and Adam's moments, it takes four times the parameter's memory.
const train = await timed('training compiled', () => g.compile({
  model: new Wide(), loss: (m, { x, y }) => g.mseLoss(g.matmul(x, m.W), y), inputs: { x: [1, K], y: [1, N] },
  optimizer: { kind: 'adam', lr: 0.01 }, device: 'webgpu',
}));
console.log(train.deviceName);
const batch = { x: new Float32Array(K).fill(1 / Math.sqrt(K)), y: new Float32Array(N).fill(1) };
const losses = [];
await timed('eight steps', async () => {
  for (let i = 0; i < 8; i++) {
    const step = await train.step(batch);
    assert.equal(step.kind, 'completed', `${step.error}`);
    losses.push(step.loss);
  }
});
console.log(`losses ${losses.map((loss) => loss.toFixed(4)).join(' ')}`);
assert.ok(losses[0] === 1 && losses.at(-1) < losses[0], `${losses}`);
const { counts } = await train.inspect();
console.log(JSON.stringify(counts));
await train.destroy();
console.log('done');
process.exit(0);
