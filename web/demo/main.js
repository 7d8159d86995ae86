// The page. In: the address (sample, sizes, seed, device, steps), and what the visitor does. Out: one session at a time, and everything
// that is shown of it.
//
// ?sample=addition&layers=1&width=32&batch=32&steps=30 picks a sample and sizes, and pauses after 30 steps.

import { checkWebGPU } from 'gradloom';
import { generator } from '../samples/dist/common/random.js';
import { LossChart, brief } from './chart.js';
import { el } from './dom.js';
import { showError } from './errors.js';
import { Inspector } from './inspect.js';
import { SAMPLES } from './samples/index.js';
import { Session } from './session.js';
import { settingsForm } from './settings.js';
import { themes } from './theme.js';

const $ = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const chart = new LossChart($('curve'));
const webgpu = checkWebGPU();

let Sample = SAMPLES.find(({ id }) => id === query.get('sample')) ?? SAMPLES[0];
let sample = null;
let session = null;
let options = { lr: 0, seed: number('seed', 1), device: choice('device', ['auto', 'webgpu', 'cpu']), limit: number('steps', Infinity) };
const inspector = new Inspector($('inspector'), () => session);

function number(name, otherwise) {
  const value = Number(query.get(name) ?? NaN);
  return Number.isFinite(value) && value >= 0 ? value : otherwise;
}

/** Sizes are whole numbers above 0. */
function size(name, otherwise) {
  const value = number(name, otherwise);
  return Number.isInteger(value) && value > 0 ? value : otherwise;
}

function choice(name, values) {
  return values.includes(query.get(name)) ? query.get(name) : values[0];
}

// Numbers change many times a second: they are written in animation frames only.
let frame = 0;
function show() {
  if (frame === 0) frame = requestAnimationFrame(render);
}

const STATES = { idle: 'Ready', compiling: 'Compiling…', running: 'Training', paused: 'Paused' };

function write(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

function render() {
  frame = 0;
  const { state, step, loss, stepsPerSecond } = session;
  const going = state === 'running' || state === 'compiling';
  $('status').dataset.state = state;
  write('status', STATES[state]);
  write('start', going ? 'Pause' : step > 0 ? 'Go on' : 'Start training');
  $('start').classList.toggle('primary', !going);
  $('reset').disabled = step === 0;
  write('step', step.toLocaleString('en'));
  write('loss', Number.isNaN(loss) ? '–' : loss.toPrecision(3));
  const rate = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : value >= 1e4 ? `${Math.round(value / 1e3)} k` : value >= 10 ? String(Math.round(value)) : value.toFixed(1));
  write('rate', stepsPerSecond > 0 ? rate(stepsPerSecond) : '–');
  write('units', stepsPerSecond > 0 ? rate(stepsPerSecond * sample.units) : '–');
}

async function showDevice() {
  const line = $('device');
  const tell = (state, text, title = '') => {
    line.dataset.state = state;
    line.title = title;
    line.lastElementChild.textContent = text;
  };
  const { train } = session;
  const status = await webgpu;
  if (train && train !== session.train) return;
  if (train) {
    if (train.device === 'cpu') tell('cpu', `CPU${status.ok ? '' : ` (${status.message})`}`);
    else tell('webgpu', `WebGPU · ${train.deviceName}${status.ok && status.software ? ' (software)' : ''}`);
  } else if (options.device === 'cpu') {
    tell('cpu', 'CPU, as chosen');
  } else if (status.ok) {
    tell('webgpu', `WebGPU · ${status.adapter}${status.software ? ' (software)' : ''}`);
  } else {
    tell('cpu', `No WebGPU, the CPU is used: ${status.message}`, status.help);
  }
}

const listener = {
  change: show,
  loss() {
    chart.add(session.step, session.loss);
    show();
  },
  compiled() {
    void showDevice();
    inspector.refresh();
    show();
  },
  changed(text) {
    $('error').replaceChildren();
    if (text) chart.mark(session.step, text);
  },
  failed(error) {
    showError($('error'), error);
    show();
  },
};

function showRate() {
  $('lr').value = Math.log10(options.lr);
  $('lr-value').textContent = brief(options.lr);
  $('lr').setAttribute('aria-valuetext', brief(options.lr));
}

/** Changes of the address are kept: a reload or a link shows the same. */
function remember(values) {
  for (const [name, value] of Object.entries(values)) query.set(name, value);
  history.replaceState(null, '', `?${query}`);
}

/** Ends what is there and puts a fresh sample in its place. */
function open(Chosen) {
  void session?.destroy();
  sample?.unmount();
  $('stage').replaceChildren();
  $('error').replaceChildren();
  chart.clear();
  Sample = Chosen;
  const settings = Object.fromEntries(Sample.settings.map(({ name, value }) => [name, size(name, value)]));
  options = { ...options, lr: number('lr', Sample.lr) };
  sample = new Sample(settings, generator(options.seed));
  session = new Session(sample, options, listener);
  sample.session = session;
  $('sample-title').textContent = Sample.title;
  $('about').textContent = Sample.about;
  $('source').href = `../samples/${Sample.source}.ts`;
  $('unit').textContent = `${Sample.unit[0].toUpperCase()}${Sample.unit.slice(1)} a second`;
  sample.mount($('stage'));
  settingsForm($('settings'), Sample.settings, { ...settings, seed: options.seed, device: options.device }, {
    resize: async (changed, setting) => {
      const applied = await session.resize({ ...sample.settings, ...changed }, { inputs: Boolean(setting.inputs) });
      if (applied) remember(changed);
      return applied;
    },
    restart: (changed) => {
      options = { ...options, ...changed };
      remember(changed);
      open(Sample);
    },
  });
  showRate();
  inspector.refresh();
  void showDevice();
  show();
}

for (const Each of SAMPLES) {
  const radio = el('input', {
    type: 'radio', name: 'sample', value: Each.id, checked: Each === Sample, class: 'hidden',
    onchange: () => {
      // Sizes of one sample say nothing about another.
      for (const name of [...query.keys()]) if (!['seed', 'device'].includes(name)) query.delete(name);
      options.limit = Infinity;
      remember({ sample: Each.id });
      open(Each);
    },
  });
  $('picker').append(el('label', {}, radio, el('span', {}, el('strong', {}, Each.title), el('small', {}, Each.line))));
}

$('start').addEventListener('click', () => {
  if (session.state === 'running' || session.state === 'compiling') return void session.pause();
  $('error').replaceChildren();
  // Past the limit of the address, going on means without one.
  if (session.step >= options.limit) options.limit = Infinity;
  void session.start();
});
$('reset').addEventListener('click', () => {
  $('error').replaceChildren();
  chart.clear();
  void session.reset().then(() => chart.clear());
});
$('lr').addEventListener('input', () => {
  options.lr = Number((10 ** Number($('lr').value)).toPrecision(2));
  showRate();
  void session.setLR(options.lr);
});

themes($('theme'));
// On a phone the picker is wider than the screen.
{
  const chosen = $('picker').querySelector(':checked').parentElement;
  $('picker').scrollLeft = chosen.offsetLeft - $('picker').offsetLeft - 24;
}
open(Sample);
