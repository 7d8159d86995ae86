// Initial values. In: the user's choice, as plain objects. Out: the same with defaults filled in, as
// arguments of the wasm interface, or an error that lists the possibilities. Always holds: the compiler's
// runtime generates the numbers from the session's seed; it never receives a wrong kind, key or number.

import { elements } from './dtype.js';
import { errorOf } from './errors.js';
import { INITS } from './generated/training.js';
import { checkKind, checkOptions, shownValue, type Rules } from './options.js';
import { here } from './origin.js';

/** The initial values of a parameter. Omitted numbers have the defaults of the functions of `init`. */
export type Init =
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' }
  | { readonly kind: 'constant'; readonly value: number }
  | { readonly kind: 'randn'; readonly scale?: number }
  | { readonly kind: 'uniform'; readonly low: number; readonly high: number }
  | { readonly kind: 'kaiming' | 'kaimingUniform' | 'xavier' | 'xavierUniform' | 'orthogonal'; readonly gain?: number }
  | { readonly kind: 'truncatedNormal'; readonly std?: number }
  | { readonly kind: 'fanIn' }
  | { readonly kind: 'literal'; readonly data: Float32Array }
  | { readonly kind: 'literal'; readonly values: Float32Array };

type Kind = Init['kind'];

/** Numbers of each kind, in the order of the `param` command, with their defaults; undefined if required. */
const NUMBERS: { readonly [K in Exclude<Kind, 'literal'>]: Readonly<Record<string, number | undefined>> } = {
  zeros: {}, ones: {}, constant: { value: undefined }, randn: { scale: 0.02 }, uniform: { low: undefined, high: undefined },
  kaiming: { gain: Math.SQRT2 }, kaimingUniform: { gain: Math.SQRT2 }, xavier: { gain: 1 }, xavierUniform: { gain: 1 },
  orthogonal: { gain: 1 }, truncatedNormal: { std: 0.02 }, fanIn: {},
};
const KINDS: readonly Kind[] = [...(Object.keys(NUMBERS) as Exclude<Kind, 'literal'>[]), 'literal'];

/** The compiler's names of kinds, if different. */
const CODES: Readonly<Partial<Record<Kind, keyof typeof INITS>>> = { randn: 'normal', literal: 'values' };

/** Returns the rules for the options of a kind. */
function rulesOf(kind: Exclude<Kind, 'literal'>): Rules {
  return Object.fromEntries(Object.keys(NUMBERS[kind]).map((name) => [name, 'number']));
}

/** Returns initial values of a kind with these options. */
function made<K extends Exclude<Kind, 'literal'>>(kind: K, options: object): Init {
  checkOptions(`init.${kind}`, options, rulesOf(kind));
  return { ...options, kind } as Init;
}

/** Initial values of parameters. */
export const init = {
  /** All 0. */
  zeros: (): Init => ({ kind: 'zeros' }),
  /** All 1. */
  ones: (): Init => ({ kind: 'ones' }),
  /** All equal to `value`. */
  constant: (value: number): Init => ({ kind: 'constant', value }),
  /** Normal with mean 0 and standard deviation `scale`; 0.02 by default. */
  randn: (options: { scale?: number } = {}): Init => made('randn', options),
  /** Uniform between two numbers. */
  uniform: (low: number, high: number): Init => ({ kind: 'uniform', low, high }),
  /**
   * Normal with standard deviation `gain / sqrt(fan-in)`; the gain is sqrt(2) by default. He et al., 2015.
   * The fan-in of a matrix is its first extent, that of a convolution is the number of channels in its
   * weights times the kernel size.
   */
  kaiming: (options: { gain?: number } = {}): Init => made('kaiming', options),
  /** Uniform within `±gain * sqrt(3 / fan-in)`; the gain is sqrt(2) by default. */
  kaimingUniform: (options: { gain?: number } = {}): Init => made('kaimingUniform', options),
  /** Normal with standard deviation `gain * sqrt(2 / (fan-in + fan-out))`. Glorot and Bengio, 2010. */
  xavier: (options: { gain?: number } = {}): Init => made('xavier', options),
  /** Uniform within `±gain * sqrt(6 / (fan-in + fan-out))`. */
  xavierUniform: (options: { gain?: number } = {}): Init => made('xavierUniform', options),
  /** Normal with standard deviation `std` (0.02 by default), truncated at two standard deviations. */
  truncatedNormal: (options: { std?: number } = {}): Init => made('truncatedNormal', options),
  /** A matrix with orthonormal rows or columns, times `gain`. Saxe et al., 2014. */
  orthogonal: (options: { gain?: number } = {}): Init => made('orthogonal', options),
  /** Uniform within `±1 / sqrt(fan-in)`, PyTorch's default for linear layers. */
  fanIn: (): Init => ({ kind: 'fanIn' }),
  /** The given elements, row-major. */
  literal: (data: Float32Array): Init => ({ kind: 'literal', data }),
};

