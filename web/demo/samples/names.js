// Names: a recurrent network writes names that are in no list.

import { LENGTH, batch, invent, spell } from '../../samples/dist/names.js';
import { NAMES } from '../../samples/dist/common/names.js';
import { el } from '../dom.js';

const SHOWN = 30;
const KNOWN = new Set(NAMES);

export class Names {
  static id = 'names';
  static source = 'names';
  static title = 'Names';
  static line = 'Invents new ones';
  static about = `A recurrent network has read ${NAMES.length} first names, a letter at a time, and writes its own. Those that are in the list are pale.`;
  static unit = 'letters';
  static lr = 0.005;
  static settings = [
    { name: 'hidden', label: 'Memory', values: [16, 32, 64, 128], value: 64 },
    { name: 'batch', label: 'Batch', values: [8, 32, 128], value: 32, inputs: true },
  ];

  #random;
  #temperature = 0.8;
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
  }

  get units() {
    return this.settings.batch * LENGTH;
  }

  program(settings) {
    return spell(settings);
  }

  forward() {
    return { forward: (m, { signs }) => m.fwd(signs), inputs: { signs: { shape: [SHOWN, LENGTH], dtype: 'i32' } } };
  }

  batch() {
    return batch(this.#random, this.settings.batch);
  }

  again() {
    this.#show([]);
  }

  async refresh(infer) {
    let isAborted = false;
    const names = await invent(SHOWN, async (signs) => {
      const result = await infer.run({ signs });
      if (result.kind === 'failed') throw result.error;
      isAborted ||= result.kind !== 'completed';
      return result.output ?? null;
    }, Math.random, this.#temperature);
    if (!isAborted) this.#show(names);
  }

  #show(names) {
    this.#parts.items.forEach((item, i) => {
      const name = names[i] ?? '';
      item.textContent = name === '' ? '·' : name[0].toUpperCase() + name.slice(1);
      item.className = KNOWN.has(name) || name === '' ? 'known' : '';
      item.title = KNOWN.has(name) ? 'in the list' : '';
    });
    const fresh = new Set(names.filter((name) => name !== '' && !KNOWN.has(name))).size;
    this.#parts.score.textContent = names.length > 0 ? `${fresh} of ${SHOWN} are new` : '';
  }

  mount(stage) {
    const items = Array.from({ length: SHOWN }, () => el('li'));
    const score = el('strong', { class: 'score' });
    this.#parts = { items, score };
    const shown = el('output', {}, this.#temperature.toFixed(2));
    const temperature = el('input', { type: 'range', id: 'temperature', min: 0.2, max: 1.5, step: 0.05, value: this.#temperature });
    temperature.addEventListener('input', () => {
      this.#temperature = Number(temperature.value);
      shown.textContent = this.#temperature.toFixed(2);
    });
    stage.append(
      el('div', { class: 'row spread' }, el('strong', {}, 'It writes'), score),
      el('ul', { class: 'names', 'aria-label': 'What the network writes' }, items),
      el('div', { class: 'field wide' }, el('label', { for: 'temperature' }, 'Temperature: below 1 it keeps to what is likely'), shown, temperature));
    this.#show([]);
  }

  unmount() {}
}
