// A curve: a small MLP learns y of x, from points of the curve. The visitor draws another while it learns.

import { fit, points, sine } from '../../samples/dist/sin.js';
import { colour, strokes, surface } from '../canvas.js';
import { line } from '../chart.js';
import { button, el } from '../dom.js';

/** Points of the curve across the canvas, y from -1 to 1. */
const POINTS = 240;
const CURVES = {
  Sine: sine,
  Chirp: (x) => 0.7 * Math.sin(7 * (x + 1) ** 2 / 1.6),
  Steps: (x) => Math.round(2 * Math.sin(4 * x)) / 2.6,
  Peaks: (x) => 0.8 - 1.8 * Math.abs(((1.75 * (x + 1)) % 1) - 0.5) - 0.15 * x,
};
const across = (i) => 2 * i / (POINTS - 1) - 1;

export class Curve {
  static id = 'sin';
  static source = 'sin';
  static title = 'A curve';
  static line = 'Fits a sine, or what you draw';
  static about = 'A small network learns y from x. Draw your own curve on the canvas, also while it is training, and watch it follow.';
  static unit = 'points';
  static lr = 0.005;
  static settings = [
    { name: 'width', label: 'Width', values: [16, 32, 64, 128, 256], value: 64 },
    { name: 'layers', label: 'Layers', values: [1, 2, 3, 4], value: 2 },
    { name: 'batch', label: 'Batch', values: [64, 256, 1024, 4096], value: 256, inputs: true },
  ];

  #random;
  #target = Float32Array.from({ length: POINTS }, (_, i) => CURVES.Sine(across(i)));
  #guess = null;
  #seen = [];
  #surface;

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
  }

  get units() {
    return this.settings.batch;
  }

  program(settings) {
    return fit(settings);
  }

  forward() {
    return { forward: (m, { x }) => m.fwd(x), inputs: { x: [POINTS, 1] } };
  }

  batch() {
    const batch = points((x) => {
      const at = (x + 1) / 2 * (POINTS - 1);
      const left = Math.min(Math.floor(at), POINTS - 2);
      return this.#target[left] + (at - left) * (this.#target[left + 1] - this.#target[left]);
    }, this.#random, this.settings.batch);
    this.#seen = Array.from({ length: 48 }, (_, i) => [batch.x[i], batch.y[i]]);
    return batch;
  }

  again() {
    this.#guess = null;
    this.#seen = [];
    this.#surface.request();
  }

  async refresh(infer) {
    const result = await infer.run({ x: Float32Array.from({ length: POINTS }, (_, i) => across(i)) });
    if (result.kind === 'failed') throw result.error;
    if (result.kind === 'completed') this.#guess = result.output;
    this.#surface.request();
  }

  mount(stage) {
    const canvas = el('canvas', {
      class: 'plot drawable', role: 'img', 'aria-label': 'The target curve and what the network gives; draw here for another target. The buttons below choose one without a pointer.',
    });
    this.#surface = surface(canvas, (context, width, height) => this.#draw(context, width, height));
    let last = null;
    const put = ([px, py]) => {
      const at = Math.round(px * (POINTS - 1));
      const y = 1 - 2 * py;
      const [from, start] = last ?? [at, y];
      const n = Math.max(1, Math.abs(at - from));
      for (let k = 0; k <= n; k++) this.#target[from + Math.sign(at - from) * k] = start + (y - start) * k / n;
      last = [at, y];
      this.#surface.request();
    };
    strokes(canvas, { begin: (p) => { last = null; put(p); }, move: put });
    const presets = Object.entries(CURVES).map(([name, curve]) => button(name, () => {
      this.#target = Float32Array.from({ length: POINTS }, (_, i) => curve(across(i)));
      this.#surface.request();
    }, { class: 'chip' }));
    stage.append(canvas, el('div', { class: 'row spread' },
      el('div', { class: 'row', role: 'group', 'aria-label': 'Targets' }, presets),
      el('div', { class: 'legend' },
        el('span', {}, el('i', { class: 'key second' }), 'target'), el('span', {}, el('i', { class: 'key accent' }), 'network'))));
  }

  unmount() {
    this.#surface.stop();
  }

  #draw(context, width, height) {
    const at = (x, y) => [(x + 1) / 2 * width, (1 - y) / 2 * height];
    context.strokeStyle = colour('line');
    context.lineWidth = 1;
    for (let k = 1; k < 8; k++) line(context, [at(k / 4 - 1, -1), at(k / 4 - 1, 1)], colour(k === 4 ? 'line-strong' : 'line'), 1);
    for (let k = 1; k < 4; k++) line(context, [at(-1, k / 2 - 1), at(1, k / 2 - 1)], colour(k === 2 ? 'line-strong' : 'line'), 1);
    context.fillStyle = colour('second-faint');
    for (const [x, y] of this.#seen) {
      context.beginPath();
      context.arc(...at(x, y), 3, 0, 7);
      context.fill();
    }
    context.lineJoin = context.lineCap = 'round';
    line(context, Array.from(this.#target, (y, i) => at(across(i), y)), colour('second'), 2);
    if (this.#guess) line(context, Array.from(this.#guess, (y, i) => at(across(i), y)), colour('accent'), 3);
  }
}
