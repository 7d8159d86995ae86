// Models. In: a tree of `Module`s, arrays and plain objects with parameters at its leaves. Out: the
// parameters, named by their paths, and the corresponding commands of a log. Always holds: the user's
// instance is never changed; a parameter (or a module) in two places is one parameter with two names; a tree
// that contains itself is an error that names the path.

import { dtypeCode, DTYPES, type Dtype } from './dtype.js';
import { errorOf, fail } from './errors.js';
import { init as inits, initial, type Init, type Initial } from './init.js';
import { COMMAND, type Log } from './log.js';
import { checkOptions } from './options.js';
import { here } from './origin.js';
import { Tensor } from './tensor.js';
import { currentTrace, type Trace } from './trace.js';

function wrong(message: string, ...help: string[]): Error {
  return errorOf({ kind: 'trace', message, help, origin: here() });
}

/** Options of `Module.param`. */
export interface ParamOptions {
  /** Initial values; by default normal with standard deviation 0.02. */
  init?: Init;
  /**
   * True if weight decay applies; by default it applies to all parameters except those initialised to zeros
   * or ones.
   */
  decay?: boolean;
  /** True for a parameter that is not trained; gradients stop here. */
  frozen?: boolean;
  /**
   * Type of the elements, to which the optimizer rounds them; f32 by default. Arrays of the elements are f32.
   */
  dtype?: 'f32' | 'f16' | 'bf16';
}

/** A parameter: a tensor in every trace of a model that contains it. */
export class Param extends Tensor {
  readonly #shape: readonly number[];
  readonly #options: ParamOptions;
  readonly #initial: Initial;

  /** @internal */
  constructor(shape: readonly number[], options: ParamOptions) {
    super(null, -1);
    this.#shape = [...shape];
    this.#options = { ...options };
    this.#initial = initial(this.init, shape);
  }

  /** The initial values. */
  get init(): Init {
    return this.#options.init === undefined ? inits.randn() : this.#options.init;
  }

  /** @internal The initial values with all defaults filled in. */
  get initial(): Initial {
    return this.#initial;
  }

  /** True if the parameter is not trained. */
  get frozen(): boolean {
    return this.#options.frozen ?? false;
  }

  /** True or false if the user decided about weight decay, else undefined. */
  get decay(): boolean | undefined {
    return this.#options.decay;
  }

  override idIn(trace: Trace): number {
    return trace.use(this, `parameter ${this.type().dtype}[${this.#shape.join(', ')}]`);
  }

  override type(): { dtype: Dtype; shape: readonly number[] } {
    return { dtype: this.#options.dtype ?? 'f32', shape: this.#shape };
  }

  override toString(): string {
    return `Param ${this.type().dtype}[${this.#shape.join(', ')}]`;
  }
}

/** Options of `Module.state`. */
export interface StateOptions {
  /** Type of the elements; f32 by default. */
  dtype?: Dtype;
  /** Initial value of all elements; 0 by default. */
  init?: number;
}

/**
 * A tensor that is kept between steps and not trained: running statistics, a counter. Its value in a trace is
 * that at the start of the step; a value that is set takes effect in the next step, and a step that fails
 * sets nothing.
 */
export class State extends Tensor {
  readonly #shape: readonly number[];
  readonly #dtype: Dtype;
  /** Initial value of all elements. */
  readonly init: number;

  /** @internal */
  constructor(shape: readonly number[], { dtype = 'f32', init = 0 }: StateOptions) {
    super(null, -1);
    this.#shape = [...shape];
    this.#dtype = dtype;
    this.init = init;
  }

