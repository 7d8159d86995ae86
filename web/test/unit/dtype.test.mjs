// 16-bit floats: all of their values, and rounding between them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataOf, storedOf } from '../../.test/src/dtype.js';

const all = Uint16Array.from({ length: 65536 }, (_, i) => i);
const bits = (dtype, values) => [...storedOf(dtype, Float32Array.from(values))];

for (const [dtype, exponent] of [['f16', 0x7c00], ['bf16', 0x7f80]]) {
  test(`every ${dtype} is the same one again`, () => {
    const values = dataOf(dtype, all.buffer, 0, all.byteLength);
    const again = storedOf(dtype, values);
    for (const half of all) {
      if ((half & 0x7fff) > exponent) assert.ok(Number.isNaN(values[half]) && (again[half] & 0x7fff) > exponent, `${half}`);
      else assert.equal(again[half], half);
    }
  });

  test(`what lies between two ${dtype} becomes the nearer one, or the even one`, () => {
    const values = dataOf(dtype, all.buffer, 0, all.byteLength);
    for (let half = 0; half < exponent - 1; half++) {
      // Both neighbours are f32, and so is the midpoint, which has one bit more.
      const [low, high] = [values[half], values[half + 1]];
      const middle = (low + high) / 2;
      const beside = (words) => new Float32Array(Uint32Array.of(new Uint32Array(Float32Array.of(middle).buffer)[0] + words).buffer)[0];
      const even = half % 2 === 0 ? half : half + 1;
      assert.deepEqual(bits(dtype, [middle, beside(-1), beside(1), -middle]), [even, half, half + 1, even | 0x8000], `${half}`);
    }
  });
}

test('numbers that are too large, too small, or none', () => {
  assert.deepEqual(bits('f16', [65504, 65519.99, 65520, -1e9, Infinity, 2 ** -25, 2 ** -25 * 1.0001, 1e-45, -0]),
    [0x7bff, 0x7bff, 0x7c00, 0xfc00, 0x7c00, 0, 1, 0, 0x8000]);
  assert.deepEqual(bits('bf16', [3.4e38, 3.39e38, -Infinity, 1e-45, -0]), [0x7f80, 0x7f7f, 0xff80, 0, 0x8000]);
  assert.ok(bits('f16', [NaN])[0] > 0x7c00 && bits('bf16', [NaN])[0] > 0x7f80);
});

test('others are copied', () => {
  const all = [
    ['i32', Int32Array.of(1, -2)], ['u8', Uint8Array.of(0, 255, 7)], ['i64', BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n)],
  ];
  for (const [dtype, given] of all) {
    const stored = storedOf(dtype, given);
    assert.deepEqual(stored, given);
    assert.notEqual(stored.buffer, given.buffer);
    assert.deepEqual(dataOf(dtype, given.buffer, 0, given.byteLength), given);
  }
});
