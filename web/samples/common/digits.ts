// Small images of digits, drawn from a font of 5 by 7 dots: shifted, of any brightness, with noise.

import { below, between, normal, type Random } from './random.js';

/** Width and height of an image. */
export const SIDE = 12;
export const PIXELS = SIDE * SIDE;

/** Seven rows for each digit, five bits each. */
const FONT = [
  [0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110], [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
  [0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111], [0b11110, 0b00001, 0b00001, 0b01110, 0b00001, 0b00001, 0b11110],
  [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010], [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110],
  [0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110], [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000],
  [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110], [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100],
];

/** The corner of a digit in the middle of an image. */
const [LEFT, TOP] = [3, 2];

/** A digit without noise, off the middle by so many dots. */
export function draw(digit: number, right = 0, down = 0): Float32Array {
  const image = new Float32Array(PIXELS);
  FONT[digit]!.forEach((row, y) => {
    for (let x = 0; x < 5; x++) image[(TOP + down + y) * SIDE + LEFT + right + x] = (row >> (4 - x)) & 1;
  });
  return image;
}

/** Images of random digits, at most `reach` dots off the middle, with noise of a given deviation. */
export function images(random: Random, count: number, reach: number, noise: number) {
  const [pixels, digits] = [new Float32Array(count * PIXELS), new Int32Array(count)];
  const shift = () => below(random, 2 * reach + 1) - reach;
  for (let i = 0; i < count; i++) {
    digits[i] = below(random, 10);
    const bright = between(random, 0.6, 1);
    const clean = draw(digits[i]!, shift(), shift());
    pixels.set(clean.map((dot) => Math.min(1, Math.max(0, bright * dot + noise * normal(random)))), i * PIXELS);
  }
  return { pixels, digits };
}
