// Two networks: one makes points, the other tells them from real ones.

import { HEAPS, duel, parts, realPoints } from '../../samples/dist/gan.js';
import { generator } from '../../samples/dist/common/random.js';
import { colour } from '../canvas.js';
import { el } from '../dom.js';
import { plane } from '../plane.js';

const SHOWN = 600;

export class Duel {
  static id = 'gan';
  static source = 'gan';
  static title = 'Two networks';
  static line = 'A forger and a critic';
  static about = 'One network makes points out of noise, the other tells them from real ones, which lie in eight heaps. Each learns from the other; no one tells the first where the heaps are.';
  static unit = 'points';
  static lr = 0.002;
  static settings = [
    { name: 'width', label: 'Width', values: [16, 32, 64, 128], value: 64 },
    { name: 'batch', label: 'Batch', values: [32, 128, 512], value: 128, inputs: true },
  ];

  #random;
  #real = realPoints(generator(1), SHOWN);
  #made = [];
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
  }

  get units() {
    return this.settings.batch;
  }

  program(settings) {
    return duel(settings);
  }

  forward() {
    return { forward: (m) => m.make(SHOWN), inputs: {} };
  }

  batch() {
    return { real: realPoints(this.#random, this.settings.batch) };
  }

  again() {
    this.#made = [];
    this.#parts.score.textContent = '';
    this.#parts.plane.request();
  }

  async refresh(infer) {
    const result = await infer.run({});
    if (result.kind === 'failed') throw result.error;
    if (result.kind !== 'completed') return;
    this.#made = result.output;
    const inHeaps = parts(result.output);
    const found = inHeaps.filter((part) => part >= 0.02).length;
    this.#parts.score.textContent = `${Math.round(100 * inHeaps.reduce((a, b) => a + b))}% in a heap, ${found} of ${HEAPS} heaps found`;
    this.#parts.plane.request();
  }

  mount(stage) {
    const canvas = el('canvas', { class: 'plane', role: 'img', 'aria-label': 'Real points in eight heaps around a circle, and the points that are made' });
    const score = el('strong', { class: 'score' });
    this.#parts = {
      score,
      plane: plane(canvas, 1.5, ({ dots }) => {
        dots(this.#real, colour('second-faint'), 3);
        dots(this.#made, colour('accent'), 2);
      }),
    };
    stage.append(canvas, el('div', { class: 'row spread' }, el('div', { class: 'legend' },
      el('span', {}, el('i', { class: 'key second' }), 'real'), el('span', {}, el('i', { class: 'key accent' }), 'made')), score));
  }

  unmount() {
    this.#parts.plane.stop();
  }
}
