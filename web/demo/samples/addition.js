// Addition: a causal transformer learns sums of two-digit numbers, character by character, and is shown sums that it has to finish.

import { CHARACTERS, CONTEXT, PROBLEM, SUM, add, batch, characters, problems, write } from '../../samples/dist/addition.js';
import { el, field } from '../dom.js';

const SHOWN = 28;

export class Addition {
  static id = 'addition';
  static source = 'addition';
  static title = 'Addition';
  static line = 'A transformer learns 47 + 85';
  static about = 'A causal transformer sees sums as text and predicts the next character. Nobody tells it what a number is. The sums below are among the half that it is never shown: it writes all three digits of each answer itself, the last one first.';
  static unit = 'tokens';
  static lr = 0.002;
  static settings = [
    { name: 'width', label: 'Width', values: [32, 48, 64, 96, 128], value: 64 },
    { name: 'layers', label: 'Layers', values: [1, 2, 3, 4], value: 2 },
    { name: 'heads', label: 'Heads', values: [1, 2, 3, 4, 8], value: 4 },
    { name: 'batch', label: 'Batch', values: [32, 64, 128, 256, 512], value: 256, inputs: true },
  ];

  #random;
  #problems;
  #cells = [];
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
    this.#problems = [[47, 85], ...problems(random, SHOWN - 1, false).map(([a, b, , c, d]) => [10 * a + b, 10 * c + d])];
  }

  get units() {
    return this.settings.batch * CONTEXT;
  }

  program(settings) {
    return add(settings);
  }

  forward() {
    return { forward: (m, { ids }) => m.fwd(ids).argmax(-1), inputs: { ids: { shape: [SHOWN, CONTEXT], dtype: 'i32' } }, output: 'i32' };
  }

  batch() {
    return batch(this.#random, this.settings.batch);
  }

  again() {
    this.#show(null);
  }

  /** All sums at once, a digit a run: what it wrote is what it reads next. */
  async refresh(infer) {
    let isAborted = false;
    const written = await write(this.#problems.map(([a, b]) => characters(a, b)), async (ids) => {
      const result = await infer.run({ ids });
      if (result.kind === 'failed') throw result.error;
      isAborted ||= result.kind !== 'completed';
      return result.output ?? null;
    });
    if (!isAborted) this.#show(written.map((row) => row.slice(PROBLEM).reverse()));
  }

  #show(answers) {
    let right = 0;
    this.#problems.forEach(([a, b], row) => {
      const { left, digits, item } = this.#cells[row];
      left.textContent = `${pad(a)} + ${pad(b)} = `;
      const wanted = characters(a, b).slice(PROBLEM).reverse();
      const all = wanted.every((digit, i) => answers?.[row][i] === digit);
      if (answers && all) right++;
      digits.forEach((cell, i) => {
        const got = answers?.[row][i];
        cell.textContent = got === undefined ? '·' : CHARACTERS[got];
        cell.className = got === undefined ? '' : got === wanted[i] ? 'right' : 'wrong';
      });
      item.title = answers ? (all ? 'right' : `it is ${wanted.join('')}`) : '';
    });
    this.#parts.score.textContent = answers ? `${right} of ${SHOWN} right` : '';
  }

  mount(stage) {
    this.#cells = this.#problems.map(() => {
      const left = el('span');
      const digits = Array.from({ length: SUM }, () => el('b'));
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
