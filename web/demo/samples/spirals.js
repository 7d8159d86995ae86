// Spirals: which of three arms is a point on? The plane is coloured by what the network says.

import { batches, classify, spirals } from '../../samples/dist/spirals.js';
import { colour } from '../canvas.js';
import { el } from '../dom.js';
import { plane, rgb } from '../plane.js';

const SIDE = 72;
const REACH = 1.2;
const COLOURS = ['role-a', 'role-c', 'role-b'];

export class Spirals {
  static id = 'spirals';
  static source = 'spirals';
  static title = 'Spirals';
  static line = 'Borders between three arms';
  static about = 'Each point is on one of three spirals. The network learns which, and the plane is coloured by its answer: strong where it is sure, pale where it is not.';
  static unit = 'points';
  static lr = 0.01;
  static settings = [
    { name: 'width', label: 'Width', values: [8, 16, 32, 64, 128], value: 32 },
    { name: 'layers', label: 'Layers', values: [1, 2, 3, 4], value: 2 },
    { name: 'batch', label: 'Batch', values: [16, 64, 256, 1024], value: 64, inputs: true },
  ];

  #data;
  #batches;
  #seed;
  #grid = Float32Array.from({ length: 2 * SIDE * SIDE }, (_, i) => {
    const at = i % 2 === 0 ? (i / 2) % SIDE : SIDE - 1 - Math.floor(i / 2 / SIDE);
    return REACH * (2 * (at + 0.5) / SIDE - 1);
  });
  #answer = null;
  #tiles = el('canvas', { width: SIDE, height: SIDE });
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#seed = Math.floor(2 ** 32 * random());
    this.#data = spirals(this.#seed, 500);
  }

  get units() {
    return this.settings.batch;
  }

  program(settings) {
    return classify(settings);
  }

  forward() {
    return { forward: (m, { points }) => m.fwd(points).softmax(), inputs: { points: [null, 2] } };
  }

  batch() {
    this.#batches ??= batches(this.#data, this.#seed);
    return this.#batches(this.settings.batch);
  }

  again() {
    this.#answer = null;
    this.#parts.score.textContent = '';
    this.#parts.plane.request();
  }

  async refresh(infer) {
    const [plane, data] = await Promise.all([infer.run({ points: this.#grid }), infer.run({ points: this.#data.points })]);
    for (const result of [plane, data]) if (result.kind === 'failed') throw result.error;
    if (plane.kind !== 'completed' || data.kind !== 'completed') return;
    this.#answer = plane.output;
    const { arms } = this.#data;
    const right = arms.filter((arm, i) => [0, 1, 2].every((other) => data.output[3 * i + arm] >= data.output[3 * i + other])).length;
    this.#parts.score.textContent = `${Math.round(100 * right / arms.length)}% of the points are on its side`;
    this.#parts.plane.request();
  }

  mount(stage) {
    const canvas = el('canvas', { class: 'plane', role: 'img', 'aria-label': 'Points on three spirals, on the colours of what the network says of each place' });
    const score = el('strong', { class: 'score' });
    this.#parts = { score, plane: plane(canvas, REACH, (pen) => this.#draw(pen)) };
    stage.append(canvas, el('div', { class: 'row spread' }, el('span', { class: 'small' }, 'Dots: what it learns from. Ground: what it says.'), score));
  }

  #draw({ context, at, dots }) {
    if (this.#answer) {
      const colours = COLOURS.map(rgb);
      const image = new ImageData(SIDE, SIDE);
      for (let i = 0; i < SIDE * SIDE; i++) {
        const answer = this.#answer.subarray(3 * i, 3 * i + 3);
        for (let c = 0; c < 3; c++) image.data[4 * i + c] = answer.reduce((sum, p, arm) => sum + p * colours[arm][c], 0);
        // A third each is no answer.
        image.data[4 * i + 3] = 130 * Math.max(0, (Math.max(...answer) - 1 / 3) * 1.5);
      }
      this.#tiles.getContext('2d').putImageData(image, 0, 0);
      const [left, top] = at(-REACH, REACH);
      const [right, bottom] = at(REACH, -REACH);
      context.drawImage(this.#tiles, left, top, right - left, bottom - top);
    }
    const { points, arms } = this.#data;
    COLOURS.forEach((name, arm) => {
      const own = points.filter((_, i) => arms[i >> 1] === arm);
      dots(own, colour('surface'), 4);
      dots(own, colour(name), 2.8);
    });
  }

  unmount() {
    this.#parts.plane.stop();
  }
}
