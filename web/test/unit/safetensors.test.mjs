// The safetensors reader and writer: round trips, conversions, and inconsistent files.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadSafetensors, saveSafetensors } from '../../.test/src/safetensors.js';

/** Returns a file with this header and `bytes` bytes of data. */
function file(header, bytes, data = new Uint8Array(bytes)) {
  const json = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const out = new Uint8Array(8 + json.length + data.length);
  new DataView(out.buffer).setBigUint64(0, BigInt(json.length), true);
  out.set(json, 8);
  out.set(data, 8 + json.length);
  return out.buffer;
}
const tensor = (dtype, shape, start, end) => ({ dtype, shape, data_offsets: [start, end] });

test('what is saved is loaded', () => {
  const saved = saveSafetensors({
    'b.W': { data: new Float32Array([1, 2, 3, 4, 5, 6]), shape: [2, 3] }, a: new Float32Array([NaN, -0]), i: new Int32Array([-7]),
  }, { by: 'test' });
  const read = loadSafetensors(saved);
  assert.deepEqual(read.tensors['b.W'], new Float32Array([1, 2, 3, 4, 5, 6]));
  assert.ok(Object.is(read.tensors.a[1], -0));
  assert.deepEqual(read.integers.i, new Int32Array([-7]));
  assert.deepEqual(read.shapes['b.W'], [2, 3]);
  assert.deepEqual(read.metadata, { by: 'test' });
  assert.equal(new DataView(saved).getUint32(0, true) % 8, 0);
});

test('half precision becomes f32, also when nothing is aligned', () => {
  const data = new Uint8Array(1 + 8 + 4);
  data.set(new Uint8Array(new Uint16Array([0x3c00, 0xc000, 0x7c00, 0x0001]).buffer), 1);
  data.set(new Uint8Array(new Uint16Array([0x3f80, 0xc040]).buffer), 9);
  const { tensors, skipped } = loadSafetensors(file({
    u: tensor('U8', [1], 0, 1), h: tensor('F16', [4], 1, 9), b: tensor('BF16', [2], 9, 13),
  }, 0, data));
  assert.deepEqual([...tensors.h], [1, -2, Infinity, 2 ** -24]);
  assert.deepEqual([...tensors.b], [1, -3]);
  assert.deepEqual(skipped, { u: 'U8' });
});

test('bad files are errors that say why', () => {
  const bad = [
    [new ArrayBuffer(3), /3 bytes are too few/],
    [file({}, 0).slice(0, 9), /header is cut off/],
    [new Uint8Array([255, 255, 255, 255, 255, 255, 255, 255]).buffer, /a header of 18446744073709551615 bytes/],
    [file('{', 0), /no JSON/],
    [file('[]', 0), /no object/],
    [file({ a: tensor('F32', [2], 0, 8) }, 4), /'a' ends at 8 of 4/],
    [file({ a: tensor('F32', [2], 0, 4) }, 4), /'a' has 4 bytes; F32 \[2\] has 8/],
    [file({ a: tensor('F32', [1], 0, 4), b: tensor('F32', [2], 2, 10) }, 10), /'b' overlaps 'a'/],
    [file({ a: tensor('F32', [-1], 0, 4) }, 4), /shape \[-1\]/],
    [file({ a: tensor('F32', [1], 4, 0) }, 4), /offsets \[4,0\]/],
    [file({ a: tensor('X9', [1], 0, 4) }, 4), /unknown type X9/],
    [file({ a: null }, 4), /'a' has no dtype/],
  ];
  for (const [bytes, message] of bad) assert.throws(() => loadSafetensors(bytes), { kind: 'format', message });
  assert.throws(() => saveSafetensors({ a: { data: new Float32Array(3), shape: [2] } }), /3 elements for \[2\]/);
});
