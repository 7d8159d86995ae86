// The safetensors format. In: a file's bytes, or tensors. Out: tensors, or a file's bytes. Always holds: an
// inconsistent file (truncated, overlapping, out of range, with wrong sizes) is an error that names the
// tensor; nothing is read past the end; results share no memory with the file.

import { arrayOf, DTYPES, elements, isPlain, storedOf, widen, type Data, type Dtype, type Stored } from './dtype.js';
import { fail, GradloomError } from './errors.js';
import { turns } from './turn.js';

/** Contents of a file. */
export interface SafetensorsData {
  /** Float tensors as f32, ready for `uploadParams`. */
  tensors: Record<string, Float32Array>;
  /** I32 tensors. */
  integers: Record<string, Int32Array>;
  /** Shapes of all tensors. */
  shapes: Record<string, number[]>;
  /** Types of the tensors that were skipped, by name. */
  skipped: Record<string, string>;
  /** The file's metadata. */
  metadata: Record<string, string>;
}

/** Bytes per element. */
const SIZES: Readonly<Record<string, number>> = {
  F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U64: 8, U32: 4, U16: 2, U8: 1, BOOL: 1, F8_E4M3: 1, F8_E5M2: 1,
};

/** Maximum length of a header in bytes; longer ones are refused. */
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

/** A tensor of a file; its bytes are a copy. */
export interface FileTensor {
  name: string;
  /** Name of the type in the format. */
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
}

/**
 * Returns the entries of a file with `total` bytes, the start of their data, and the metadata, all checked
 * for consistency.
 */
function layoutOf(start: Uint8Array, total: number): { entries: Entry[]; begin: number; metadata: Record<string, string> } {
  const begin = beginOf(start, total);
  const { entries, metadata } = header(start.subarray(8, begin));
  const blob = total - begin;
  let before = { name: '', end: 0 };
  for (const entry of [...entries].sort((a, b) => a.start - b.start || a.end - b.end)) {
    if (entry.end > blob) throw bad(`'${entry.name}' ends at ${entry.end} of ${blob} bytes`);
    if (entry.start < before.end) throw bad(`'${entry.name}' overlaps '${before.name}'`);
    before = entry;
  }
  for (const { name, dtype, shape, start, end } of entries) {
    const size = SIZES[dtype];
    if (size === undefined) throw bad(`'${name}' has the unknown type ${dtype}`);
    if (end - start !== size * elements(shape)) {
      throw bad(`'${name}' has ${end - start} bytes; ${dtype} [${shape.join(', ')}] has ${size * elements(shape)}`);
    }
  }
  return { entries, begin, metadata };
}

/** Returns the start of a file's data, after the header. */
function beginOf(start: Uint8Array, total: number): number {
  if (total < 8) throw bad(`${total} bytes are too few for a header`);
  const length = new DataView(start.buffer, start.byteOffset, 8).getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER)) throw bad(`a header of ${length} bytes`);
  const begin = 8 + Number(length);
  if (begin > total) throw bad(`the header is cut off: ${length} bytes of which ${total - 8} are there`);
  return begin;
}

/** Returns the tensors of a file in the order of its header, and its metadata. */
export function parseSafetensors(file: ArrayBuffer | Uint8Array): { entries: FileTensor[]; metadata: Record<string, string> } {
  const bytes = file instanceof Uint8Array ? file : new Uint8Array(file);
  const { entries, begin, metadata } = layoutOf(bytes, bytes.length);
  const parts = entries.map(({ name, dtype, shape, start, end }): FileTensor => ({ name, dtype, shape, bytes: bytes.slice(begin + start, begin + end) }));
  return { entries: parts, metadata };
}

/** Allocates the array for a tensor, or records it as skipped and returns null. */
function roomFor(out: SafetensorsData, { name, dtype, shape }: Entry): Float32Array | Int32Array | null {
  out.shapes[name] = shape;
  if (dtype === 'I32') return out.integers[name] = new Int32Array(elements(shape));
  if (FLOATS[dtype]) return out.tensors[name] = new Float32Array(elements(shape));
  out.skipped[name] = dtype;
  return null;
}

/**
 * Reads a file. F16, BF16 and F64 become f32; integers other than I32 are listed in `skipped`. This blocks
 * the thread; use `readSafetensors` for large files.
 */
