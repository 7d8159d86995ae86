// Light and dark. In: the toggle. What always holds: the system's choice counts until the visitor makes another, which is remembered
// where the browser allows it.

import { repaint } from './canvas.js';

const KEY = 'gradloom-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

const stored = () => {
  try { return localStorage.getItem(KEY); } catch { return null; }
};
const store = (theme) => {
  try { localStorage.setItem(KEY, theme); } catch { /* private windows have no storage */ }
};

export function themes(toggle) {
  const now = () => document.documentElement.dataset.theme ?? (dark.matches ? 'dark' : 'light');
  const show = () => {
    toggle.setAttribute('aria-label', now() === 'dark' ? 'Use the light theme' : 'Use the dark theme');
    repaint();
  };
  const before = stored();
  if (before === 'dark' || before === 'light') document.documentElement.dataset.theme = before;
  toggle.addEventListener('click', () => {
    const next = now() === 'dark' ? 'light' : 'dark';
    document.documentElement.dataset.theme = next;
    store(next);
    show();
  });
  dark.addEventListener('change', show);
  show();
}
