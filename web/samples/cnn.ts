// A convolutional network reads digits that code writes, as different hands would.
//
// It learns from a pool of drawings of 16 by 16 pixels, a part of which is new at every step. The result: at least 96%
// of 500 drawings that it has not seen are read rightly.

import { compile, Conv2d, Linear, Module, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, generator, type Random } from './common/random.js';
import { pixels, SIDE, written } from './common/strokes.js';

export const PIXELS = SIDE * SIDE;

export class Cnn extends Module {
  conv1: Conv2d;
  conv2: Conv2d;
  classes: Linear;

  constructor(channels: number) {
    super();
    this.conv1 = new Conv2d(1, channels, 3, { padding: 1 });
    this.conv2 = new Conv2d(channels, 2 * channels, 3, { padding: 1 });
    this.classes = new Linear(2 * channels * (SIDE / 4) ** 2, 10);
  }

  /** Images `[batch, SIDE * SIDE]` to logits of the ten digits. */
  fwd(images: Tensor): Tensor {
    const [batch] = images.shape as [number];
    const first = this.conv1.fwd(images.reshape([batch, 1, SIDE, SIDE])).relu().maxPool2d([2, 2]);
    const second = this.conv2.fwd(first).relu().maxPool2d([2, 2]);
    return this.classes.fwd(second.reshape([batch, -1]).dropout(0.1));
  }
}

export const read = ({ channels = 8, batch = 32 } = {}) => program({
  model: new Cnn(channels),
  loss: (m, { images, digits }) => m.fwd(images).crossEntropy(digits),
  inputs: { images: [batch, PIXELS], digits: { shape: [batch], dtype: 'i32' } },
  optimizer: { kind: 'adamw', lr: 5e-3 },
});

/** A drawing of a digit. */
export const drawn = (digit: number, random: Random) => ({ digit, image: pixels(written(digit, random), random) });

/** Drawings as a batch. */
export function batchOf(drawings: readonly ReturnType<typeof drawn>[]) {
  const images = new Float32Array(drawings.length * PIXELS);
  drawings.forEach(({ image }, i) => images.set(image, i * PIXELS));
  return { images, digits: Int32Array.from(drawings, ({ digit }) => digit) };
}

/** Random drawings out of a pool, of which a share is replaced each time, so that none is learnt by heart. */
export function drawings(random: Random, size = 1500, fresh = 12) {
  const next = () => drawn(below(random, 10), random);
  const pool: ReturnType<typeof drawn>[] = [];
  return (count: number) => {
    // It grows with the batches, so that the first one is not waited for.
    for (let i = 0; i < count && pool.length < size; i++) pool.push(next());
    for (let i = 0; i < fresh; i++) pool[below(random, pool.length)] = next();
    return Array.from({ length: count }, () => pool[below(random, pool.length)]!);
  };
}

export async function run({ device, steps = 400, onStep }: Options = {}) {
  const train = await compile({ ...read(), seed: 7, device });
  const some = drawings(generator(1));
  const loss = await learn(train, steps, () => batchOf(some(32)), onStep);

  const infer = await train.attach({
    forward: (m, { images }) => m.fwd(images).argmax(-1), inputs: { images: [null, PIXELS] }, output: 'i32',
  });
  const random = generator(2);
  const { images, digits } = batchOf(Array.from({ length: 500 }, (_, i) => drawn(i % 10, random)));
  const { output } = completed(await infer.run({ images }));
  await train.destroy();
  return { loss, accuracy: digits.filter((digit, i) => digit === output[i]).length / 500 };
}