  /**
   * Sets the whole state for the next step, to a tensor of its dtype and shape. Allowed once in a program.
   */
  set(value: Tensor): void {
    const trace = currentTrace('State.set');
    if (trace.keepsStates) return;
    trace.several(COMMAND.setState, [trace.index(this, this.#described()), trace.id(value, 'State.set')], 0);
  }

  /**
   * Sets a window of the state for the next step. It has the shape of `value` and begins at `starts`, an i32
   * scalar for each axis.
   */
  updateAt(starts: readonly Tensor[], value: Tensor): void {
    const trace = currentTrace('State.updateAt');
    if (trace.keepsStates) return;
    const ids = [value, ...starts].map((tensor) => trace.id(tensor, 'State.updateAt'));
    trace.several(COMMAND.updateState, [trace.index(this, this.#described()), ...ids], 0);
  }

  override idIn(trace: Trace): number {
    return trace.use(this, this.#described(), COMMAND.useState);
  }

  override type(): { dtype: Dtype; shape: readonly number[] } {
    return { dtype: this.#dtype, shape: this.#shape };
  }

  #described(): string {
    return `state ${this.#dtype}[${this.#shape.join(', ')}]`;
  }

  override toString(): string {
    return `State ${this.#dtype}[${this.#shape.join(', ')}]`;
  }
}

/**
 * A model or a part of one. Subclasses have parameters, states and other modules as fields, also in arrays
 * and plain objects.
 */
export abstract class Module {
  /** Declares a state. */
  protected state(shape: readonly number[], options: StateOptions = {}): State {
    checkOptions('this.state(..)', options, { dtype: DTYPES, init: 'number' });
    if (!Array.isArray(shape) || !shape.every((n) => Number.isInteger(n) && n > 0)) {
      throw wrong(`state: the shape [${String(shape)}] is not a list of whole numbers above 0`);
    }
    return new State(shape, options);
  }

  /** Declares a parameter. */
  protected param(shape: readonly number[], options: ParamOptions = {}): Tensor {
    checkOptions('this.param(..)', options, { init: 'any', decay: 'flag', frozen: 'flag', dtype: ['f32', 'f16', 'bf16'] });
    if (!Array.isArray(shape) || !shape.every((n) => Number.isInteger(n) && n > 0)) {
      throw wrong(`param: the shape [${String(shape)}] is not a list of whole numbers above 0`);
    }
    return new Param(shape, options);
  }
}

/** A parameter of a model under its first name. */
export interface NamedParam {
  name: string;
  dtype: Dtype;
  shape: readonly number[];
  frozen: boolean;
}

/** The parameters and states found in a model. */
export interface Walk {
  /** Each parameter once, under its first path, in the order of the fields. */
  params: { name: string; param: Param }[];
  /** Additional paths of parameters. */
  aliases: { name: string; param: Param }[];
  /** Each state once, under its first path. */
  states: { name: string; state: State }[];
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Finds the parameters and states of a model. */
export function walk(model: object): Walk {
  const found: Walk = { params: [], aliases: [], states: [] };
  const seen = new Set<Param>();
  // Objects from the root to the current one, with their paths.
  const above = new Map<object, string>();
  const visit = (value: unknown, path: string): void => {
    if (value instanceof Param) {
      (seen.has(value) ? found.aliases : found.params).push({ name: path, param: value });
      seen.add(value);
      return;
    }
    if (value instanceof State) {
      if (!found.states.some(({ state }) => state === value)) found.states.push({ name: path, state: value });
      return;
    }
    if (typeof value !== 'object' || value === null) return;
    if (!(value instanceof Module || Array.isArray(value) || isPlain(value))) return;
    const before = above.get(value);
    if (before !== undefined) {
      throw fail('trace', `the model contains itself: '${path}' is '${before || 'the model'}' again`,
        'a field that points back to an owner can be made non-enumerable or private (#owner)');
    }
    above.set(value, path);
    for (const [key, child] of Object.entries(value)) visit(child, path === '' ? key : `${path}.${key}`);
    above.delete(value);
  };
  visit(model, '');
  return found;
}

/** A model declared in a log. */
export interface Declared {
  /** Ids of parameters and states. */
  ids: ReadonlyMap<Tensor, number>;
  /** Parameters in the order of their ids. */
  params: NamedParam[];
  /** Other names of parameters: [other, first]. */
  aliases: [string, string][];
}

/** Options of `declare`. */
export interface DeclareOptions {
  /** Decides about weight decay of parameters that do not set `decay`. */
  decayFilter?: ((name: string) => boolean) | undefined;
  /** True to omit initial values, if the session already has the parameters. */
  withoutValues?: boolean;
}

/** Declares a model in a log, which makes it the current model. */
export function declare(log: Log, model: object, options: DeclareOptions = {}): Declared {
  const { params, aliases, states } = walk(model);
  const ids = new Map<Tensor, number>();
  const names = new Map<Param, string>();
  log.command(COMMAND.model, []);
  const named: NamedParam[] = [];
  for (const { name, param } of params) {
    const { initial: { kind: start, numbers, data }, frozen } = param;
    const { dtype, shape } = param.type();
    const blank = start === 'zeros' || start === 'ones';
    const decay = param.decay ?? options.decayFilter?.(name) ?? !blank;
    const [kind, a, b] = data && options.withoutValues ? [0, 0, 0] : numbers;
    const blob = data && !options.withoutValues ? log.blob(data) : -1;
    const id = log.command(COMMAND.param, [log.text(name), decay ? 1 : 0, frozen ? 1 : 0, kind, a, b, blob, dtypeCode(dtype), ...shape]);
    ids.set(param, id);
    names.set(param, name);
    named.push({ name, dtype, shape, frozen });
  }
  const also: [string, string][] = [];
  for (const { name, param } of aliases) {
    log.command(COMMAND.alias, [log.text(name), ids.get(param)!]);
    also.push([name, names.get(param)!]);
  }
  for (const { name, state } of states) {
    const { dtype, shape } = state.type();
    ids.set(state, log.command(COMMAND.state, [log.text(name), dtypeCode(dtype), state.init, ...shape]));
  }
  return { ids, params: named, aliases: also };
}
