// The safetensors format. In: a file's bytes, or tensors. Out: tensors, or a file's bytes. What always holds:
// a file that is not what it says (cut off, overlapping, out of range, of wrong sizes) is an error that names
// the tensor; nothing is read past the end; what is returned shares no memory with the file.

import { arrayOf, dataOf, DTYPES, elements, isPlain, storedOf, type Data, type Dtype, type Stored } from './dtype.js';
import { fail, GradloomError } from './errors.js';

/** What was in a file. */
export interface SafetensorsData {
  /** Float tensors as f32, ready for `uploadParams`. */
  tensors: Record<string, Float32Array>;
  /** I32 tensors. */
  integers: Record<string, Int32Array>;
  /** Shapes of all tensors. */
  shapes: Record<string, number[]>;
  /** Tensors of types that are not read, with their types. */
  skipped: Record<string, string>;
  /** The file's own notes. */
  metadata: Record<string, string>;
}

/** Bytes of an element. */
const SIZES: Readonly<Record<string, number>> = {
  F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U64: 8, U32: 4, U16: 2, U8: 1, BOOL: 1, F8_E4M3: 1, F8_E5M2: 1,
};

/** Longer headers are refused. */
const MAX_HEADER = 100_000_000;

function bad(message: string): GradloomError {
  return fail('format', `safetensors: ${message}`);
}

interface Entry {
  name: string;
  dtype: string;
  shape: number[];
  start: number;
  end: number;
}

/** A tensor of a file: its bytes are a copy. */
export interface FileTensor {
  name: string;
  /** As the format calls it. */
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}

/** The tensors of a file in the order of its header, and its notes. */
export function parseSafetensors(file: ArrayBuffer | Uint8Array): { entries: FileTensor[]; metadata: Record<string, string> } {
  const bytes = file instanceof Uint8Array ? file : new Uint8Array(file);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 8) throw bad(`${bytes.length} bytes are too few for a header`);
  const length = view.getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER)) throw bad(`a header of ${length} bytes`);
  const begin = 8 + Number(length);
  if (begin > bytes.length) throw bad(`the header is cut off: ${length} bytes of which ${bytes.length - 8} are there`);
  const { entries, metadata } = header(bytes.subarray(8, begin));

  const blob = bytes.length - begin;
  let before = { name: '', end: 0 };
  for (const entry of [...entries].sort((a, b) => a.start - b.start || a.end - b.end)) {
    if (entry.end > blob) throw bad(`'${entry.name}' ends at ${entry.end} of ${blob} bytes`);
    if (entry.start < before.end) throw bad(`'${entry.name}' overlaps '${before.name}'`);
    before = entry;
  }
  const parts = entries.map(({ name, dtype, shape, start, end }): FileTensor => {
    const size = SIZES[dtype];
    if (size === undefined) throw bad(`'${name}' has the unknown type ${dtype}`);
    if (end - start !== size * elements(shape)) {
      throw bad(`'${name}' has ${end - start} bytes; ${dtype} [${shape.join(', ')}] has ${size * elements(shape)}`);
    }
    return { name, dtype, shape, bytes: bytes.slice(begin + start, begin + end) };
  });
  return { entries: parts, metadata };
}

/** Reads a file. F16, BF16 and F64 become f32; integers but I32 are skipped, and said to be. */
export function loadSafetensors(file: ArrayBuffer | Uint8Array): SafetensorsData {
  const { entries, metadata } = parseSafetensors(file);
  const out: SafetensorsData = { tensors: {}, integers: {}, shapes: {}, skipped: {}, metadata };
  for (const { name, dtype, shape, bytes } of entries) {
    const { buffer } = bytes as Uint8Array<ArrayBuffer>;
    out.shapes[name] = shape;
    if (dtype === 'I32') out.integers[name] = new Int32Array(buffer);
    else if (FLOATS[dtype]) out.tensors[name] = FLOATS[dtype](buffer);
    else out.skipped[name] = dtype;
  }
  return out;
}

