// A picture: a network from a place (x, y) to a colour. Sines and cosines of random directions let it draw fine detail (Tancik et al.,
// 2020). What is shown is the network asked at every pixel.

import { decibels, paint, pixels, places } from '../../samples/dist/image.js';
import { button, el } from '../dom.js';
import { PICTURES, fromFile, made } from '../picture.js';
import { show } from '../pixels.js';

/** How fine the detail is that the features begin with, in waves across the picture. */
const WAVES = 5;

export class Picture {
  static id = 'image';
  static source = 'image';
  static title = 'A picture';
  static line = 'A network paints it';
  static about = 'The network is asked for the colour at a place, and nothing else. Random pixels of the target teach it, and the picture comes out of the fog.';
  static unit = 'pixels';
  static lr = 0.003;
  static settings = [
    { name: 'width', label: 'Width', values: [16, 32, 64, 128, 256], value: 64 },
    { name: 'layers', label: 'Layers', values: [1, 2, 3, 4], value: 2 },
    { name: 'features', label: 'Waves', values: [8, 16, 32, 64, 128], value: 64 },
    { name: 'batch', label: 'Batch', values: [256, 1024, 4096, 16384], value: 2048, inputs: true },
    { name: 'side', label: 'Pixels across', values: [32, 64, 96, 128], value: 96, inputs: true },
  ];

  #random;
  #source = (side) => made(PICTURES.Hills, side);
  #target;
  #batch;
  #side;
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
    this.#side = settings.side;
    this.#target = this.#source(this.#side);
  }

  get units() {
    return this.settings.batch;
  }

  program(settings) {
    return paint({ ...settings, waves: WAVES, channels: 3 });
  }

  forward({ side }) {
    return { forward: (m, { places }) => m.fwd(places), inputs: { places: [side * side, 2] } };
  }

  batch() {
    this.#fit();
    this.#batch ??= pixels(this.#target, this.#side, this.#random);
    return this.#batch(this.settings.batch);
  }

  /** The target in the size that is set now. A file of the visitor is there a little later. */
  #fit() {
    if (this.#side === this.settings.side) return;
    this.#side = this.settings.side;
    const made = this.#source(this.#side);
    if (made instanceof Promise) {
      this.#target = new Float32Array(3 * this.#side ** 2).fill(0.5);
      this.#batch = null;
      void made.then((rgb) => this.#use(rgb));
    } else {
      this.#use(made);
    }
  }

  #use(rgb) {
    if (rgb.length !== 3 * this.#side ** 2) return;
    this.#target = rgb;
    this.#batch = null;
    show(this.#parts.target, rgb, this.#side);
  }

  again() {
    this.#parts.score.textContent = '';
  }

  async refresh(infer) {
    this.#fit();
    const side = this.#side;
    const result = await infer.run({ places: places(side) });
    if (result.kind === 'failed') throw result.error;
    if (result.kind !== 'completed' || side !== this.#side) return;
    const { output } = result;
    this.#parts.score.textContent = `${decibels(output, this.#target).toFixed(1)} dB`;
    requestAnimationFrame(() => show(this.#parts.output, output, side));
  }

  mount(stage) {
    const canvas = (label) => el('canvas', { class: 'picture', role: 'img', 'aria-label': label });
    const [target, output] = [canvas('The picture that is learnt'), canvas('What the network gives')];
    const score = el('span', { title: 'Peak signal to noise ratio: above 30 dB is hard to tell from the target' });
    this.#parts = { target, output, score };
    const choose = (name) => {
      this.#source = (side) => made(PICTURES[name], side);
      this.#use(this.#source(this.#side));
    };
    const file = el('input', { type: 'file', accept: 'image/*', class: 'hidden', tabIndex: -1, 'aria-hidden': 'true' });
    const note = el('p', { class: 'small', role: 'status' });
    file.addEventListener('change', async () => {
      const [chosen] = file.files;
      if (!chosen) return;
      try {
        const first = await fromFile(chosen, this.#side);
        this.#source = (side) => fromFile(chosen, side);
        this.#use(first);
        note.textContent = '';
      } catch {
        note.textContent = `${chosen.name} is no picture that this browser can read.`;
      }
    });
    stage.append(
      el('div', { class: 'pictures' },
        el('figure', {}, output, el('figcaption', {}, el('span', {}, 'The network'), score)),
        el('div', { class: 'target' },
          el('figure', {}, target, el('figcaption', {}, 'The target')),
          el('div', { class: 'row', role: 'group', 'aria-label': 'Targets' },
            Object.keys(PICTURES).map((name) => button(name, () => choose(name), { class: 'chip' })),
            button('Your picture…', () => file.click(), { class: 'chip' }), file),
          note)));
    show(target, this.#target, this.#side);
    show(output, new Float32Array(3 * this.#side ** 2).fill(0.5), this.#side);
  }

  unmount() {}
}
