// An error in place. In: what was thrown. Out: its kind, what is wrong, what helps, and the line of the sample where it is.

import { button, el } from './dom.js';

const TITLES = {
  trace: 'The model does not fit together', 'not-finite': 'The numbers ran away', lost: 'The GPU was lost', trap: 'A step failed',
  device: 'The device refused', plan: 'It does not fit into memory', unsupported: 'Not possible here', network: 'A file could not be loaded',
};

export function showError(place, error) {
  const kind = error?.kind ?? 'internal';
  const [message] = String(error?.message ?? error).split(/\n(?:note|help): |\n {2}-->/);
  const lines = (error?.rendered ?? '').split('\n');
  const from = lines.findIndex((line) => line.startsWith('  -->'));
  const help = [...(error?.help ?? [])];
  if (kind === 'not-finite') help.push('lower the learning rate, then go on or reset');
  if (kind === 'lost') help.push('start again: it is compiled anew');
  place.replaceChildren(el('section', { class: 'error' },
    el('header', {}, el('strong', {}, TITLES[kind] ?? 'Something went wrong'), el('code', { class: 'kind' }, kind),
      button('×', () => place.replaceChildren(), { class: 'quiet', 'aria-label': 'Dismiss' })),
    el('p', {}, message),
    (error?.notes ?? []).map((note) => el('p', { class: 'note' }, note)),
    help.length > 0 && el('ul', {}, help.map((text) => el('li', {}, text))),
    error?.origin && el('p', { class: 'note' }, `line ${error.origin.line} of ${error.origin.file.replace(/^.*\/(?=samples\/|demo\/)/, '')}`),
    from >= 0 && lines.length > from + 1 && el('pre', { tabIndex: 0 }, lines.slice(from + 1).join('\n'))));
  // On a phone the form may be out of sight when something goes wrong.
  place.scrollIntoView({ block: 'nearest' });
}
