// Which of three spirals is a point on? A small network draws the borders between them.
//
// The result: at least 97% of 900 points that were not trained on are put on their spiral.

import { compile, init, Linear, Module, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, generator, normal } from './common/random.js';

export class Classifier extends Module {
  hidden: Linear[];
  last: Linear;

  constructor(width: number, layers: number) {
    super();
    const start = { init: init.kaiming() };
    this.hidden = Array.from({ length: layers }, (_, i) => new Linear(i === 0 ? 2 : width, width, start));
    this.last = new Linear(width, 3, { init: init.fanIn() });
  }

  /** Points `[batch, 2]` to logits of the three arms. */
  fwd(x: Tensor): Tensor {
    for (const layer of this.hidden) x = layer.fwd(x).silu();
    return this.last.fwd(x);
  }
}

export const classify = ({ width = 32, layers = 2, batch = 64 } = {}) => program({
  model: new Classifier(width, layers),
  loss: (m, { points, arms }) => m.fwd(points).crossEntropy(arms),
  inputs: { points: [batch, 2], arms: { shape: [batch], dtype: 'i32' } },
  optimizer: { kind: 'adamw', lr: 0.01 },
});

/** Points `[count, 2]`, and which spiral each is on. */
export function spirals(seed: number, count: number) {
  const random = generator(seed);
  const points = new Float32Array(2 * count);
  const arms = Int32Array.from({ length: count }, (_, i) => i % 3);
  arms.forEach((arm, i) => {
    const t = random();
    const angle = 4.5 * t + arm * 2 * Math.PI / 3 + 0.1 * normal(random);
    points.set([(0.1 + 0.9 * t) * Math.cos(angle), (0.1 + 0.9 * t) * Math.sin(angle)], 2 * i);
  });
  return { points, arms };
}

/** Gives random points with their arms, as many as are asked for. */
export function batches({ points, arms }: ReturnType<typeof spirals>, seed: number) {
  const random = generator(seed);
  return (count: number) => {
    const chosen = Array.from({ length: count }, () => below(random, arms.length));
    return {
      points: Float32Array.from(chosen.flatMap((i) => [points[2 * i]!, points[2 * i + 1]!])),
      arms: Int32Array.from(chosen, (i) => arms[i]!),
    };
  };
}

export async function run({ device, steps = 480, onStep }: Options = {}) {
  const train = await compile({ ...classify(), seed: 7, device });
  const some = batches(spirals(1, 500), 7);
  const loss = await learn(train, steps, () => some(64), onStep);

  const find = await train.attach({
    forward: (m, { points }) => m.fwd(points).argmax(-1), inputs: { points: [null, 2] }, output: 'i32',
  });
  const { points, arms } = spirals(2, 900);
  const { output } = completed(await find.run({ points }));
  await train.destroy();
  return { loss, accuracy: arms.filter((arm, i) => arm === output[i]).length / arms.length };
}