/** Initial values with all defaults filled in. */
export interface Initial {
  readonly kind: Kind;
  /** Code, a and b of the `param` command. */
  readonly numbers: readonly [number, number, number];
  /** Elements of a literal. */
  readonly data: Float32Array | null;
}

function wrong(message: string, ...help: string[]): Error {
  return errorOf({ kind: 'trace', message, help, origin: here() });
}

/** Checks the user's initial values for a shape and fills in the defaults. */
export function initial(given: unknown, shape: readonly number[]): Initial {
  if (typeof given === 'function' || typeof given !== 'object' || given === null || Array.isArray(given)) {
    const called = typeof given === 'function' ? 'call it: init.kaiming()' : "write init: { kind: 'kaiming' }, or init.kaiming()";
    throw wrong(`init is ${shownValue(given)}, not initial values`, called, `kinds are ${KINDS.join(', ')}`);
  }
  checkKind('init', 'kind of initial values', (given as { kind?: unknown }).kind, KINDS);
  const { kind } = given as Init;
  const where = `init of kind '${kind}'`;
  const code = INITS[CODES[kind] ?? (kind as keyof typeof INITS)];
  if (kind === 'literal') {
    checkOptions(where, given, { kind: 'any', data: 'any', values: 'any' });
    return { kind, numbers: [code, 0, 0], data: literal(given as { data?: unknown; values?: unknown }, shape) };
  }
  const numbers = NUMBERS[kind];
  checkOptions(where, given, { kind: 'any', ...rulesOf(kind) });
  const [a = 0, b = 0] = Object.entries(numbers).map(([name, usual]) => {
    const value = (given as Readonly<Record<string, number | undefined>>)[name] ?? usual;
    if (value === undefined) throw wrong(`${where}: ${name} is missing`, `its options are ${Object.keys(numbers).join(', ')}`);
    return value;
  });
  if (kind === 'uniform' && a > b) throw wrong(`${where}: low ${a} is above high ${b}`);
  return { kind, numbers: [code, a, b], data: null };
}

/** Returns the elements of a literal, a typed array or an array of numbers with the size of the shape. */
function literal({ data, values }: { data?: unknown; values?: unknown }, shape: readonly number[]): Float32Array {
  if (data !== undefined && values !== undefined) throw wrong("init of kind 'literal' has both data and values", 'they are two names of one thing: give data');
  const given = data ?? values;
  const isNumbers = Array.isArray(given) || (ArrayBuffer.isView(given) && typeof (given as unknown as ArrayLike<unknown>)[0] !== 'bigint' && !(given instanceof DataView));
  if (!isNumbers) throw wrong(`init of kind 'literal': data is ${shownValue(given)}, not a Float32Array`, "write init: { kind: 'literal', data: new Float32Array([..]) }");
  const array = Float32Array.from(given as ArrayLike<number>);
  if (array.length !== elements(shape)) {
    throw wrong(`param: ${array.length} initial values for [${shape.join(', ')}]`, `it has ${elements(shape)} elements`);
  }
  const bad = array.findIndex((value) => !Number.isFinite(value));
  if (bad >= 0) throw wrong(`init of kind 'literal': the element ${bad} is ${array[bad]}, not a finite number`);
  return array;
}
