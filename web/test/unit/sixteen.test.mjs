// Floats of 16 bits take no more than twice as long as f32, and large files leave the thread to others.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataOf, storedOf } from '../../.test/src/dtype.js';
import { loadSafetensors, readSafetensors, saveSafetensors } from '../../.test/src/safetensors.js';

const N = 4e6;
const values = Float32Array.from({ length: N }, (_, i) => Math.sin(i) * 0.02);
const TYPES = ['f32', 'f16', 'bf16'];
const file = (dtype) => saveSafetensors({ x: { data: values, shape: [N], dtype } });
const files = Object.fromEntries(TYPES.map((dtype) => [dtype, file(dtype)]));
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

/** Medians of six rounds in which the types take turns, in nanoseconds an element. */
function measured(work) {
  const times = { f32: [], f16: [], bf16: [] };
  for (let round = 0; round < 7; round++) {
    for (const dtype of TYPES) {
      const begin = performance.now();
      work(dtype);
      // The first round is the compiler's.
      if (round > 0) times[dtype].push((performance.now() - begin) * 1e6 / N);
    }
  }
  return Object.fromEntries(TYPES.map((dtype) => [dtype, median(times[dtype])]));
}

const stored = Object.fromEntries(TYPES.map((dtype) => [dtype, storedOf(dtype, values)]));
for (const [what, work] of [
  ['files are loaded', (dtype) => loadSafetensors(files[dtype])], ['files are saved', file],
  ['elements are sent', (dtype) => storedOf(dtype, values)], ['elements are received', (dtype) => dataOf(dtype, stored[dtype].buffer, 0, stored[dtype].byteLength)],
]) {
  test(`${what} in at most twice the time of f32`, () => {
    const tries = [];
    for (let i = 0; i < 3; i++) {
      const times = measured(work);
      // A plain copy into memory that was used before can take a third of a nanosecond; conversions took 130 to 390.
      if (Math.max(times.f16, times.bf16) <= Math.max(2 * times.f32, 12)) return;
      tries.push(times);
    }
    assert.fail(JSON.stringify(tries));
  });
}

/** The longest time for which nothing else could be done meanwhile. */
async function longestGap(work) {
  let [last, longest, done] = [performance.now(), 0, false];
  const beat = () => {
    const now = performance.now();
    [longest, last] = [Math.max(longest, now - last), now];
    if (!done) setImmediate(beat);
  };
  setImmediate(beat);
  const result = await work();
  done = true;
  return { longest: Math.max(longest, performance.now() - last), result };
}

for (const dtype of TYPES) {
  test(`a large ${dtype} file is read in turns`, async () => {
    const gaps = [];
    // Of a machine that is busy with other things, one quiet round is enough.
    for (let i = 0; i < 4; i++) {
      const { longest, result } = await longestGap(() => readSafetensors(i % 2 === 0 ? files[dtype] : new Blob([files[dtype]])));
      assert.deepEqual(result.tensors.x, loadSafetensors(files[dtype]).tensors.x);
      gaps.push(longest);
    }
    assert.ok(Math.min(...gaps) < 50, `${gaps}`);
  });
}

test('a reader in turns says the same of a file that is not what it says', async () => {
  const cut = files.f16.slice(0, -2);
  await assert.rejects(readSafetensors(new Blob([cut])), /'x' ends at 8000000 of 7999998 bytes/);
  await assert.rejects(readSafetensors(new Uint8Array(5)), /5 bytes are too few/);
  const whole = await readSafetensors(new Response(files.bf16));
  assert.deepEqual(whole.shapes, { x: [N] });
});
