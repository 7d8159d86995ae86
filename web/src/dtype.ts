// Dtypes: their names, numbers in the wasm interface, and the typed array that holds each. Bools are bytes, 0
// or 1.

/** The type of a tensor's elements. */
export type Dtype = 'f32' | 'i32' | 'u32' | 'bool';

/** The elements of a tensor, row-major. */
export type Data = Float32Array | Int32Array | Uint32Array | Uint8Array;

/** Dtypes in the order of their numbers. */
export const DTYPES: readonly Dtype[] = ['f32', 'i32', 'u32', 'bool'];

/** A dtype's number. */
export function dtypeCode(dtype: Dtype): number {
  return DTYPES.indexOf(dtype);
}

/** Bytes of an element. */
export function elementBytes(dtype: Dtype): number {
  return dtype === 'bool' ? 1 : 4;
}

/** The typed array class that holds a dtype. */
export function arrayOf(dtype: Dtype) {
  switch (dtype) {
    case 'f32': return Float32Array;
    case 'i32': return Int32Array;
    case 'u32': return Uint32Array;
    case 'bool': return Uint8Array;
  }
}

/** The elements that these bytes are; the bytes are copied. */
export function dataOf(dtype: Dtype, buffer: ArrayBuffer, at: number, bytes: number): Data {
  return new (arrayOf(dtype))(buffer.slice(at, at + bytes));
}

/** The number of elements of a shape. */
export function elements(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}
