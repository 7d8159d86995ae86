// A variational autoencoder learns what digits look like, and draws new ones out of noise (Kingma and Welling, 2013).
//
// The noise is drawn inside the loss, whose two parts are captured. The result: at least 80% of 200 drawn images are
// like a digit of the font, correlated with it by 0.8 or more, and 8 different digits are among them.

import { capture, compile, init, Linear, Module, randn, split, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, generator, type Random } from './common/random.js';
import { draw, images, PIXELS } from './common/digits.js';

/** Numbers that an image is squeezed into. */
export const CODE = 8;

export class Vae extends Module {
  encoder: Linear;
  /** Mean and logarithm of the variance of each number of the code. */
  code: Linear;
  decoder: Linear;
  pixels: Linear;

  constructor(width: number) {
    super();
    const start = { init: init.fanIn() };
    this.encoder = new Linear(PIXELS, width, start);
    this.code = new Linear(width, 2 * CODE, start);
    this.decoder = new Linear(CODE, width, start);
    this.pixels = new Linear(width, PIXELS, start);
  }

  encode(images: Tensor): [mean: Tensor, logVariance: Tensor] {
    return split(this.code.fwd(this.encoder.fwd(images).silu()), [CODE, CODE], -1);
  }

  /** Logits of the pixels. */
  decode(code: Tensor): Tensor {
    return this.pixels.fwd(this.decoder.fwd(code).silu());
  }
}

export const imagine = ({ width = 128, batch = 50 } = {}) => program({
  model: new Vae(width),
  loss: (m, { images }) => {
    const [mean, logVariance] = m.encode(images);
    const code = mean.add(logVariance.mul(0.5).exp().mul(randn([batch, CODE])));
    // Sums over an image, means over the batch.
    const pixels = m.decode(code).bceWithLogits(images).mul(PIXELS);
    const spread = mean.square().add(logVariance.exp()).sub(logVariance).sub(1).sumAxes([-1]).mean().mul(0.5);
    return capture('pixels', pixels).add(capture('spread', spread));
  },
  inputs: { images: [batch, PIXELS] },
  optimizer: { kind: 'adam', lr: 3e-3 },
});

/** Gives random ones of a thousand digits, as many as are asked for. */
export function batches(random: Random) {
  const { pixels } = images(random, 1000, 0, 0.05);
  return (count: number) => {
    const batch = new Float32Array(count * PIXELS);
    for (let i = 0; i < count; i++) {
      const at = below(random, 1000) * PIXELS;
      batch.set(pixels.subarray(at, at + PIXELS), i * PIXELS);
    }
    return { images: batch };
  };
}

/** The digit of the font that an image is correlated with by 0.8 or more; -1 if there is none. */
export function likeDigit(image: Float32Array): number {
  const centred = (x: Float32Array) => x.map((v) => v - x.reduce((a, b) => a + b) / x.length);
  const dot = (x: Float32Array, y: Float32Array) => x.reduce((sum, v, i) => sum + v * y[i]!, 0);
  const a = centred(image);
  return Array.from({ length: 10 }, (_, digit) => centred(draw(digit)))
    .findIndex((b) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b)) >= 0.8);
}

export async function run({ device, steps = 600, onStep }: Options = {}) {
  const train = await compile({ ...imagine(), seed: 7, device });
  const some = batches(generator(1));
  const loss = await learn(train, steps, () => some(50), onStep);

  // The decoder alone, out of noise.
  const dream = await train.attach({ forward: (m) => m.decode(randn([200, CODE])).sigmoid(), inputs: {} });
  const { output } = completed(await dream.run({}));
  await train.destroy();
  const drawn = Array.from({ length: 200 }, (_, i) => output.subarray(i * PIXELS, (i + 1) * PIXELS));
  const like = drawn.map(likeDigit).filter((digit) => digit >= 0);
  return { loss, likeDigits: like.length / 200, different: new Set(like).size, drawn };
}
