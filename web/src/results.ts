// Results of steps and runs. In: messages of the worker. Out: `completed`, `aborted` or `failed`, and
// captured tensors. Always holds: a promise of a result never rejects because of an error while the program
// runs; its result is `failed` with the error.

import type { Data, Dtype } from './dtype.js';
import { fail, GradloomError } from './errors.js';
import { keptName } from './log.js';
import type { Sent } from './protocol.js';

/**
 * Result of a training step. `applied` is false if gradients of a scaled loss overflowed (precision 'f16'):
 * then only the scale changed.
 */
export type StepResult =
  | { kind: 'completed'; loss: number; gradientNorm: number | null; applied: boolean; captures: Captures }
  | { kind: 'aborted' }
  | { kind: 'failed'; error: GradloomError };

/** Result of a step that is not read: it was queued. */
export type QueuedResult = { kind: 'queued' } | { kind: 'aborted' } | { kind: 'failed'; error: GradloomError };

/** The typed array class for elements of a dtype. */
export type DtypeArray<D extends Dtype> =
  D extends 'i32' ? Int32Array
  : D extends 'u32' ? Uint32Array
  : D extends 'bool' | 'u8' ? Uint8Array
  : D extends 'i64' ? BigInt64Array
  : Float32Array;

/** The typed array of a forward function's result. */
export type OutputArray<O extends Dtype> = DtypeArray<O>;

/** Result of a forward run. `output` is the first result; `outputs` has all of them by name (or number). */
export type RunResult<O extends Dtype = 'f32'> =
  | {
    kind: 'completed'; output: OutputArray<O>; outputs: Record<string, Data>; shape: readonly number[];
    shapes: Record<string, readonly number[]>; captures: Captures;
  }
  | { kind: 'aborted' }
  | { kind: 'failed'; error: GradloomError };

/** Captured tensors by name. */
export class Captures {
  readonly #tensors: ReadonlyMap<string, Sent>;

  /** @internal */
  constructor(tensors: readonly Sent[]) {
    this.#tensors = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  }

  #tensor(name: string): Sent {
    const tensor = this.#tensors.get(name);
    if (tensor) return tensor;
    throw fail('feed', `nothing was captured as '${name}'`, `there are: ${this.names().join(', ') || 'none'}`);
  }

  /** Returns the elements, row-major, in the typed array class of the tensor's dtype. */
  get<T extends Data = Float32Array>(name: string): T {
    return this.#tensor(name).data as T;
  }

  /** Returns the extents. */
  shape(name: string): readonly number[] {
    return this.#tensor(name).shape;
  }

  /** Returns true if a tensor with this name was captured. */
  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  /** Returns all names, in the order of capture. */
  names(): string[] {
    return [...this.#tensors.keys()];
  }

  /** Returns the parts of `[.., heads, rows, columns]`, one for each head of each example, in order. */
  perHead(name: string): Float32Array[] {
    const { shape, data } = this.#tensor(name);
    if (shape.length < 3) throw fail('feed', `'${name}' is [${shape.join(', ')}], which has no heads`);
    const size = shape.at(-1)! * shape.at(-2)!;
    return Array.from({ length: data.length / size }, (_, i) => (data as Float32Array).slice(i * size, (i + 1) * size));
  }
}

/** Converts an error to a result: 'aborted' if it was intended, else 'failed'. */
export function failed(thrown: unknown): { kind: 'aborted' } | { kind: 'failed'; error: GradloomError } {
  const error = thrown instanceof GradloomError ? thrown
    : fail('internal', thrown instanceof Error ? thrown.message : String(thrown));
  return error.kind === 'aborted' || error.kind === 'destroyed' ? { kind: 'aborted' } : { kind: 'failed', error };
}

/** Creates the result of a training step. */
export function stepResult(outputs: readonly Sent[], captures: readonly string[]): StepResult {
  const first = (name: string) => outputs.find((output) => output.name === name)?.data[0] as number | undefined;
  const norm = first('gradient_norm');
  return {
    kind: 'completed', loss: first('loss') ?? NaN, gradientNorm: norm ?? null, applied: Number.isFinite(norm),
    captures: captured(outputs, captures),
  };
}

/** Creates the result of a forward run. */
export function runResult<O extends Dtype>(outputs: readonly Sent[], results: readonly string[], captures: readonly string[]): RunResult<O> {
  const all = results.map((name, i) => [name, outputs.find((output) => output.name === `result.${i}`)] as const);
  const missing = all.findIndex(([, sent]) => sent === undefined);
  if (missing >= 0) return { kind: 'failed', error: fail('internal', `the run gave no result ${missing}`) };
  const named = all.map(([name, sent], i) => [name || String(i), sent!] as const);
  const first = named[0]![1];
  return {
    kind: 'completed', output: first.data as OutputArray<O>, shape: first.shape,
    outputs: Object.fromEntries(named.map(([name, sent]) => [name, sent.data])),
    shapes: Object.fromEntries(named.map(([name, sent]) => [name, sent.shape])),
    captures: captured(outputs, captures),
  };
}

function captured(outputs: readonly Sent[], names: readonly string[]): Captures {
  return new Captures(names.flatMap((name) => {
    const found = outputs.find((output) => output.name === keptName(name));
    return found ? [{ ...found, name }] : [];
  }));
}
