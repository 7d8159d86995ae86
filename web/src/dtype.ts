// Dtypes: their names, their codes in the wasm interface, and the typed array of each. A bool is a byte that
// is 0 or 1. Ops compute u8 and i64 as i32. 16-bit floats are f32 in the user's arrays, and 16 bits in
// storage and messages.

/** The type of a tensor's elements. */
export type Dtype = 'f32' | 'i32' | 'u32' | 'bool' | 'f16' | 'bf16' | 'u8' | 'i64';

/** The elements of a tensor, row-major. */
export type Data = Float32Array | Int32Array | Uint32Array | Uint8Array | BigInt64Array;

/** Elements as they are stored; for 16-bit floats, their bits. */
export type Stored = Data | Uint16Array;

/** Dtypes in the order of their codes. */
export const DTYPES: readonly Dtype[] = ['f32', 'i32', 'u32', 'bool', 'f16', 'bf16', 'u8', 'i64'];

/** Returns the code of a dtype. */
export function dtypeCode(dtype: Dtype): number {
  return DTYPES.indexOf(dtype);
}

/** Returns the typed array class of a dtype. */
export function arrayOf(dtype: Dtype) {
  switch (dtype) {
    case 'f32': case 'f16': case 'bf16': return Float32Array;
    case 'i32': return Int32Array;
    case 'u32': return Uint32Array;
    case 'bool': case 'u8': return Uint8Array;
    case 'i64': return BigInt64Array;
  }
}

/** Returns true if a dtype's elements have the same form in storage and in the user's arrays. */
export function isPlain(dtype: Dtype): boolean {
  return dtype !== 'f16' && dtype !== 'bf16';
}

/** Returns the elements stored in a range of bytes, as a copy. */
export function dataOf(dtype: Dtype, buffer: ArrayBuffer, at: number, bytes: number): Data {
  // The buffer's own `slice` would be shared if the buffer is.
  if (isPlain(dtype)) return new (arrayOf(dtype))(new Uint8Array(buffer, at, bytes).slice().buffer);
  const bits = new Uint16Array(at % 2 === 0 ? buffer : buffer.slice(at, at + bytes), at % 2 === 0 ? at : 0, bytes / 2);
  const out = new Float32Array(bits.length);
  widen(dtype, bits, out, 0);
  return out;
}

/** Returns the typed array class in which a dtype's elements are stored. */
export function storageOf(dtype: Dtype) {
  return isPlain(dtype) ? arrayOf(dtype) : Uint16Array;
}

/** Returns a copy of elements in their stored form, rounded to nearest, ties to even. */
export function storedOf(dtype: Dtype, data: Data): Stored {
  if (isPlain(dtype)) return data.slice();
  const out = new Uint16Array(data.length);
  store(dtype, data, out, 0);
  return out;
}

/** Copies elements to their stored form, starting at an index. */
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
    // Most numbers are normal in both formats; the bias of the exponent differs by 112.
    const isNormal = magnitude >= 0x38800000 && magnitude < 0x477ff000;
    out[i] = isNormal ? ((bits >>> 16) & 0x8000) | ((magnitude + 0xfff + ((magnitude >>> 13) & 1)) >>> 13) - (112 << 10) : toHalf(bits);
  }
}

/** Converts 16-bit floats to f32 and copies them to an array, starting at an index. */
export function widen(dtype: Dtype, bits: Uint16Array, into: Float32Array, at: number): void {
  // With signed words, all intermediate values are small integers of the JavaScript engine.
  const words = new Int32Array(into.buffer, into.byteOffset + 4 * at, bits.length);
  if (dtype === 'bf16') {
    for (let i = 0; i < bits.length; i++) words[i] = bits[i]! << 16;
    return;
  }
  const table = (halves ??= everyHalf());
  for (let i = 0; i < bits.length; i++) words[i] = table[bits[i]!]!;
}

/** The f32 bits of every binary16 number, once they are needed. */
let halves: Int32Array | undefined;

/** Returns the f32 bits of every IEEE 754 binary16 number. */
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

/** A word and the f32 number with the same bits. */
const word = new Int32Array(1);
const number = new Float32Array(word.buffer);

/** Returns the binary16 bits of an f32 that is zero, subnormal or not finite in binary16. */
function toHalf(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // Numbers from 65,520 up round to infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // Below 2^-14, binary16 numbers are multiples of 2^-24, like f32 numbers from 0.5 to 1.
  word[0] = magnitude;
  return sign | ((Math.fround(number[0]! + 0.5) - 0.5) * 2 ** 24);
}

/** Returns the bfloat16 bits of an f32. */
function toBrain(bits: number): number {
  return (bits & 0x7fffffff) > 0x7f800000 ? (bits >>> 16) | 0x40 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** Returns the number of elements of a shape. */
export function elements(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** Formats a type for messages: `f32[2, 3]`. */
export function typeOf({ dtype, shape }: { dtype: string; shape: readonly number[] }): string {
  return `${dtype}[${shape.join(', ')}]`;
}
