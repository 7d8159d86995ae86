// Dtypes: their names, numbers in the wasm interface, and the typed array that holds each. Bools are bytes, 0
// or 1. Ops compute with u8 and i64 as i32. Floats of 16 bits are f32 in arrays of the user, and 16 bits
// wherever they are stored or sent.

/** The type of a tensor's elements. */
export type Dtype = 'f32' | 'i32' | 'u32' | 'bool' | 'f16' | 'bf16' | 'u8' | 'i64';

/** The elements of a tensor, row-major. */
export type Data = Float32Array | Int32Array | Uint32Array | Uint8Array | BigInt64Array;

/** Elements as they are stored: of floats of 16 bits, the bits. */
export type Stored = Data | Uint16Array;

/** Dtypes in the order of their numbers. */
export const DTYPES: readonly Dtype[] = ['f32', 'i32', 'u32', 'bool', 'f16', 'bf16', 'u8', 'i64'];

/** A dtype's number. */
export function dtypeCode(dtype: Dtype): number {
  return DTYPES.indexOf(dtype);
}

/** The typed array class that holds a dtype. */
export function arrayOf(dtype: Dtype) {
  switch (dtype) {
    case 'f32': case 'f16': case 'bf16': return Float32Array;
    case 'i32': return Int32Array;
    case 'u32': return Uint32Array;
    case 'bool': case 'u8': return Uint8Array;
    case 'i64': return BigInt64Array;
  }
}

/** Whether a dtype's elements are stored as they are in arrays of the user. */
export function isPlain(dtype: Dtype): boolean {
  return dtype !== 'f16' && dtype !== 'bf16';
}

/** The elements that these bytes are; the bytes are copied. */
export function dataOf(dtype: Dtype, buffer: ArrayBuffer, at: number, bytes: number): Data {
  // Not the buffer's slice, which is shared if the buffer is.
  if (isPlain(dtype)) return new (arrayOf(dtype))(new Uint8Array(buffer, at, bytes).slice().buffer);
  const bits = new Uint16Array(at % 2 === 0 ? buffer : buffer.slice(at, at + bytes), at % 2 === 0 ? at : 0, bytes / 2);
  const out = new Float32Array(bits.length);
  widen(dtype, bits, out, 0);
  return out;
}

/** The typed array class in which a dtype's elements are stored. */
export function storageOf(dtype: Dtype) {
  return isPlain(dtype) ? arrayOf(dtype) : Uint16Array;
}

/** A copy of elements as they are stored: rounded to the nearest, ties to even. */
export function storedOf(dtype: Dtype, data: Data): Stored {
  if (isPlain(dtype)) return data.slice();
  const out = new Uint16Array(data.length);
  store(dtype, data, out, 0);
  return out;
}

/** Puts elements where they are stored, from a place on. */
export function store(dtype: Dtype, data: Data, into: Stored, at: number): void {
  if (isPlain(dtype)) {
    (into as Float32Array).set(data as Float32Array, at);
    return;
  }
  const floats = data instanceof Float32Array ? data : Float32Array.from(data as Uint8Array);
  const words = new Int32Array(floats.buffer, floats.byteOffset, floats.length);
  const out = into.subarray(at, at + words.length) as Uint16Array;
  if (dtype === 'bf16') {
    for (let i = 0; i < words.length; i++) out[i] = toBrain(words[i]!);
    return;
  }
  for (let i = 0; i < words.length; i++) {
    const bits = words[i]!;
    const magnitude = bits & 0x7fffffff;
    // Most numbers have an exponent of theirs, which has another zero: 112 less.
    const isNormal = magnitude >= 0x38800000 && magnitude < 0x477ff000;
    out[i] = isNormal ? ((bits >>> 16) & 0x8000) | ((magnitude + 0xfff + ((magnitude >>> 13) & 1)) >>> 13) - (112 << 10) : toHalf(bits);
  }
}

/** Puts the numbers that floats of 16 bits are into an array, from a place on. */
export function widen(dtype: Dtype, bits: Uint16Array, into: Float32Array, at: number): void {
  // Signed, as then all numbers on the way fit into small ones of the machine.
  const words = new Int32Array(into.buffer, into.byteOffset + 4 * at, bits.length);
  if (dtype === 'bf16') {
    for (let i = 0; i < bits.length; i++) words[i] = bits[i]! << 16;
    return;
  }
  const table = (halves ??= everyHalf());
  for (let i = 0; i < bits.length; i++) words[i] = table[bits[i]!]!;
}

/** The f32's bits of every binary16, once they are needed. */
let halves: Int32Array | undefined;

/** The f32's bits of every number in IEEE 754's binary16. */
function everyHalf(): Int32Array {
  const number = (bits: number): number => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 0x1f;
    const fraction = bits & 0x3ff;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  };
  return new Int32Array(Float32Array.from({ length: 1 << 16 }, (_, bits) => number(bits)).buffer);
}

/** One word, as a number. */
const word = new Int32Array(1);
const number = new Float32Array(word.buffer);

/** The binary16 of an f32's bits that has no exponent of its own. */
function toHalf(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // From 65,520 on, infinity is nearest.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // Below 2^-14, numbers are multiples of 2^-24, as f32 numbers from 0.5 to 1 are.
  word[0] = magnitude;
  return sign | ((Math.fround(number[0]! + 0.5) - 0.5) * 2 ** 24);
}

/** The bfloat16 of an f32's bits. */
function toBrain(bits: number): number {
  return (bits & 0x7fffffff) > 0x7f800000 ? (bits >>> 16) | 0x40 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** The number of elements of a shape. */
export function elements(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** A type, as messages have it: `f32[2, 3]`. */
export function typeOf({ dtype, shape }: { dtype: string; shape: readonly number[] }): string {
  return `${dtype}[${shape.join(', ')}]`;
}
