// Large safetensors files do not block the thread while they are read. bench/sixteen.mjs compares the times
// of 16-bit floats with f32.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadSafetensors, readSafetensors, saveSafetensors } from '../../.test/src/safetensors.js';
import { TURN } from '../../.test/src/turn.js';

const N = 4e6;
const values = Float32Array.from({ length: N }, (_, i) => Math.sin(i) * 0.02);
const TYPES = ['f32', 'f16', 'bf16'];
const files = Object.fromEntries(TYPES.map((dtype) => [dtype, saveSafetensors({ x: { data: values, shape: [N], dtype } })]));

/**
 * Returns the number of turns of other work during `work`, with a clock that advances by one turn at each
 * reading.
 */
async function turnsDuring(work) {
  let [now, turns, done] = [0, 0, false];
  const beat = () => {
    turns++;
    if (!done) setImmediate(beat);
  };
  const real = performance.now;
  performance.now = () => (now += TURN);
  setImmediate(beat);
  try {
    return { result: await work(), get turns() { return turns; } };
  } finally {
    done = true;
    performance.now = real;
  }
}

for (const dtype of TYPES) {
  test(`a large ${dtype} file is read in turns`, async () => {
    for (const file of [files[dtype], new Blob([files[dtype]])]) {
      const { turns, result } = await turnsDuring(() => readSafetensors(file));
      assert.deepEqual(result.tensors.x, loadSafetensors(files[dtype]).tensors.x);
      // There is a turn before each half a million elements.
      assert.ok(turns >= Math.floor(N / 2 ** 19), `${turns}`);
    }
  });
}

test('a reader in turns says the same of a file that is not what it says', async () => {
  const cut = files.f16.slice(0, -2);
  await assert.rejects(readSafetensors(new Blob([cut])), /'x' ends at 8000000 of 7999998 bytes/);
  await assert.rejects(readSafetensors(new Uint8Array(5)), /5 bytes are too few/);
  const whole = await readSafetensors(new Response(files.bf16));
  assert.deepEqual(whole.shapes, { x: [N] });
});
