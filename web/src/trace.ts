// An open trace. In: the user's function, the model's parameters, the declared inputs. Out: tensors, as ids
// of the tracing instance. Always holds: at most one trace is open, and it is closed or abandoned when the
// user's function returns; every op has the user's line.

import { DTYPES, dtypeCode, elements, type Dtype } from './dtype.js';
import { errorOf, errorValue, fail, GradloomError, type Origin } from './errors.js';
import { OPTIONS } from './generated/ops.js';
import { COMMAND, keptName, type Log } from './log.js';
import { checkOptions, type Rule } from './options.js';
import { here } from './origin.js';
import { Tensor } from './tensor.js';

/**
 * A parameter of an op: its name, its kind (or that of its options), and its default value if it is optional.
 */
export type Param = readonly [name: string, kind: string, value?: unknown];

/** An op of the generated table: whether it is a method of its first tensor, and its other parameters. */
export type OpEntry = readonly [method: 0 | 1, ...params: Param[]];

const RECEIVER: Param = ['the tensor', 'tensor'];

let current: Trace | null = null;

/** Returns the open trace, or throws if there is none. */
export function currentTrace(what: string): Trace {
  if (current) return current;
  throw fail('trace', `\`${what}\` outside of a trace`,
    'tensors exist while a loss or forward function runs inside compile(), attach() or trace(); there are no values before');
}

/** An open trace of a declared model. */
export class Trace {
  readonly #log: Log;
  /** Ids of the model's parameters. */
  readonly #params: ReadonlyMap<Tensor, number>;
  /** Used parameters and states, as tensors. Those first used in a block are not available outside of it. */
  #used = new Map<Tensor, number>();
  /** Exception thrown in a block, which invalidates the trace. */
  #broken: unknown;
  #origin: Origin | null = null;
  /** True if a training loss is traced. */
  readonly training: boolean;
  /** True to ignore new values of the model's states. */
  readonly keepsStates: boolean;
  /** Captured names, in order. */
  readonly captures: string[] = [];

  constructor(log: Log, params: ReadonlyMap<Tensor, number>, training: boolean, keepsStates = false) {
    if (current) {
      throw fail('trace', 'a trace is open already',
        'a loss or forward function cannot call compile(), attach() or trace()');
    }
    this.#log = log;
    this.#params = params;
    this.training = training;
    this.keepsStates = keepsStates;
    log.command(COMMAND.open, [training ? 1 : 0]);
    current = this;
  }

