// The kernels of a program. In: their labels, workgroups and WGSL. Out: a list, and the source of the chosen one, coloured where the
// browser has the custom highlight interface: one text node, however long the source is.

import { el } from './dom.js';

const WORDS = /\/\/[^\n]*|\b(?:fn|let|var|if|else|for|loop|return|struct|const|switch|case|break|continue|continuing|while|workgroup|storage|uniform|read|read_write|enable|override|private|function)\b|@\w+(?:\([^)]*\))?|\b\d[\w.]*/g;

export function kernels(list) {
  if (list.length === 0) return el('p', { class: 'empty' }, 'On the CPU there is no WGSL: the same fused operations run as loops.');
  const title = el('h3');
  const source = el('pre', { class: 'code tall', tabIndex: 0, 'aria-label': 'WGSL' });
  const size = Math.max(...list.map(({ source }) => source.length));
  const entries = list.map((kernel, i) => {
    const radio = el('input', { type: 'radio', name: 'kernel', class: 'hidden', checked: i === 0, onchange: () => choose(kernel) });
    return el('label', {}, radio, el('span', {},
      el('span', { class: 'name' }, kernel.label),
      el('small', {}, `${kernel.workgroups.join(' × ')}`),
      // How long the source is, as a thin bar: the heavy kernels are found at a glance.
      el('i', { style: `width: ${Math.max(2, 100 * kernel.source.length / size)}%` })));
  });
  const choose = ({ label, source: text, workgroups }) => {
    title.textContent = `${label} · ${workgroups.join(' × ')} workgroups · ${text.split('\n').length} lines`;
    source.textContent = text;
    source.scrollTop = 0;
    highlight(source.firstChild, text);
  };
  choose(list[0]);
  return el('div', { class: 'kernels' },
    el('fieldset', { class: 'kernel-list' }, el('legend', {}, 'Kernel, workgroups, length of its source'), entries),
    el('div', { class: 'kernel-source' }, title, source));
}

function highlight(node, text) {
  if (!globalThis.CSS?.highlights) return;
  const ranges = { comment: [], word: [], attribute: [], number: [] };
  for (const match of text.matchAll(WORDS)) {
    const [found] = match;
    const range = new StaticRange({ startContainer: node, startOffset: match.index, endContainer: node, endOffset: match.index + found.length });
    ranges[found.startsWith('//') ? 'comment' : found.startsWith('@') ? 'attribute' : /^\d/.test(found) ? 'number' : 'word'].push(range);
  }
  for (const [name, list] of Object.entries(ranges)) CSS.highlights.set(`wgsl-${name}`, new Highlight(...list));
}
