// Dreamt digits: a variational autoencoder makes images out of noise.

import { CODE, batches, imagine } from '../../samples/dist/vae.js';
import { SIDE, PIXELS, images } from '../../samples/dist/common/digits.js';
import { generator, normal } from '../../samples/dist/common/random.js';
import { button, el } from '../dom.js';
import { strokesOf } from '../pixels.js';

const SHOWN = 40;

export class Dream {
  static id = 'vae';
  static source = 'vae';
  static title = 'Dreamt digits';
  static line = 'Digits out of noise';
  static about = 'An autoencoder squeezes digits into eight numbers and draws them again. Random numbers in place of those eight become digits that nobody has drawn.';
  static unit = 'images';
  static lr = 0.003;
  static settings = [
    { name: 'width', label: 'Width', values: [32, 64, 128, 256], value: 128 },
    { name: 'batch', label: 'Batch', values: [10, 50, 200], value: 50, inputs: true },
  ];

  #batches;
  #random;
  #codes;
  #infer = null;
  #canvases = [];

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
    this.#batches = batches(random);
    this.#noise(generator(3));
  }

  get units() {
    return this.settings.batch;
  }

  #noise(random) {
    this.#codes = Float32Array.from({ length: SHOWN * CODE }, () => normal(random));
  }

  program(settings) {
    return imagine(settings);
  }

  forward() {
    return { forward: (m, { codes }) => m.decode(codes).sigmoid(), inputs: { codes: [SHOWN, CODE] } };
  }

  batch() {
    return this.#batches(this.settings.batch);
  }

  again() {
    this.#paint(new Float32Array(SHOWN * PIXELS));
  }

  async refresh(infer) {
    this.#infer = infer;
    const result = await infer.run({ codes: this.#codes });
    if (result.kind === 'failed') throw result.error;
    if (result.kind === 'completed') this.#paint(result.output);
  }

  #paint(all) {
    this.#canvases.forEach((canvas, i) => strokesOf(canvas, all.subarray(i * PIXELS, (i + 1) * PIXELS), SIDE));
  }

  mount(stage) {
    this.#canvases = Array.from({ length: SHOWN }, () => el('canvas'));
    const seen = Array.from({ length: 20 }, () => el('canvas'));
    const { pixels } = images(generator(4), seen.length, 0, 0.05);
    seen.forEach((canvas, i) => strokesOf(canvas, pixels.subarray(i * PIXELS, (i + 1) * PIXELS), SIDE));
    const other = () => {
      this.#noise(this.#random);
      if (this.#infer) void this.session.refresh();
    };
    stage.append(
      el('div', { class: 'dreams', role: 'img', 'aria-label': 'What the network makes of noise' }, this.#canvases),
      el('div', { class: 'row' }, button('Other noise', other, { class: 'chip' })),
      el('div', {}, el('p', { class: 'small' }, 'It learns from digits like these'),
        el('div', { class: 'thumbs', role: 'img', 'aria-label': 'Some of the digits that it learns from' }, seen)));
    this.again();
  }

  unmount() {}
}
