// A network that is an image: it is asked for a place, and says the colour there.
//
// A plain network blurs; with Fourier features, sines and cosines of the place at random pitches, it learns the fine
// lines, too (Tancik et al., 2020). The result: at least 25 dB with the features, at least 8 dB more than without.

import { compile, concat, constant, init, Linear, Module, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, generator, normal, type Random } from './common/random.js';

/** The sizes of a painter. */
export interface Sizes { width?: number; layers?: number; features?: number; waves?: number; channels?: number }

export class Painter extends Module {
  layers: Linear[];
  out: Linear;
  /** Random pitches `[2, features]`; `waves` across the image on average, which are not trained. */
  readonly #pitches: Float32Array;

  constructor({ width = 64, layers = 2, features = 32, waves = 3, channels = 1 }: Sizes) {
    super();
    const random = generator(8);
    this.#pitches = Float32Array.from({ length: 2 * features }, () => 2 * Math.PI * waves * normal(random));
    const inputs = 2 * features || 2;
    const start = { init: init.kaiming() };
    this.layers = Array.from({ length: layers }, (_, i) => new Linear(i === 0 ? inputs : width, width, start));
    this.out = new Linear(width, channels, { init: init.fanIn() });
  }

  /** Colours, 0 to 1, at places `[batch, 2]`, from 0 to 1 across the image. */
  fwd(places: Tensor): Tensor {
    let h = places;
    if (this.#pitches.length > 0) {
      const angles = places.matmul(constant(this.#pitches, [2, this.#pitches.length / 2]));
      h = concat([angles.sin(), angles.cos()], -1);
    }
    for (const layer of this.layers) h = layer.fwd(h).relu();
    return this.out.fwd(h).sigmoid();
  }
}

export const paint = ({ batch = 256, channels = 1, ...sizes }: Sizes & { batch?: number } = {}) => program({
  model: new Painter({ ...sizes, channels }),
  loss: (m, { places, colours }) => m.fwd(places).mseLoss(colours),
  inputs: { places: [batch, 2], colours: [batch, channels] },
  optimizer: { kind: 'adam', lr: 5e-3 },
});

/** The places of all pixels of a square image, row by row. */
export function places(side: number): Float32Array {
  return Float32Array.from({ length: 2 * side * side }, (_, i) => {
    const pixel = Math.floor(i / 2);
    return ((i % 2 === 0 ? pixel % side : Math.floor(pixel / side)) + 0.5) / side;
  });
}

/** Gives random pixels of an image, as many as are asked for. */
export function pixels(image: Float32Array, side: number, random: Random) {
  const [all, channels] = [places(side), image.length / side ** 2];
  return (count: number) => {
    const batch = { places: new Float32Array(2 * count), colours: new Float32Array(channels * count) };
    for (let i = 0; i < count; i++) {
      const pixel = below(random, side * side);
      batch.places.set(all.subarray(2 * pixel, 2 * pixel + 2), 2 * i);
      batch.colours.set(image.subarray(channels * pixel, channels * (pixel + 1)), channels * i);
    }
    return batch;
  };
}

/** Signal-to-noise ratio in dB: above 30 is hard to tell from the image. */
export function decibels(seen: Float32Array, image: Float32Array): number {
  return -10 * Math.log10(seen.reduce((sum, v, i) => sum + (v - image[i]!) ** 2, 0) / image.length);
}

/** Rings in a frame, with a chequered corner: brightness at places from -1 to 1. */
function brightness(x: number, y: number): number {
  if (Math.max(Math.abs(x), Math.abs(y)) > 0.9) return 1;
  if (x > 0 && y > 0) return (Math.floor(5 * x) + Math.floor(5 * y)) % 2 === 0 ? 0.9 : 0.1;
  return 0.5 + 0.5 * Math.cos(14 * Math.hypot(x, y));
}

export async function run({ device, steps = 600, onStep }: Options = {}) {
  const side = 32;
  const at = places(side);
  const image = Float32Array.from({ length: side * side }, (_, i) => brightness(2 * at[2 * i]! - 1, 2 * at[2 * i + 1]! - 1));
  const fit = async (features: number, onStep?: Options['onStep']) => {
    const train = await compile({ ...paint({ features }), seed: 8, device });
    const some = pixels(image, side, generator(8));
    const loss = await learn(train, steps, () => some(256), onStep);
    const infer = await train.attach({ forward: (m, { places }) => m.fwd(places), inputs: { places: [side * side, 2] } });
    const { output } = completed(await infer.run({ places: at }));
    await train.destroy();
    return { loss, seen: output, ratio: decibels(output, image) };
  };
  const [plain, fine] = [await fit(0), await fit(32, onStep)];
  return { loss: fine.loss, plain: plain.ratio, fine: fine.ratio, pictures: [image, plain.seen, fine.seen] };
}
