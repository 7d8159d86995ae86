// The loss curve: steps across, loss on a logarithmic scale. In: points as they are measured. Out: a drawing. The faint line is what
// was measured, the strong one its moving mean; upright marks say where the model was changed.

import { colour, surface } from './canvas.js';

const MOST = 1200;
/** The moving mean reaches over this share of the curve. */
const SMOOTH = 1 / 24;

export class LossChart {
  #points = [];
  #marks = [];
  /** Of neighbours, this many are one point: long trainings stay cheap to draw. */
  #stride = 1;
  #pending = [];
  #surface;

  constructor(canvas) {
    this.#surface = surface(canvas, (context, width, height) => this.#draw(context, width, height));
  }

  add(step, loss) {
    if (!(loss > 0) || !Number.isFinite(loss)) return;
    this.#pending.push({ step, loss });
    if (this.#pending.length < this.#stride) return;
    this.#points.push(mean(this.#pending));
    this.#pending = [];
    if (this.#points.length >= MOST) {
      this.#points = pairs(this.#points);
      this.#stride *= 2;
    }
    this.#surface.request();
  }

  mark(step, text) {
    this.#marks.push({ step, text });
    this.#surface.request();
  }

  clear() {
    [this.#points, this.#marks, this.#pending, this.#stride] = [[], [], [], 1];
    this.#surface.request();
  }

  #draw(context, width, height) {
    const box = { left: 44, right: width - 8, top: 10, bottom: height - 24 };
    context.font = '11px system-ui, sans-serif';
    context.lineWidth = 1;
    const points = this.#points;
    if (points.length < 2) {
      context.fillStyle = colour('muted');
      context.textAlign = 'center';
      context.fillText('The loss curve begins with the first steps.', (box.left + box.right) / 2, height / 2);
      rule(context, box.left, box.bottom, box.right, box.bottom);
      return;
    }
    const last = points.at(-1).step;
    const logs = points.map(({ loss }) => Math.log10(loss));
    let [low, high] = [Infinity, -Infinity];
    for (const v of logs) [low, high] = [Math.min(low, v), Math.max(high, v)];
    // A flat curve shall look flat: at least a quarter of a decade.
    const spare = Math.max(0.06 * (high - low), (0.25 - (high - low)) / 2, 0.02);
    [low, high] = [low - spare, high + spare];
    const x = (step) => box.left + (box.right - box.left) * step / last;
    const y = (log) => box.bottom - (box.bottom - box.top) * (log - low) / (high - low);

    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const value of ticks(low, high)) {
      const at = Math.round(y(Math.log10(value))) + 0.5;
      rule(context, box.left, at, box.right, at);
      context.fillStyle = colour('muted');
      context.fillText(brief(value), box.left - 8, at);
    }
    context.textBaseline = 'alphabetic';
    context.textAlign = 'left';
    context.fillText('0', box.left, height - 6);
    context.textAlign = 'right';
    context.fillText(`step ${last.toLocaleString('en')}`, box.right, height - 6);

    for (const { step, text } of this.#marks) {
      const at = Math.round(x(Math.min(step, last))) + 0.5;
      context.setLineDash([3, 3]);
      rule(context, at, box.top, at, box.bottom, colour('muted'));
      context.setLineDash([]);
      const right = at > (box.left + box.right) / 2;
      context.textAlign = right ? 'right' : 'left';
      context.fillStyle = colour('muted');
      context.fillText(text, at + (right ? -5 : 5), box.top + 8);
    }

    context.lineJoin = 'round';
    line(context, points.map(({ step }, i) => [x(step), y(logs[i])]), colour('accent-faint'), 1);
    let smooth = logs[0];
    const reach = Math.max(1, Math.min(20, SMOOTH * points.length));
    line(context, points.map(({ step }, i) => {
      // The mean forgets at once what was first, so that it does not lag behind the first fall.
      smooth += (logs[i] - smooth) / Math.min(reach, i + 1);
      return [x(step), y(smooth)];
    }), colour('accent'), 2);
  }
}

function mean(points) {
  const n = points.length;
  return { step: points[n - 1].step, loss: points.reduce((sum, { loss }) => sum + loss, 0) / n };
}

function pairs(points) {
  return Array.from({ length: points.length >> 1 }, (_, i) => mean([points[2 * i], points[2 * i + 1]]));
}

function rule(context, x0, y0, x1, y1, style = colour('line')) {
  context.strokeStyle = style;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

export function line(context, points, style, width) {
  context.strokeStyle = style;
  context.lineWidth = width;
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}

/** Round numbers between two powers of ten, at most about six. */
function ticks(low, high) {
  const decades = high - low;
  const found = [];
  if (decades < 0.7) {
    // So narrow a range is all but linear: equal distances.
    const [from, to] = [10 ** low, 10 ** high];
    const power = 10 ** Math.floor(Math.log10((to - from) / 4));
    const step = power * [1, 2, 5, 10].find((n) => n * power >= (to - from) / 5);
    for (let n = Math.ceil(from / step); n * step <= to; n++) found.push(n * step);
    return found;
  }
  const steps = decades > 3 ? [1] : decades > 1.4 ? [1, 3] : [1, 2, 5];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) {
    for (const step of steps) {
      const log = power + Math.log10(step);
      if (log >= low && log <= high) found.push(10 ** log);
    }
  }
  const every = Math.ceil(found.length / 7);
  return found.filter((_, i) => i % every === 0);
}

/** A number in few characters. */
export function brief(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(size < 1e-3 ? 0 : 1).replace('e+', 'e');
  return String(Number(value.toPrecision(2)));
}
