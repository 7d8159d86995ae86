// Text: a small GPT learns to continue the characters of a text that the visitor may replace, and writes a sample every so often.

import { Transformer } from '../../samples/dist/addition.js';
import { below, choose } from '../../samples/dist/common/random.js';
import { el, field } from '../dom.js';
import { PARAGRAPH } from '../paragraph.js';

/** Characters of a sample, and how long it may take: on a slow device it is shorter. */
const LENGTH = 180;
const TIME = 1500;

export class Text {
  static id = 'text';
  static source = 'addition';
  static title = 'Text';
  static line = 'A small GPT on your text';
  static about = 'A small GPT learns the text below, one character after another, and writes its own from time to time. Paste any other text.';
  static unit = 'tokens';
  static lr = 0.003;
  static settings = [
    { name: 'width', label: 'Width', values: [32, 48, 64, 96, 128], value: 64 },
    { name: 'layers', label: 'Layers', values: [1, 2, 3, 4], value: 2 },
    { name: 'heads', label: 'Heads', values: [1, 2, 3, 4, 8], value: 4 },
    { name: 'context', label: 'Context', values: [16, 32, 64, 128], value: 64, inputs: true },
    { name: 'batch', label: 'Batch', values: [8, 16, 32, 64], value: 32, inputs: true },
  ];

  #random;
  #letters = [];
  #ids = new Int32Array(0);
  #every = 100;
  #next = 0;
  #temperature = 0.7;
  #parts = {};

  constructor(settings, random) {
    this.settings = settings;
    this.#random = random;
    this.#read(PARAGRAPH);
  }

  get units() {
    return this.settings.batch * this.settings.context;
  }

  /** Takes a text over: its letters are the vocabulary. */
  #read(text) {
    this.#letters = [...new Set(text)].sort();
    const numbers = new Map(this.#letters.map((letter, i) => [letter, i]));
    this.#ids = Int32Array.from(text, (letter) => numbers.get(letter));
  }

  program({ width, layers, heads, context, batch }) {
    return {
      model: new Transformer({ vocabulary: this.#letters.length, context, width, layers, heads }),
      loss: (m, { ids, next }) => m.fwd(ids).crossEntropy(next),
      inputs: { ids: { shape: [batch, context], dtype: 'i32' }, next: { shape: [batch, context], dtype: 'i32' } },
      optimizer: { kind: 'adamw', weightDecay: 0.01, clipGradNorm: 1 },
    };
  }

  forward({ context }) {
    return { forward: (m, { ids }) => m.fwd(ids), inputs: { ids: { shape: [1, context], dtype: 'i32' } } };
  }

  batch() {
    const { batch, context } = this.settings;
    const ids = new Int32Array(batch * context);
    const next = new Int32Array(batch * context);
    for (let row = 0; row < batch; row++) {
      const start = below(this.#random, this.#ids.length - context);
      ids.set(this.#ids.subarray(start, start + context), row * context);
      next.set(this.#ids.subarray(start + 1, start + context + 1), row * context);
    }
    return { ids, next };
  }

  again() {
    this.#next = 0;
    this.#parts.out.replaceChildren();
    this.#parts.at.textContent = '';
  }

  /** A sample, if it is time for one: each letter is drawn from what the network says about the next. */
  async refresh(infer, step) {
    if (step < this.#next || step === 0) return;
    this.#next = step + this.#every;
    const { context } = this.settings;
    const letters = this.#letters;
    const prompt = [...this.#parts.prompt.value].map((letter) => letters.indexOf(letter)).filter((id) => id >= 0);
    const text = prompt.length > 0 ? prompt : [Math.max(0, letters.indexOf(' '))];
    const rest = el('span');
    this.#parts.out.replaceChildren(el('span', { class: 'prompt' }, text.map((id) => letters[id]).join('')), rest);
    this.#parts.at.textContent = `after ${step.toLocaleString('en')} steps`;
    const begin = performance.now();
    for (let i = 0; i < LENGTH && performance.now() - begin < TIME; i++) {
      const seen = text.slice(-context);
      const ids = new Int32Array(context);
      ids.set(seen);
      const result = await infer.run({ ids });
      if (result.kind === 'failed') throw result.error;
      if (result.kind !== 'completed' || letters !== this.#letters || context !== this.settings.context) return;
      // What comes after the text is filled with zeros, which a causal network does not see.
      const at = (seen.length - 1) * letters.length;
      const id = choose(Math.random, result.output.subarray(at, at + letters.length), this.#temperature);
      text.push(id);
      rest.append(letters[id]);
    }
  }

  mount(stage) {
    const box = el('textarea', { rows: 7, value: PARAGRAPH, spellcheck: false });
    const note = el('p', { class: 'small', role: 'status' });
    const describe = () => { note.textContent = `${this.#ids.length.toLocaleString('en')} characters, ${this.#letters.length} different ones.`; };
    box.addEventListener('change', async () => {
      const text = box.value.normalize('NFC');
      if (text.length < 2 * Math.max(...Text.settings.find(({ name }) => name === 'context').values)) {
        note.textContent = 'This is too short to learn from: 256 characters at least.';
        return;
      }
      // The model that runs has the old letters: it rests while they change.
      const going = this.session.state === 'running';
      if (going) await this.session.pause();
      const before = [this.#letters, this.#ids];
      this.#read(text);
      if (this.session.train && before[0].join('') !== this.#letters.join('')) {
        note.textContent = 'A model for this text is compiled…';
        if (!await this.session.resize(this.settings, { inputs: false })) [this.#letters, this.#ids] = before;
      }
      if (going) void this.session.start();
      describe();
    });
    const prompt = el('input', { type: 'text', value: 'The ', maxLength: 60, spellcheck: false });
    const every = el('input', { type: 'number', min: 1, max: 10000, step: 1, value: this.#every, inputMode: 'numeric' });
    every.addEventListener('input', () => {
      if (!every.validity.valid || every.value === '') return;
      this.#every = Number(every.value);
      this.#next = 0;
    });
    const shown = el('output', {}, this.#temperature.toFixed(2));
    const temperature = el('input', { type: 'range', min: 0.1, max: 1.5, step: 0.05, value: this.#temperature });
    temperature.addEventListener('input', () => {
      this.#temperature = Number(temperature.value);
      shown.textContent = this.#temperature.toFixed(2);
    });
    const out = el('p', { class: 'sample', 'aria-label': 'What the network writes' });
    const at = el('span', { class: 'small' });
    this.#parts = { prompt, out, at };
    stage.append(
      el('div', {}, el('div', { class: 'row spread' }, el('strong', {}, 'It writes'), at), out),
      el('div', { class: 'three' },
        field('Begin with', prompt), field('A sample every … steps', every),
        el('div', { class: 'field wide' }, el('label', { for: temperature.id ||= 'temperature' }, 'Temperature'), shown, temperature)),
      el('div', {}, field('It learns from', box), note));
    describe();
  }

  unmount() {}
}
