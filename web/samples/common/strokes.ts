// Digits as strokes. In: a digit and random numbers, or what a pointer drew. Out: lines, and 16 x 16 pixels of them.
// What always holds: both kinds are brought to the same size and middle before they become pixels, so that a network
// trained on one reads the other.

import { below, between, type Random } from './random.js';

/** x and y, from 0 to 1 each, y downwards. */
export type Point = readonly [x: number, y: number];
/** A line that a pen draws. */
export type Line = readonly Point[];

export const SIDE = 16;

/** Part of an ellipse, angles in degrees, clockwise from the right as y points down. */
function arc(cx: number, cy: number, rx: number, ry: number, from: number, to: number): Point[] {
  const n = Math.ceil(Math.abs(to - from) / 12);
  return Array.from({ length: n + 1 }, (_, i): Point => {
    const angle = (from + (to - from) * i / n) * Math.PI / 180;
    return [cx + rx * Math.cos(angle), cy + ry * Math.sin(angle)];
  });
}

/** Ways to write each digit, in a unit square. */
const SHAPES: readonly (readonly (readonly Line[])[])[] = [
  [[arc(0.5, 0.5, 0.3, 0.42, -90, 270)]],
  [[[[0.34, 0.28], [0.54, 0.1], [0.54, 0.9]]], [[[0.5, 0.08], [0.5, 0.92]]], [[[0.34, 0.28], [0.54, 0.1], [0.54, 0.9]], [[0.34, 0.9], [0.74, 0.9]]]],
  [[[...arc(0.5, 0.32, 0.27, 0.24, 190, 395), [0.22, 0.9], [0.8, 0.9]]]],
  [[[...arc(0.46, 0.3, 0.25, 0.21, 205, 445), ...arc(0.46, 0.7, 0.29, 0.21, -85, 155)]], [[[0.24, 0.1], [0.72, 0.1], [0.46, 0.42], ...arc(0.46, 0.68, 0.28, 0.24, -80, 150)]]],
  [[[[0.6, 0.08], [0.2, 0.62], [0.84, 0.62]], [[0.64, 0.36], [0.64, 0.94]]], [[[0.26, 0.1], [0.24, 0.52], [0.76, 0.52]], [[0.7, 0.12], [0.68, 0.92]]]],
  [[[[0.76, 0.1], [0.32, 0.1], [0.28, 0.46], ...arc(0.48, 0.66, 0.28, 0.25, -125, 150)]]],
  [[[[0.68, 0.08], [0.45, 0.24], [0.3, 0.45], ...arc(0.5, 0.68, 0.26, 0.23, 180, -180)]]],
  [[[[0.2, 0.12], [0.8, 0.12], [0.42, 0.92]]], [[[0.2, 0.12], [0.8, 0.12], [0.42, 0.92]], [[0.34, 0.52], [0.72, 0.52]]]],
  [[arc(0.5, 0.3, 0.22, 0.2, 90, 450), arc(0.5, 0.7, 0.27, 0.21, -90, 270)], [[[0.72, 0.18], ...arc(0.48, 0.28, 0.2, 0.17, -60, -240), ...arc(0.5, 0.7, 0.24, 0.22, -60, 240), [0.72, 0.18]]]],
  [[[...arc(0.5, 0.33, 0.25, 0.23, 0, -360), [0.74, 0.6], [0.62, 0.92]]], [[...arc(0.5, 0.33, 0.25, 0.23, 0, -360), [0.75, 0.92]]]],
];

/** A digit as a hand might write it: turned, slanted, stretched and a little uneven. */
export function written(digit: number, random: Random): Line[] {
  const ways = SHAPES[digit]!;
  return varied(ways[below(random, ways.length)]!, random, 1);
}

/** The same lines, drawn by another hand; `amount` 1 is as different as hands are. */
export function varied(lines: readonly Line[], random: Random, amount: number): Line[] {
  const vary = (spread: number) => amount * between(random, -spread, spread);
  const turn = vary(0.2);
  const [slant, wide, high] = [vary(0.25), 1 + vary(0.22), 1 + vary(0.12)];
  const wave = () => ({ size: vary(0.035), often: between(random, 3, 8), phase: between(random, 0, 7) });
  const [across, along] = [wave(), wave()];
  const [cos, sin] = [Math.cos(turn), Math.sin(turn)];
  return lines.map((line) => line.map(([px, py]): Point => {
    const x = (px - 0.5) * wide - slant * (py - 0.5) + across.size * Math.sin(across.often * py + across.phase);
    const y = (py - 0.5) * high + along.size * Math.sin(along.often * px + along.phase);
    return [0.5 + x * cos - y * sin, 0.5 + x * sin + y * cos];
  }));
}

/** Lines as pixels from 0 to 1, row by row. `loose` shifts and scales a little and varies the pen. */
export function pixels(lines: readonly Line[], random: Random | null = null): Float32Array {
  const all = lines.flat();
  const image = new Float32Array(SIDE * SIDE);
  if (all.length === 0) return image;
  const [xs, ys] = [all.map(([x]) => x), all.map(([, y]) => y)];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const loose = (spread: number) => (random ? between(random, -spread, spread) : 0);
  const scale = (11.5 + loose(0.9)) / Math.max(right - left, bottom - top, 0.05);
  const [shiftX, shiftY] = [SIDE / 2 + loose(0.8), SIDE / 2 + loose(0.8)];
  const pen = 0.85 + loose(0.3);
  const at = ([x, y]: Point): Point => [(x - (left + right) / 2) * scale + shiftX, (y - (top + bottom) / 2) * scale + shiftY];
  for (const line of lines) {
    const points = line.map(at);
    for (let i = 0; i < points.length; i++) segment(image, points[Math.max(0, i - 1)]!, points[i]!, pen);
  }
  return image;
}

/** Darkens the pixels near a segment, by their distance from it. */
function segment(image: Float32Array, [x0, y0]: Point, [x1, y1]: Point, pen: number): void {
  const reach = pen + 0.5;
  const clip = (v: number) => Math.min(SIDE - 1, Math.max(0, v));
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = dx * dx + dy * dy;
  for (let row = clip(Math.floor(Math.min(y0, y1) - reach)); row <= clip(Math.ceil(Math.max(y0, y1) + reach)); row++) {
    for (let column = clip(Math.floor(Math.min(x0, x1) - reach)); column <= clip(Math.ceil(Math.max(x0, x1) + reach)); column++) {
      const [px, py] = [column + 0.5 - x0, row + 0.5 - y0];
      const t = length > 0 ? Math.min(1, Math.max(0, (px * dx + py * dy) / length)) : 0;
      const shade = Math.min(1, Math.max(0, reach - Math.hypot(px - t * dx, py - t * dy)));
      const at = row * SIDE + column;
      if (shade > image[at]!) image[at] = shade;
    }
  }
}
