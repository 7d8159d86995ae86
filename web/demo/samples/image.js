// A picture: a network from a place (x, y) to a colour. Sines and cosines of random directions let it draw fine detail (Tancik et al.,
// 2020). What is shown is the network asked at every pixel.

import { Linear, Module, concat, constant, cos, init, matmul, mean, relu, sigmoid, sin, square, sub } from '../../dist/index.js';
import { button, el } from '../dom.js';
import { PICTURES, fromFile, made } from '../picture.js';
import { below, generator, normal } from '../random.js';

/** How fine the detail is that the features begin with, in waves across the picture. */
const WAVES = 5;

class Painter extends Module {
  constructor({ width, layers, features }) {
    super();
    const random = generator(features);
    this.directions = Float32Array.from({ length: 2 * features }, () => 2 * Math.PI * WAVES * normal(random));
    this.features = features;
    this.layers = Array.from({ length: layers }, (_, i) => new Linear(i === 0 ? 2 * features : width, width, { init: init.kaiming() }));
    this.out = new Linear(width, 3, { init: init.fanIn() });
  }

  fwd(place) {
    const waves = matmul(place, constant(this.directions, [2, this.features]));
    let h = concat([sin(waves), cos(waves)], -1);
    for (const layer of this.layers) h = relu(layer.fwd(h));
    return sigmoid(this.out.fwd(h));
  }
}

export class Picture {
  static id = 'image';
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

  optimizer = { kind: 'adam' };
  #random;
  #source = (side) => made(PICTURES.Hills, side);
  #target;
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
    return {
      model: new Painter(settings),
      loss: (m, { place, rgb }) => mean(square(sub(m.fwd(place), rgb))),
      inputs: { place: [settings.batch, 2], rgb: [settings.batch, 3] },
    };
  }

  forward({ side }) {
    return { forward: (m, { place }) => m.fwd(place), inputs: { place: [side * side, 2] } };
  }

  batch() {
    const { batch } = this.settings;
    this.#fit();
    const side = this.#side;
    const place = new Float32Array(2 * batch);
    const rgb = new Float32Array(3 * batch);
    for (let i = 0; i < batch; i++) {
      const pixel = below(this.#random, side * side);
      place[2 * i] = (pixel % side + 0.5) / side;
      place[2 * i + 1] = (Math.floor(pixel / side) + 0.5) / side;
      for (let c = 0; c < 3; c++) rgb[3 * i + c] = this.#target[3 * pixel + c];
    }
    return { place, rgb };
  }

  /** The target in the size that is set now. A file of the visitor is there a little later. */
  #fit() {
    if (this.#side === this.settings.side) return;
    this.#side = this.settings.side;
    const made = this.#source(this.#side);
    if (made instanceof Promise) {
      this.#target = new Float32Array(3 * this.#side ** 2).fill(0.5);
      void made.then((rgb) => this.#use(rgb));
    } else {
      this.#use(made);
    }
  }

  #use(rgb) {
    if (rgb.length !== 3 * this.#side ** 2) return;
    this.#target = rgb;
    paint(this.#parts.target, rgb, this.#side);
  }

  again() {
    this.#parts.score.textContent = '';
  }

  async refresh(infer) {
    this.#fit();
    const side = this.#side;
    const place = new Float32Array(2 * side * side);
    for (let i = 0; i < side * side; i++) {
      place[2 * i] = (i % side + 0.5) / side;
      place[2 * i + 1] = (Math.floor(i / side) + 0.5) / side;
    }
    const result = await infer.run({ place });
    if (result.kind === 'failed') throw result.error;
    if (result.kind !== 'completed' || side !== this.#side) return;
    const { output } = result;
    let error = 0;
    for (let i = 0; i < output.length; i++) error += (output[i] - this.#target[i]) ** 2;
    this.#parts.score.textContent = `${(-10 * Math.log10(error / output.length)).toFixed(1)} dB`;
    requestAnimationFrame(() => paint(this.#parts.output, output, side));
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
    paint(target, this.#target, this.#side);
    paint(output, new Float32Array(3 * this.#side ** 2).fill(0.5), this.#side);
  }

  unmount() {}
}

function paint(canvas, rgb, side) {
  if (canvas.width !== side || canvas.height !== side) Object.assign(canvas, { width: side, height: side });
  const data = new ImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    for (let c = 0; c < 3; c++) data.data[4 * i + c] = 255 * rgb[3 * i + c];
    data.data[4 * i + 3] = 255;
  }
  canvas.getContext('2d').putImageData(data, 0, 0);
}
