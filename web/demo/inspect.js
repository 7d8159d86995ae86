// What is running: tabs with counts, memory, kernels, graph. In: the session's training. Out: what its `inspect()` says. What always holds:
// it is asked for only while the panel can be seen, once for each compiled program, and only the tab that is open is built.

import { el } from './dom.js';
import { showError } from './errors.js';
import { kernels } from './kernels.js';
import { memory } from './memory.js';

const bytes = (n) => (n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(2)} MB`);
const time = (ms) => (Number.isNaN(ms) ? '–' : ms < 10 ? `${ms.toFixed(1)} ms` : ms < 2000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
const many = (n) => n.toLocaleString('en');

const TABS = [
  ['counts', 'Counts', counts],
  ['kernels', 'Kernels', ({ inspection }) => kernels(inspection.kernels)],
  ['memory', 'Memory', ({ inspection }) => memory(inspection, bytes)],
  ['graph', 'Graph', graph],
];

export class Inspector {
  #session;
  #tabs;
  #panel;
  #open = 'counts';
  #seen = false;
  /** Of which training, and what is shown of it. */
  #shown = null;
  #asked = 0;

  constructor(place, session) {
    this.#session = session;
    this.#tabs = TABS.map(([id, label]) => el('button', {
      type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': 'inspect-panel', onclick: () => this.#choose(id),
    }, label));
    this.#panel = el('div', { role: 'tabpanel', id: 'inspect-panel', class: 'panel', tabIndex: 0 });
    const list = el('div', { role: 'tablist', class: 'tabs', 'aria-label': 'What is running' }, this.#tabs);
    list.addEventListener('keydown', (event) => {
      const at = TABS.findIndex(([id]) => id === this.#open);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = (to + TABS.length) % TABS.length;
      this.#choose(TABS[next][0]);
      this.#tabs[next].focus();
    });
    place.append(list, this.#panel);
    new IntersectionObserver(([entry]) => {
      this.#seen = entry.isIntersecting;
      if (this.#seen) void this.#load();
    }, { rootMargin: '120px' }).observe(place);
    this.#build();
  }

  /** Another program is running, or none. */
  refresh() {
    this.#shown = null;
    this.#asked++;
    this.#build();
    if (this.#seen) void this.#load();
  }

  async #load() {
    const session = this.#session();
    if (this.#shown || !session?.train) return;
    const asked = ++this.#asked;
    try {
      const inspection = await session.train.inspect();
      if (asked !== this.#asked) return;
      this.#shown = { inspection, session };
      this.#build();
    } catch (thrown) {
      if (asked === this.#asked) showError(this.#panel, thrown);
    }
  }

  #choose(id) {
    this.#open = id;
    this.#build();
  }

  #build() {
    TABS.forEach(([id], i) => {
      this.#tabs[i].setAttribute('aria-selected', String(id === this.#open));
      this.#tabs[i].tabIndex = id === this.#open ? 0 : -1;
    });
    this.#panel.setAttribute('aria-labelledby', `tab-${this.#open}`);
    const [, , make] = TABS.find(([id]) => id === this.#open);
    this.#panel.replaceChildren(this.#shown ? make(this.#shown)
      : el('p', { class: 'empty' }, this.#session?.()?.train ? 'One moment…' : 'Start the training: the compiled program is shown here.'));
  }
}

function counts({ inspection, session }) {
  const { counts: c, kernels: all } = inspection;
  const { timing, train } = session;
  const parameters = Object.values(train.paramShapes).reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0);
  const item = (name, value, more) => el('div', {}, el('dt', {}, name), el('dd', {}, value), more && el('dd', { class: 'small' }, more));
  return el('dl', { class: 'counts' },
    item('Parameters', many(parameters), `${train.paramNames.length} tensors`),
    item('Launches', many(c.launches), 'fused operations of a step'),
    item('Dispatches', many(c.dispatches), c.passes > 0 ? `${c.passes} pass, ${c.submits} submit a step` : 'no GPU: loops on the CPU'),
    item('Pipelines', many(c.pipelines), `${all.length} kernels`),
    item('Memory', bytes(c.bytes), `${bytes(c.store)} of it parameters and optimizer`),
    item('Arithmetic', `${(inspection.plan.totals.flops / 1e6).toFixed(1)} M`, 'operations of a step'),
    item('Compiled in', time(timing.compile), 'worker, tracing, passes, shaders'),
    item('First step', time(timing.first), `seed ${train.seed}`));
}

function graph({ inspection }) {
  const text = el('pre', { class: 'code tall', tabIndex: 0, 'aria-label': 'Graph' });
  const show = (what) => { text.textContent = inspection[what].replaceAll(location.href.replace(/demo\/.*$/, ''), ''); };
  const option = (what, label, checked) => el('label', {},
    el('input', { type: 'radio', name: 'graph', checked, onchange: () => show(what) }), label);
  show('passes');
  return el('div', {},
    el('fieldset', { class: 'row choices' }, el('legend', { class: 'hidden' }, 'Which graph'),
      option('passes', 'With backward and optimizer, after the passes', true), option('traced', 'As it was traced', false)),
    text);
}
