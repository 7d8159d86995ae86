// Handwriting: a small convolutional network over 16 x 16 pixels. It learns from digits that code writes, and from what the visitor adds; its guess about
// the drawing follows every stroke.

import { PIXELS, batchOf, drawings, drawn, read } from '../../samples/dist/cnn.js';
import { below, generator, largest } from '../../samples/dist/common/random.js';
import { SIDE, pixels, varied, written } from '../../samples/dist/common/strokes.js';
import { colour, strokes, surface } from '../canvas.js';
import { button, el } from '../dom.js';
import { strokesOf } from '../pixels.js';

const EXAM = 100;
const SHOWN = 30;

export class Digits {
  static id = 'digits';
  static source = 'cnn';
  static title = 'Handwriting';
  static line = 'Reads digits, yours too';
  static about = 'A small convolutional network reads digits of 16 × 16 pixels. Draw one: the bars follow every stroke. Where it is wrong, add your drawing as an example.';
  static unit = 'drawings';
  static lr = 0.002;
  static settings = [
    { name: 'channels', label: 'Channels', values: [4, 8, 16, 32], value: 8 },
    { name: 'batch', label: 'Batch', values: [16, 32, 64, 128], value: 64, inputs: true },
  ];

  #random;
  #drawings;
  /** The visitor's: { lines, digit }. */
  #own = [];
  #exam;
  #lines;
  /** Whether what is on the pad is ours, to be cleared by the first stroke. */
  #lent = true;
  #probabilities = null;
  #infer = null;
  #guessing = false;
  #again = false;
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
    this.#drawings = drawings(random);
    this.#lines = written(3, generator(5));
    const exam = generator(12345);
    this.#exam = batchOf(Array.from({ length: EXAM }, (_, i) => drawn(i % 10, exam))).images;
  }

  get units() {
    return this.settings.batch;
  }

  program(settings) {
    return read(settings);
  }

  forward() {
    // One drawing after a stroke, a hundred for the share of right ones: each extent is compiled once.
    return { forward: (m, { images }) => m.fwd(images).softmax(), inputs: { images: [null, PIXELS] } };
  }

  batch() {
    const { batch } = this.settings;
    const random = this.#random;
    // A quarter is the visitor's, each time as another hand would draw it: a few examples go far.
    const own = Array.from({ length: this.#own.length > 0 ? batch >> 2 : 0 }, () => {
      const { lines, digit } = this.#own[below(random, this.#own.length)];
      return { digit, image: pixels(varied(lines, random, 0.6), random) };
    });
    return batchOf([...own, ...this.#drawings(batch - own.length)]);
  }

  again() {
    this.#probabilities = null;
    this.#show();
    this.#parts.score.textContent = '';
  }

  async refresh(infer) {
    this.#infer = infer;
    const result = await infer.run({ images: this.#exam });
    if (result.kind === 'failed') throw result.error;
    if (result.kind === 'completed') {
      let right = 0;
      for (let i = 0; i < EXAM; i++) if (largest(result.output.subarray(10 * i, 10 * i + 10)) === i % 10) right++;
      this.#parts.score.textContent = `${Math.round(100 * right / EXAM)}% of ${EXAM} drawings it has not seen`;
    }
    await this.#guess();
  }

  /** What the network says about the pad. Strokes come faster than answers: only the last counts. */
  async #guess() {
    if (!this.#infer) return;
    if (this.#guessing) {
      this.#again = true;
      return;
    }
    this.#guessing = true;
    do {
      this.#again = false;
      const result = await this.#infer.run({ images: pixels(this.#lines) });
      if (result.kind === 'completed' && this.#lines.length > 0) this.#probabilities = result.output;
      else this.#probabilities = null;
      this.#show();
    } while (this.#again);
    this.#guessing = false;
  }

  #show() {
    const best = this.#probabilities ? largest(this.#probabilities) : -1;
    this.#parts.bars.forEach(({ bar, text, row }, digit) => {
      const p = this.#probabilities?.[digit] ?? 0;
      bar.style.transform = `scaleX(${p})`;
      text.textContent = this.#probabilities ? `${Math.round(100 * p)}%` : '';
      row.classList.toggle('best', digit === best);
    });
    this.#parts.pad.request();
  }

  mount(stage) {
    const canvas = el('canvas', {
      class: 'pad drawable', role: 'img', 'aria-label': 'Draw a digit here. The button Another puts a written one here without a pointer.',
    });
    const pad = surface(canvas, (context, width, height) => {
      context.strokeStyle = colour(this.#lent ? 'muted' : 'ink');
      context.lineWidth = width / 15;
      context.lineJoin = context.lineCap = 'round';
      for (const line of this.#lines) {
        context.beginPath();
        for (const [x, y] of line) context.lineTo(x * width, y * height);
        if (line.length === 1) context.lineTo(line[0][0] * width + 0.1, line[0][1] * height);
        context.stroke();
      }
    });
    const changed = () => {
      pad.request();
      void this.#guess();
    };
    strokes(canvas, {
      begin: (point) => {
        if (this.#lent) this.#lines = [];
        this.#lent = false;
        this.#lines.push([point]);
        changed();
      },
      move: (point) => {
        this.#lines.at(-1).push(point);
        changed();
      },
    });
    const clear = () => {
      this.#lines = [];
      this.#lent = false;
      changed();
    };
    const another = () => {
      this.#lines = written(below(this.#random, 10), this.#random);
      this.#lent = true;
      changed();
    };
    const bars = Array.from({ length: 10 }, (_, digit) => {
      const bar = el('i');
      const text = el('span', { class: 'percent' });
      return { bar, text, row: el('li', {}, el('b', {}, String(digit)), el('span', { class: 'track' }, bar), text) };
    });
    const note = el('p', { class: 'small', role: 'status' }, 'What is your drawing? Press its digit to add it.');
    const add = (digit) => {
      if (this.#lines.length === 0) {
        note.textContent = 'Draw a digit first.';
        return;
      }
      this.#own.push({ lines: this.#lines, digit });
      const n = this.#own.length;
      note.textContent = `Added as a ${digit}: ${n} ${n === 1 ? 'drawing' : 'drawings'} of yours, a quarter of each batch.`;
      const image = el('canvas', { class: 'own', title: `yours: ${digit}` });
      thumbs.prepend(image);
      strokesOf(image, pixels(this.#lines), SIDE);
      thumbs.lastElementChild.remove();
      clear();
    };
    const keys = el('div', { class: 'keys', role: 'group', 'aria-label': 'Add the drawing as an example of' },
      Array.from({ length: 10 }, (_, digit) => button(String(digit), () => add(digit), { 'aria-label': `Add the drawing as a ${digit}` })));
    const thumbs = el('div', { class: 'thumbs', role: 'img', 'aria-label': 'Some of the drawings that it learns from' });
    const looks = generator(7);
    for (let i = 0; i < SHOWN; i++) {
      const image = el('canvas');
      thumbs.append(image);
      strokesOf(image, drawn(i % 10, looks).image, SIDE);
    }
    const score = el('span', { class: 'small' });
    this.#parts = { bars, pad, score };
    stage.append(
      el('div', { class: 'draw' },
        el('div', { class: 'draw-pad' }, canvas, el('div', { class: 'row' }, button('Clear', clear, { class: 'chip' }), button('Another', another, { class: 'chip' }))),
        el('ol', { class: 'bars', 'aria-label': 'What the network takes it for' }, bars.map(({ row }) => row))),
      el('div', {}, note, keys),
      el('div', {}, el('div', { class: 'row spread small' }, el('span', {}, 'It learns from drawings like these'), score), thumbs));
  }

  unmount() {
    this.#parts.pad.stop();
  }
}