export function loadSafetensors(file: ArrayBuffer | Uint8Array): SafetensorsData {
  const bytes = file instanceof Uint8Array ? file : new Uint8Array(file);
  const { entries, begin, metadata } = layoutOf(bytes, bytes.length);
  const out: SafetensorsData = { tensors: {}, integers: {}, shapes: {}, skipped: {}, metadata };
  for (const entry of entries) {
    const room = roomFor(out, entry);
    if (room) convert(entry.dtype, bytes.subarray(begin + entry.start, begin + entry.end), room, 0);
  }
  return out;
}

/** Number of elements to convert between two checks of the clock. */
const PIECE = 1 << 19;
/** Maximum number of bytes of a Blob to read at a time. */
const READ = 1 << 24;

/**
 * Reads a file as `loadSafetensors` does, but yields to the page every few milliseconds. A Blob (a file that
 * the visitor chose, or `await response.blob()`) is read in parts, so that only one part at a time is in
 * memory.
 */
export async function readSafetensors(file: ArrayBuffer | Uint8Array | Blob | Response): Promise<SafetensorsData> {
  const source = typeof Response !== 'undefined' && file instanceof Response ? await file.blob() : file as ArrayBuffer | Uint8Array | Blob;
  const isBlob = typeof Blob !== 'undefined' && source instanceof Blob;
  const whole = isBlob ? null : source instanceof Uint8Array ? source : new Uint8Array(source as ArrayBuffer);
  const total = isBlob ? source.size : whole!.length;
  const read = async (from: number, to: number) => whole?.subarray(from, to) ?? new Uint8Array(await (source as Blob).slice(from, to).arrayBuffer());
  const { entries, begin, metadata } = layoutOf(await read(0, beginOf(await read(0, 8), total)), total);
  const out: SafetensorsData = { tensors: {}, integers: {}, shapes: {}, skipped: {}, metadata };
  const pause = turns();
  for (const entry of entries) {
    const room = roomFor(out, entry);
    if (!room) continue;
    const size = SIZES[entry.dtype]!;
    for (let from = entry.start; from < entry.end; from += READ) {
      const part = await read(begin + from, begin + Math.min(from + READ, entry.end));
      for (let at = 0; at < part.length; at += size * PIECE) {
        const turned = pause();
        if (turned) await turned;
        convert(entry.dtype, part.subarray(at, at + size * PIECE), room, (from - entry.start + at) / size);
      }
    }
  }
  return out;
}

/** Converts a file's bytes to elements and copies them to an array, starting at an index. */
function convert(dtype: string, bytes: Uint8Array, into: Float32Array | Int32Array, at: number): void {
  const size = SIZES[dtype]!;
  // Words must be aligned.
  const { buffer, byteOffset } = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  const count = bytes.length / size;
  if (dtype === 'F64') into.set(new Float64Array(buffer, byteOffset, count), at);
  else if (dtype === 'F32' || dtype === 'I32') new Uint8Array(into.buffer).set(bytes, 4 * at);
  else widen(FLOATS[dtype]!, new Uint16Array(buffer, byteOffset, count), into as Float32Array, at);
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

/** Types of floats, by this library's names. */
const FLOATS: Readonly<Record<string, Dtype>> = { F32: 'f32', F64: 'f32', BF16: 'bf16', F16: 'f16' };

/**
 * Tensors to save: elements, with a shape unless there is one axis, and a dtype if the array class does not
 * determine it, as for 16-bit floats and bools.
 */
export type Saved = Readonly<Record<string, Data | { data: Data; shape: readonly number[]; dtype?: string }>>;

/** Returns the type in which elements are stored. */
function storedAs(name: string, data: Data, wanted: string | undefined): Dtype {
  const own = DTYPES.find((dtype) => arrayOf(dtype).name === data.constructor.name);
  if (own === undefined) throw bad(`'${name}' is a ${data.constructor.name}`);
  // Types that share an array class with another.
  const narrow = (['f16', 'bf16', 'bool', 'u8'] as const).find((dtype) => dtype === wanted && arrayOf(dtype) === arrayOf(own));
  return narrow ?? (own === 'bool' ? 'u8' : own);
}

/** Writes a file. Tensors are sorted by name, after a header whose length is a multiple of 8 bytes. */
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