function header(bytes: Uint8Array): { entries: Entry[]; metadata: Record<string, string> } {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (thrown) {
    throw bad(`the header is no JSON: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw bad('the header is no object');
  const entries: Entry[] = [];
  let metadata: Record<string, string> = {};
  for (const [name, raw] of Object.entries(value as Record<string, unknown>)) {
    if (name === '__metadata__') {
      if (typeof raw !== 'object' || raw === null || Object.values(raw).some((text) => typeof text !== 'string')) throw bad('its metadata are no texts');
      metadata = raw as Record<string, string>;
      continue;
    }
    const { dtype, shape, data_offsets: offsets } = (raw ?? {}) as Record<string, unknown>;
    const whole = (n: unknown): n is number => Number.isSafeInteger(n) && (n as number) >= 0;
    if (typeof dtype !== 'string') throw bad(`'${name}' has no dtype`);
    if (!Array.isArray(shape) || !shape.every(whole)) throw bad(`'${name}' has the shape ${JSON.stringify(shape)}`);
    const [start, end] = Array.isArray(offsets) && offsets.length === 2 ? (offsets as unknown[]) : [];
    if (!whole(start) || !whole(end) || start > end) throw bad(`'${name}' has the offsets ${JSON.stringify(offsets)}`);
    entries.push({ name, dtype, shape, start, end });
  }
  return { entries, metadata };
}

/** f32 of float types. */
const FLOATS: Readonly<Record<string, (bytes: ArrayBuffer) => Float32Array>> = {
  F32: (bytes) => new Float32Array(bytes),
  F64: (bytes) => Float32Array.from(new Float64Array(bytes)),
  BF16: (bytes) => dataOf('bf16', bytes, 0, bytes.byteLength) as Float32Array,
  F16: (bytes) => dataOf('f16', bytes, 0, bytes.byteLength) as Float32Array,
};

/**
 * Tensors that are saved: elements, with a shape where it is not one axis, and a dtype where the array does not say
 * it: floats in 16 bits, bytes as bools.
 */
export type Saved = Readonly<Record<string, Data | { data: Data; shape: readonly number[]; dtype?: string }>>;

/** The format's name of the type in which elements are stored. */
function storedAs(name: string, data: Data, wanted: string | undefined): Dtype {
  const own = DTYPES.find((dtype) => arrayOf(dtype).name === data.constructor.name);
  if (own === undefined) throw bad(`'${name}' is a ${data.constructor.name}`);
  // Sorts of numbers that the array's class leaves open.
  const narrow = (['f16', 'bf16', 'bool', 'u8'] as const).find((dtype) => dtype === wanted && arrayOf(dtype) === arrayOf(own));
  return narrow ?? (own === 'bool' ? 'u8' : own);
}

/**
 * Writes a file. Tensors lie in the order of their names, after a header that is a multiple of 8 bytes long.
 */
export function saveSafetensors(tensors: Saved, metadata?: Readonly<Record<string, string>>): ArrayBuffer {
  const head: Record<string, unknown> = metadata ? { __metadata__: metadata } : {};
  const parts: { data: Stored; at: number }[] = [];
  let at = 0;
  for (const name of Object.keys(tensors).sort()) {
    const value = tensors[name]!;
    const { data: given, shape, dtype: wanted } = ArrayBuffer.isView(value) ? { data: value, shape: [value.length], dtype: undefined } : value;
    if (given.length !== elements(shape)) throw bad(`'${name}' has ${given.length} elements for [${shape.join(', ')}]`);
    if (name === '__metadata__') throw bad("a tensor cannot be called '__metadata__'");
    const dtype = storedAs(name, given, wanted);
    const data = isPlain(dtype) ? given : storedOf(dtype, given);
    head[name] = { dtype: dtype.toUpperCase(), shape: [...shape], data_offsets: [at, at + data.byteLength] };
    parts.push({ data, at });
    at += data.byteLength;
  }
  const json = new TextEncoder().encode(JSON.stringify(head));
  const length = Math.ceil(json.length / 8) * 8;
  const file = new Uint8Array(8 + length + at).fill(0x20, 8, 8 + length);
  new DataView(file.buffer).setBigUint64(0, BigInt(length), true);
  file.set(json, 8);
  for (const { data, at } of parts) file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 8 + length + at);
  return file.buffer;
}
