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
  const copy = buffer.slice(at, at + bytes);
  if (isPlain(dtype)) return new (arrayOf(dtype))(copy);
  const bits = new Uint16Array(copy);
  if (dtype === 'f16') return Float32Array.from(bits, fromHalf);
  return new Float32Array(Uint32Array.from(bits, (half) => half << 16).buffer);
}

/** A copy of elements as they are stored: rounded to the nearest, ties to even. */
export function storedOf(dtype: Dtype, data: Data): Stored {
  if (isPlain(dtype)) return data.slice();
  const words = new Uint32Array(Float32Array.from(data as Float32Array).buffer);
  return Uint16Array.from(words, dtype === 'f16' ? toHalf : toBrain);
}

/** The number that 16 bits are in IEEE 754's binary16. */
function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The upper bits of a word, of which `drop` are left out, rounded. */
function rounded(word: number, drop: number): number {
  return (word + (1 << (drop - 1)) - 1 + ((word >>> drop) & 1)) >>> drop;
}

/** The binary16 of an f32's bits. */
function toHalf(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // From 65,520 on, infinity is nearest.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // Exponents have another zero: 112 less.
  if (magnitude >= 0x38800000) return sign | (rounded(magnitude, 13) - (112 << 10));
  // Below 2^-14, numbers are multiples of 2^-24, as f32 numbers from 0.5 to 1 are.
  const [small] = new Float32Array(Uint32Array.of(magnitude).buffer);
  return sign | ((Math.fround(small! + 0.5) - 0.5) * 2 ** 24);
}

/** The bfloat16 of an f32's bits. */
function toBrain(word: number): number {
  return (word & 0x7fffffff) > 0x7f800000 ? (word >>> 16) | 0x40 : rounded(word, 16);
}

/** The number of elements of a shape. */
export function elements(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** A type, as messages have it: `f32[2, 3]`. */
export function typeOf({ dtype, shape }: { dtype: string; shape: readonly number[] }): string {
  return `${dtype}[${shape.join(', ')}]`;
}
