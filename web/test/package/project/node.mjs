// Learns a sine in Node.js, and prints the result. The process ends by itself.
import { compile, Linear, Module, mean, relu, square, sub } from 'gradloom';

class MLP extends Module {
  l1 = new Linear(1, 64);
  l2 = new Linear(64, 64);
  l3 = new Linear(64, 1);
}

const train = await compile({
  model: new MLP(), seed: 1, inputs: { x: [256, 1], y: [256, 1] }, optimizer: { kind: 'adam', lr: 0.005 },
  loss: (m, { x, y }) => mean(square(sub(m.l3.fwd(relu(m.l2.fwd(relu(m.l1.fwd(x))))), y))),
});
const x = Float32Array.from({ length: 256 }, (_, i) => (i / 255 * 2 - 1) * Math.PI);
const losses = [];
for (let step = 0; step < 20; step++) {
  const r = await train.step({ x, y: x.map(Math.sin) });
  if (r.kind !== 'completed') throw r.error;
  losses.push(r.loss);
}
const refused = await compile({ model: new MLP(), loss: (m, { x }) => mean(m.l1.fwd(x)), inputs: { x: [1, 1] }, optimizer: { kind: 'sgd', lr: 1 }, device: 'webgpu' })
  .then(() => '', (error) => error.message);
console.log(JSON.stringify({ losses, device: train.device, refused }));
