// The form of sizes, seed and device. In: what a sample can vary, and its values. Out: calls when one is changed. What always holds: a
// change that was refused is taken back, so that the form shows what runs.

import { el, field } from './dom.js';

export function settingsForm(place, settings, values, { resize, restart }) {
  const selects = settings.map((setting) => {
    const { name, label, values: offered } = setting;
    // A size from the address may be none of those on offer.
    const all = [...new Set([...offered, values[name]])].sort((a, b) => a - b);
    const select = el('select', { name }, all.map((value) => el('option', { value, selected: value === values[name] }, String(value))));
    let applied = values[name];
    select.addEventListener('change', async () => {
      const wanted = Number(select.value);
      select.setAttribute('aria-busy', 'true');
      if (await resize({ [name]: wanted }, setting)) applied = wanted;
      else select.value = applied;
      select.removeAttribute('aria-busy');
    });
    return field(label, select);
  });
  const seed = el('input', { name: 'seed', type: 'number', min: 0, max: 4294967295, step: 1, value: values.seed, inputMode: 'numeric' });
  seed.addEventListener('change', () => {
    if (seed.validity.valid && seed.value !== '') restart({ seed: Number(seed.value) });
    else seed.value = values.seed;
  });
  const device = el('select', { name: 'device' }, [['auto', 'Automatic'], ['webgpu', 'WebGPU'], ['cpu', 'CPU']]
    .map(([value, text]) => el('option', { value, selected: value === values.device }, text)));
  device.addEventListener('change', () => restart({ device: device.value }));
  place.replaceChildren(...selects, field('Seed', seed), field('Device', device));
}
