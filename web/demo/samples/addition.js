// Addition: a causal transformer learns sums of two-digit numbers, character by character, and is shown sums that it has to finish.

import { argmax, constant, crossEntropy, mul, sum } from '../../dist/index.js';
import { el, field } from '../dom.js';
import { below } from '../random.js';
import { Transformer } from '../transformer.js';

/** `47+85=132`: the model sees the first eight characters and is asked for the last three. */
const CONTEXT = 8;
const DIGITS = 3;
const PLUS = 10;
const EQUALS = 11;
const SHOWN = 28;

const characters = (a, b) => {
  const s = a + b;
  return [Math.floor(a / 10), a % 10, PLUS, Math.floor(b / 10), b % 10, EQUALS, Math.floor(s / 100), Math.floor(s / 10) % 10, s % 10];
};

export class Addition {
  static id = 'addition';
  static title = 'Addition';
  static line = 'A transformer learns 47 + 85';
  static about = 'A causal transformer sees sums as text and predicts the next character. Nobody tells it what a number is. It writes all three digits of each answer itself.';
  static unit = 'tokens';
  static lr = 0.002;
  static settings = [
    { name: 'width', label: 'Width', values: [32, 48, 64, 96, 128], value: 64 },
    { name: 'layers', label: 'Layers', values: [1, 2, 3, 4], value: 3 },
    { name: 'heads', label: 'Heads', values: [1, 2, 3, 4, 8], value: 4 },
    { name: 'batch', label: 'Batch', values: [32, 64, 128, 256, 512], value: 256, inputs: true },
  ];

  optimizer = { kind: 'adam', clipGradNorm: 1 };
  #random;
  #problems;
  #cells = [];
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
    this.#problems = Array.from({ length: SHOWN }, (_, i) => (i === 0 ? [47, 85] : [below(random, 100), below(random, 100)]));
  }

  get units() {
    return this.settings.batch * CONTEXT;
  }

  program({ width, layers, heads, batch }) {
    const asked = Array.from({ length: CONTEXT }, (_, i) => (i >= CONTEXT - DIGITS ? 1 / (batch * DIGITS) : 0));
    return {
      model: new Transformer({ vocabulary: 12, context: CONTEXT, width, layers, heads }),
      // The mean over the digits of the answers: what comes before is random and cannot be learnt.
      loss: (m, { ids, next }) => sum(mul(crossEntropy(m.fwd(ids), next, { reduction: 'none' }), constant(asked, [CONTEXT]))),
      inputs: { ids: { shape: [batch, CONTEXT], dtype: 'i32' }, next: { shape: [batch, CONTEXT], dtype: 'i32' } },
    };
  }

  forward() {
    return { forward: (m, { ids }) => argmax(m.fwd(ids), -1), inputs: { ids: { shape: [SHOWN, CONTEXT], dtype: 'i32' } }, output: 'i32' };
  }

  batch() {
    const { batch } = this.settings;
    const ids = new Int32Array(batch * CONTEXT);
    const next = new Int32Array(batch * CONTEXT);
    for (let row = 0; row < batch; row++) {
      const text = characters(below(this.#random, 100), below(this.#random, 100));
      for (let i = 0; i < CONTEXT; i++) {
        ids[row * CONTEXT + i] = text[i];
        next[row * CONTEXT + i] = text[i + 1];
      }
    }
    return { ids, next };
  }

  again() {
    this.#show(null);
  }

  /** All sums at once, a digit a run: what it wrote is what it reads next. */
  async refresh(infer) {
    const ids = new Int32Array(SHOWN * CONTEXT);
    this.#problems.forEach(([a, b], row) => ids.set(characters(a, b).slice(0, CONTEXT - DIGITS + 1), row * CONTEXT));
    const answers = this.#problems.map(() => []);
    for (let digit = 0; digit < DIGITS; digit++) {
      const at = CONTEXT - DIGITS + digit;
      const result = await infer.run({ ids });
      if (result.kind === 'failed') throw result.error;
      if (result.kind !== 'completed') return;
      answers.forEach((answer, row) => {
        const written = result.output[row * CONTEXT + at];
        answer.push(written);
        if (digit + 1 < DIGITS) ids[row * CONTEXT + at + 1] = written;
      });
    }
    this.#show(answers);
  }

  #show(answers) {
    let right = 0;
    this.#problems.forEach(([a, b], row) => {
      const { left, digits, item } = this.#cells[row];
      left.textContent = `${pad(a)} + ${pad(b)} = `;
      const wanted = characters(a, b).slice(-DIGITS);
      const all = wanted.every((digit, i) => answers?.[row][i] === digit);
      if (answers && all) right++;
      digits.forEach((cell, i) => {
        const got = answers?.[row][i];
        cell.textContent = got === undefined ? '·' : got < 10 ? got : '+='[got - PLUS];
        cell.className = got === undefined ? '' : got === wanted[i] ? 'right' : 'wrong';
      });
      item.title = answers ? (all ? 'right' : `it is ${wanted.join('')}`) : '';
    });
    this.#parts.score.textContent = answers ? `${right} of ${SHOWN} right` : '';
  }

  mount(stage) {
    this.#cells = this.#problems.map(() => {
      const left = el('span');
      const digits = Array.from({ length: DIGITS }, () => el('b'));
      return { left, digits, item: el('li', {}, left, digits) };
    });
    const score = el('strong', { class: 'score' });
    this.#parts = { score };
    const inputs = ['First number', 'Second number'].map((name, i) => {
      const input = el('input', { type: 'number', min: 0, max: 99, step: 1, value: this.#problems[0][i], inputMode: 'numeric' });
      input.addEventListener('input', () => {
        if (!input.validity.valid || input.value === '') return;
        this.#problems[0][i] = Number(input.value);
        this.#show(null);
        void this.session.refresh().catch(() => undefined);
      });
      return field(name, input);
    });
    stage.append(
      el('div', { class: 'row spread' },
        el('div', { class: 'legend' }, el('span', {}, el('b', { class: 'right' }, '7'), 'right'), el('span', {}, el('b', { class: 'wrong' }, '7'), 'wrong')), score),
      el('ol', { class: 'sums' }, this.#cells.map(({ item }) => item)),
      el('div', { class: 'own-sum' }, el('p', { class: 'small' }, 'Your own sum is the first one:'), inputs));
    this.#show(null);
  }

  unmount() {}
}

const pad = (n) => String(n).padStart(2, '0');
