// `Tensor`: a handle for a value in a trace. In: a trace and an id. Out: methods, one for each op of the
// generated table, that trace an op and return its result. Always holds: a tensor has no elements; it can be
// used only in the trace that created it.

import type { Dtype } from './dtype.js';
import { fail, knowMethods } from './errors.js';
export type { TensorOps } from './generated/ops.js';
import { FIRST_CODE, OPS, type TensorOps } from './generated/ops.js';
import { currentTrace, type OpEntry, type Trace } from './trace.js';

/** The type of the elements of a tensor. */
export type DType = Dtype;

/** An operand of a tensor: another tensor, or a number, which takes its dtype. */
export type Operand = Tensor | number;

type OpName = keyof typeof OPS;

const CODES = new Map(Object.keys(OPS).map((name, i) => [name, FIRST_CODE + i]));

/**
 * Traces the op with this name; for a method, the first argument is its tensor. A number in place of a tensor
 * takes the dtype of the next tensor.
 */
export function call(name: OpName, ...args: unknown[]): Tensor {
  const op: OpEntry = OPS[name];
  const [first, ...rest] = op[0] ? args : [undefined, ...args];
  const beside = rest[0];
  const left = typeof first === 'number' && beside instanceof Tensor ? call('full', beside.dtype, [], first) : first;
  return currentTrace(name).op(name, CODES.get(name)!, op, left, rest);
}

/** The location in the user's code that created a tensor. */
export interface CallSite {
  /** Name of the op. */
  readonly opName: string;
  /** The location, as a line of a stack. */
  readonly stack: string;
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The known properties of a tensor of a finished graph. */
export interface Known {
  dtype: Dtype;
  shape: readonly number[];
  source: number | null;
  site: CallSite | null;
}

/** A value in a trace. It has a shape and a dtype, and elements only when the compiled program runs. */
export class Tensor {
  readonly #trace: Trace | null;
  readonly #id: number;
  readonly #known: Known | null;
  #type: { dtype: Dtype; shape: readonly number[] } | undefined;

  /** @internal */
  constructor(trace: Trace | null, id: number, known: Known | null = null) {
    this.#trace = trace;
    this.#id = id;
    this.#known = known;
    if (known) this.#type = known;
  }

  /** Id of the tensor in its trace or graph; -1 for a parameter or state, which can be in several. */
  get id(): number {
    return this.#id;
  }

  /** Index in `graph.ops` of the op that created a tensor of a finished graph (`trace(..)`), else null. */
  get source(): number | null {
    return this.#known?.source ?? null;
  }

  /** Location of the user's call that created a tensor of a finished graph, else null. */
  get site(): CallSite | null {
    return this.#known?.site ?? null;
  }

  /** The extents. */
  get shape(): readonly number[] {
    return this.type().shape;
  }

  /** The type of the elements. */
  get dtype(): Dtype {
    return this.type().dtype;
  }

  /** The number of axes. */
  get rank(): number {
    return this.shape.length;
  }

  /** The number of elements. */
  get size(): number {
    return this.shape.reduce((a, b) => a * b, 1);
  }

  /** Marks the tensor to be read back under this name whenever the program runs, and returns it. */
  capture(name: string): Tensor {
    return currentTrace('capture').capture(this, name);
  }

  /** @internal Returns the id in this trace, or undefined if the tensor belongs to another. */
  idIn(trace: Trace): number | undefined {
    return this.#trace === trace ? this.#id : undefined;
  }

  /** @internal Returns the dtype and shape. */
  type(): { dtype: Dtype; shape: readonly number[] } {
    if (!this.#type) {
      const trace = currentTrace('shape');
      this.#type = trace.describe(trace.id(this, 'shape'));
    }
    return this.#type;
  }

  /** @internal Throws if the tensor is used as a number: it has no elements while a function is traced. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === 'string') return this.toString();
    throw fail('trace', `${this.toString()} is used as a number`,
      'a tensor has no elements while the function is traced: compute with its methods, as x.add(1), x.greater(0), cond.select(a, b)');
  }

  /** Formats the tensor as `Tensor f32[2, 3]`. */
  toString(): string {
    return this.#type ? `Tensor ${this.#type.dtype}[${this.#type.shape.join(', ')}]` : 'Tensor';
  }
}

/** The methods of the generated table. */
export interface Tensor extends TensorOps {}

for (const name of Object.keys(OPS) as OpName[]) {
  if (!OPS[name][0] || name in Tensor.prototype) continue;
  Object.defineProperty(Tensor.prototype, name, {
    value(this: Tensor, ...args: unknown[]): Tensor {
      return call(name, this, ...args);
    },
    writable: true,
    configurable: true,
  });
}
knowMethods(Object.getOwnPropertyNames(Tensor.prototype));
