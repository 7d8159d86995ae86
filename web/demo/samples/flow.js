// Flow matching: points of noise on their way to two moons.

import { WAY, match, moons, onAMoon } from '../../samples/dist/flow.js';
import { generator } from '../../samples/dist/common/random.js';
import { colour } from '../canvas.js';
import { line } from '../chart.js';
import { el, field } from '../dom.js';
import { plane } from '../plane.js';

const SHOWN = 400;

export class Moons {
  static id = 'flow';
  static source = 'flow';
  static title = 'Flow';
  static line = 'Noise becomes two moons';
  static about = 'The network learns which way a point of noise has to drift to become a point of the data. Following what it says, noise flows into two moons: move the time to see it on its way.';
  static unit = 'points';
  static lr = 0.005;
  static settings = [
    { name: 'width', label: 'Width', values: [16, 32, 64, 128], value: 64 },
    { name: 'layers', label: 'Layers', values: [1, 2, 3, 4], value: 3 },
    { name: 'batch', label: 'Batch', values: [64, 256, 1024], value: 256, inputs: true },
  ];

  #random;
  #data = moons(generator(1), SHOWN);
  /** Where the points are after each of the steps of their way. */
  #way = null;
  #time = WAY;
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
  }

  get units() {
    return this.settings.batch;
  }

  program(settings) {
    return match(settings);
  }

  forward() {
    return { forward: (m) => m.follow(SHOWN), inputs: {} };
  }

  batch() {
    return { data: moons(this.#random, this.settings.batch) };
  }

  again() {
    this.#way = null;
    this.#parts.score.textContent = '';
    this.#parts.plane.request();
  }

  async refresh(infer) {
    const result = await infer.run({});
    if (result.kind === 'failed') throw result.error;
    if (result.kind !== 'completed') return;
    this.#way = result.output;
    this.#parts.score.textContent = `${Math.round(100 * onAMoon(this.#points(WAY)))}% end on a moon`;
    this.#parts.plane.request();
  }

  /** The points after so many steps, from 1 on. */
  #points(step) {
    return this.#way.subarray(2 * SHOWN * (step - 1), 2 * SHOWN * step);
  }

  mount(stage) {
    const canvas = el('canvas', { class: 'plane', role: 'img', 'aria-label': 'Points on two moons, and points of noise on their way there' });
    const score = el('strong', { class: 'score' });
    const time = el('input', { type: 'range', min: 1, max: WAY, step: 1, value: WAY });
    time.addEventListener('input', () => {
      this.#time = Number(time.value);
      time.setAttribute('aria-valuetext', `${Math.round(100 * this.#time / WAY)}% of the way`);
      this.#parts.plane.request();
    });
    this.#parts = { score, plane: plane(canvas, 2.2, (pen) => this.#draw(pen)) };
    stage.append(canvas, field('Time, from noise to data', time), el('div', { class: 'row spread' }, el('div', { class: 'legend' },
      el('span', {}, el('i', { class: 'key second' }), 'data'), el('span', {}, el('i', { class: 'key accent' }), 'made of noise')), score));
  }

  #draw({ context, at, dots }) {
    dots(this.#data, colour('second-faint'), 3);
    if (!this.#way) return;
    for (let i = 0; i < 60; i++) {
      const steps = Array.from({ length: this.#time }, (_, step) => 2 * (SHOWN * step + i));
      line(context, steps.map((j) => at(this.#way[j], this.#way[j + 1])), colour('accent-faint'), 1);
    }
    dots(this.#points(this.#time), colour('accent'), 2);
  }

  unmount() {
    this.#parts.plane.stop();
  }
}
