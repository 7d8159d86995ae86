// The memory plan. In: a plan's buffers. Out: a bar of what is kept and what a step needs, by role; a map of the step's memory, in which
// a rectangle is a value: across, the launches in which it lives; up, its place; and the plan as text.

import { colour, surface } from './canvas.js';
import { el } from './dom.js';

const ROLES = [
  ['parameter', 'parameters', 'role-a'], ['state', 'optimizer', 'role-b'], ['temporary', 'temporaries', 'role-c'],
  ['input', 'inputs', 'role-d'], ['other', 'outputs, scalars', 'role-e'],
];
const roleOf = ({ role }) => (ROLES.some(([name]) => name === role) ? role : 'other');

export function memory({ plan }, bytes) {
  const { totals } = plan;
  // What is written over its own predecessor ('next') has no memory of its own.
  const buffers = plan.buffers.filter(({ role }) => role !== 'next');
  const sums = new Map(ROLES.map(([role]) => [role, 0]));
  for (const buffer of buffers) sums.set(roleOf(buffer), sums.get(roleOf(buffer)) + buffer.bytes);
  const stored = sums.get('parameter') + sums.get('state');
  const shared = buffers.filter(({ region }) => region === 'step').reduce((sum, { bytes }) => sum + bytes, 0);
  const bars = ROLES.filter(([role]) => sums.get(role) > 0).map(([role, name, tone]) => el('li', {},
    el('span', { class: 'swatch', style: `background: var(--${tone})` }), el('span', {}, name), el('b', {}, bytes(sums.get(role)))));
  const whole = stored + totals.step;
  const part = (size, tone, name) => el('i', { style: `flex-grow: ${size / whole}; background: var(--${tone})`, title: `${name}: ${bytes(size)}` });
  const step = buffers.filter(({ region, bytes }) => region === 'step' && bytes > 0);
  const canvas = el('canvas', {
    class: 'map', role: 'img', 'aria-label': `The memory of a step over its ${plan.launches.length} launches; the plan below has the same as text`,
  });
  const tip = el('p', { class: 'small tip' }, 'Point at a value to see what it is.');
  let over = null;
  const last = Math.max(1, plan.launches.length);
  const boxes = (width, height) => step.map((buffer) => ({
    buffer, x: buffer.first / last * width, y: height - (buffer.offset + buffer.bytes) / totals.step * height,
    w: Math.max(2, (buffer.last + 1 - buffer.first) / last * width - 1), h: Math.max(1, buffer.bytes / totals.step * height - 0.5),
  }));
  let drawn = [];
  const { request } = surface(canvas, (context, width, height) => {
    drawn = boxes(width, height);
    drawn.forEach(({ buffer, x, y, w, h }, i) => {
      // Opaque: where a value takes the place of one that dies in the same launch, the later one is seen. Two shades tell neighbours apart.
      context.globalAlpha = 1;
      context.fillStyle = colour('sunken');
      context.fillRect(x, y, w, h);
      context.fillStyle = colour(ROLES.find(([role]) => role === roleOf(buffer))[2]);
      context.globalAlpha = over === buffer ? 1 : over !== null ? 0.25 : i % 2 === 0 ? 0.8 : 0.6;
      context.fillRect(x, y, w, h);
    });
    context.globalAlpha = 1;
  });
  canvas.addEventListener('pointermove', ({ offsetX, offsetY }) => {
    const found = drawn.findLast(({ x, y, w, h }) => offsetX >= x && offsetX <= x + w && offsetY >= y - 1 && offsetY <= y + h + 1);
    over = found?.buffer ?? null;
    const name = (text) => text.replace(/ at https?:.*\/([^/]+:\d+):\d+$/, ' at $1');
    tip.textContent = over
      ? `${name(over.name)} · ${over.dtype}[${over.shape.join(', ')}] · ${bytes(over.bytes)} at ${over.offset} · launches ${over.first} to ${Math.min(over.last, last - 1)}`
      : 'Point at a value to see what it is.';
    request();
  });
  canvas.addEventListener('pointerleave', () => {
    over = null;
    request();
  });
  // Long for a large model: written when it is opened.
  const pre = el('pre', { class: 'code tall', tabIndex: 0, 'aria-label': 'The plan' });
  const text = el('details', { ontoggle: () => { pre.textContent ||= planText(plan); } }, el('summary', {}, 'The plan as text'), pre);
  return el('div', { class: 'memory' },
    el('div', { class: 'stack', 'aria-hidden': 'true' },
      part(sums.get('parameter'), 'role-a', 'parameters'), part(sums.get('state'), 'role-b', 'optimizer'), part(totals.step, 'role-c', 'a step')),
    el('ul', { class: 'roles' }, bars),
    el('p', { class: 'small' }, `${step.length} values of a step, ${bytes(shared)} together, share ${bytes(totals.step)}: a place is used again as soon as its value is dead.`),
    canvas, tip,
    text);
}

/** Every launch with what it reads and writes, then every value, the largest first. */
function planText({ totals, launches, buffers }) {
  const { store, constants, step, workspace, peak } = totals;
  const place = (name) => name.replace(/ at https?:.*\/([^/]+:\d+):\d+$/, ' at $1');
  const used = ({ buffer }) => `${buffers[buffer].value} @${buffers[buffer].region}+${buffers[buffer].offset}`;
  const column = (value, width) => String(value).padStart(width);
  const valueLine = ({ bytes, region, offset, first, last, role, dtype, shape, name }) =>
    `${column(bytes, 10)}  ${`${region}+${offset}`.padEnd(16)}${column(first, 4)}..${String(last).padEnd(5)} ${role.padEnd(10)} ${dtype}[${shape.join(', ')}] ${place(name)}`;
  return [
    `${launches.length} launches; peak ${peak} bytes = store ${store} + constants ${constants} + step ${step} + workspace ${workspace}`, '',
    ...launches.map(({ name, phase, reads, writes }, i) =>
      `${column(i, 5)} ${phase.padEnd(8)} ${name}: ${reads.map(used).join(', ')} -> ${writes.map(used).join(', ')}`), '',
    '     bytes  place           launches   role       value',
    ...[...buffers].sort((a, b) => b.bytes - a.bytes).map(valueLine),
  ].join('\n');
}