  /** Closes the trace with these results and returns its id. */
  close(results: readonly Tensor[]): number {
    if (this.#broken !== undefined) throw this.#broken;
    const ids = results.map((tensor) => this.id(tensor, 'the result'));
    const trace = this.#command(COMMAND.close, ids);
    current = null;
    return trace;
  }

  /** Abandons the trace if it is still open. */
  end(): void {
    if (current !== this) return;
    current = null;
    try {
      this.#log.command(COMMAND.abandon, []);
    } catch {
      // The next log resets the instance anyway.
    }
  }

  /** Declares an input. */
  input(name: string, dtype: Dtype, shape: readonly number[]): Tensor {
    return this.#tensor(this.#command(COMMAND.input, [this.#log.text(name), dtypeCode(dtype), ...shape]));
  }

  /** Adds values that are part of the program. */
  constant(values: Float32Array, dtype: Dtype, shape: readonly number[]): Tensor {
    return this.#tensor(this.#command(COMMAND.constant, [this.#log.blob(values), dtypeCode(dtype), ...shape]));
  }

  /** Marks a tensor to be read back under a name. */
  capture(tensor: Tensor, name: string): Tensor {
    if (this.captures.includes(name)) {
      throw this.#explained(fail('trace', `capture: the name '${name}' is used twice`, 'give each its own, as `attn.${i}`'));
    }
    const id = this.#command(COMMAND.capture, [this.id(tensor, 'capture'), this.#log.text(keptName(name))]);
    this.captures.push(name);
    return this.#tensor(id);
  }

  /** Returns the id of a tensor in this trace. */
  id(tensor: Tensor, what: string): number {
    if (!(tensor instanceof Tensor)) {
      throw this.#explained(fail('trace', `\`${what}\` of ${describeValue(tensor)}: a tensor was expected`));
    }
    const id = tensor.idIn(this);
    if (id !== undefined) return id;
    throw this.#explained(fail('trace', `\`${what}\` uses a tensor of another trace`,
      'a tensor lives while the function that made it is traced; keep numbers, not tensors, outside of it'));
  }

  /** Returns the id of a parameter or state as a tensor of this trace. */
  use(leaf: Tensor, described: string, command: number = COMMAND.use): number {
    let id = this.#used.get(leaf);
    if (id === undefined) {
      id = this.#command(command, [this.index(leaf, described)]);
      this.#used.set(leaf, id);
    }
    return id;
  }

  /** Returns the index of a parameter or state in the model. */
  index(leaf: Tensor, described: string): number {
    const index = this.#params.get(leaf);
    if (index !== undefined) return index;
    throw this.wrong(`the ${described} is not part of the model that is traced`,
      'it must be reachable through the fields of the model given to compile()');
  }

  /** Executes a command with several result tensors, or none. */
  several(code: number, args: readonly number[], count: number): Tensor[] {
    const first = this.#command(code, args);
    return Array.from({ length: count }, (_, i) => this.#tensor(first + i));
  }

  /** Runs the user's function inside of an open block, then the function that ends the block. */
  block<T, R>(name: string, inside: () => T, end: (made: T) => R): R {
    const before = this.#used;
    this.#used = new Map(before);
    try {
      const made = inside();
      if (made instanceof Promise) throw this.wrong(`the function of \`${name}\` is async`, 'it is traced once, and returns tensors at once');
      return end(made);
    } catch (thrown) {
      this.#broken ??= thrown;
      throw thrown;
    } finally {
      this.#used = before;
    }
  }

  /** Creates an error with the user's location. */
  wrong(message: string, ...help: string[]): GradloomError {
    return this.#explained(fail('trace', message, ...help));
  }

  /** Returns the type of a tensor. */
  describe(id: number): { dtype: Dtype; shape: number[] } {
    return this.#log.describe(id);
  }

  /** Traces an op of the table; `receiver` is the tensor if it is a method. */
  op(name: string, code: number, [method, ...params]: OpEntry, receiver: unknown, args: readonly unknown[]): Tensor {
    const needed = params.filter(([, , value]) => value === undefined).length;
    if (args.length > params.length || args.length < needed) {
      const wanted = params.map(([param]) => param).join(', ');
      throw this.#explained(fail('trace', `\`${name}\` takes (${wanted}), and got ${args.length} of ${params.length}`));
    }
    const numbers: number[] = [];
    if (method) this.#encode(name, RECEIVER, receiver, numbers);
    params.forEach((param, i) => this.#encode(name, param, args[i] ?? param[2], numbers));
    return this.#tensor(this.#command(code, numbers, name));
  }

  /** Encodes options; omitted fields are NaN, -1 for tensors, or empty lists. */
  #encodeOptions(op: string, kind: string, given: unknown, out: number[]): void {
    const options = given as Record<string, unknown>;
    const fields = OPTIONS[kind]!;
    const rule = (field: string): Rule => (field === 'flag' || field === 'number' ? field : field === 'perAxis' ? 'sizes' : 'any');
    checkOptions(`\`${op}\``, options, Object.fromEntries(fields.map(([name, field]) => [name, options[name] === null ? 'any' : rule(field)])));
    for (const [name, field] of fields) {
      const value = options[name] ?? undefined;
      if (field === 'flag') out.push(value ? 1 : 0);
      else if (field === 'perAxis') this.#encode(op, [name, 'integers'], value ?? [], out);
      else if (value === undefined) out.push(field === 'tensor' ? -1 : NaN);
      else this.#encode(op, [name, field], value, out);
    }
  }

  #encode(op: string, [name, kind]: Param, value: unknown, out: number[]): void {
    const wrong = (wanted: string) =>
      this.#explained(fail('trace', `\`${op}\`: ${name} is ${describeValue(value)}; ${wanted} was expected`));
    switch (kind) {
      case 'tensor':
        if (!(value instanceof Tensor)) throw wrong('a tensor');
        out.push(this.id(value, op));
        return;
      case 'operand':
        if (value instanceof Tensor) out.push(0, this.id(value, op));
        else if (typeof value === 'number') out.push(1, value);
        else throw wrong('a tensor or a number');
        return;
      case 'number':
        if (typeof value !== 'number') throw wrong('a number');
        out.push(value);
        return;
      case 'integer':
        if (!Number.isInteger(value)) throw wrong('a whole number');
        out.push(value as number);
        return;
      case 'bool':
        out.push(value ? 1 : 0);
        return;
      case 'dtype': {
        const code = DTYPES.indexOf(value as Dtype);
        if (code < 0) throw wrong(`one of ${DTYPES.join(', ')}`);
        out.push(code);
        return;
      }
      case 'tensors':
        if (!Array.isArray(value)) throw wrong('an array of tensors');
        out.push(value.length, ...value.map((tensor) => this.id(tensor as Tensor, op)));
        return;
      case 'range':
        if (!Array.isArray(value) || value.length !== 2 || !value.every(Number.isInteger)) throw wrong('[start, end]');
        out.push(value[0] as number, value[1] as number);
        return;
      case 'text':
        if (typeof value !== 'string') throw wrong('a text');
        out.push(this.#log.text(value));
        return;
      case 'shape': case 'extents': case 'axes': case 'integers': {
        const list = typeof value === 'number' ? [value] : value;
        if (!Array.isArray(list) || !list.every(Number.isInteger)) throw wrong('an array of whole numbers');
        out.push((list as number[]).length, ...(list as number[]));
        return;
      }
      default:
        if (typeof value !== 'object' || value === null) throw wrong('an object of options');
        this.#encodeOptions(op, kind, value, out);
    }
  }

  #tensor(id: number): Tensor {
    return new Tensor(this, id);
  }

  /**
   * Executes a command with the user's location. Errors have the location too, and name the op that the user
   * called rather than its parts.
   */
  #command(code: number, args: readonly number[], op?: string): number {
    if (current !== this) throw fail('trace', 'this trace is over');
    const origin = here();
    const before = this.#origin;
    if (origin?.line !== before?.line || origin?.column !== before?.column || origin?.file !== before?.file) {
      this.#origin = origin;
      this.#log.command(COMMAND.origin, [
        this.#log.text(origin?.file ?? ''), origin?.line ?? 0, origin?.column ?? 0,
      ]);
    }
    try {
      return this.#log.command(code, args);
    } catch (thrown) {
      if (!(thrown instanceof GradloomError)) throw thrown;
      const value = errorValue(thrown);
      const named = op && thrown.kind === 'trace' && value.message.replace(/^`\w+`/, `\`${op}\``);
      throw this.#explained(named ? errorOf({ ...value, message: named, rendered: undefined }) : thrown);
    }
  }

  /** Adds the user's location to an error. */
  #explained(error: GradloomError): GradloomError {
    // Without a location, the module names its own Rust source, which does not help.
    const known = error.origin !== null && !error.origin.file.endsWith('.rs');
    return known ? error : errorOf({ ...errorValue(error), origin: here(), rendered: '' });
  }
}

function describeValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return `'${value}'`;
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === 'function' ? 'a function' : `an object (${value.constructor?.name ?? 'no class'})`;
}
