// Light and dark. In: the toggle, and what index.html has chosen before anything was painted. What always holds: the system's choice counts until the
// visitor makes another, which is remembered where the browser allows it.

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
  const { dataset } = document.documentElement;
  const use = (theme) => {
    dataset.theme = theme;
    toggle.setAttribute('aria-label', theme === 'dark' ? 'Use the light theme' : 'Use the dark theme');
    repaint();
  };
  toggle.addEventListener('click', () => {
    const next = dataset.theme === 'dark' ? 'light' : 'dark';
    store(next);
    use(next);
  });
  dark.addEventListener('change', () => {
    if (stored() === null) use(dark.matches ? 'dark' : 'light');
  });
  use(dataset.theme);
}
