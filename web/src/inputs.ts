// Inputs. In: the user's declarations and typed arrays. Out: names, dtypes and shapes in order, and checked
// arrays. Always holds: data for the worker has the right type and length.

import { arrayOf, DTYPES, elements, type Data, type Dtype } from './dtype.js';
import { fail } from './errors.js';
import { checkOptions, nearest } from './options.js';
import type { DtypeArray } from './results.js';
import type { Tensor } from './tensor.js';

/** Extents; null is a wildcard that is known only at run time (`attach`, `compileForward`). */
export type ShapeDecl = readonly (number | null)[];

/**
 * Declaration of an input: its shape (for f32), or its shape and dtype. Data of f16 and bf16 is passed as
 * f32, and rounded.
 */
export type InputDecl = ShapeDecl | { readonly shape: ShapeDecl; readonly dtype?: Dtype };

/** Declarations of inputs by name. */
export type InputDecls = Readonly<Record<string, InputDecl>>;

/** The typed array for the data of an input. */
export type InputData<D extends InputDecl> = InputDecl extends D ? Data : D extends { readonly dtype: infer T extends Dtype } ? DtypeArray<T> : Float32Array;

/** Inputs of `step` and `run`. */
export type TypedInputs<D extends InputDecls> = { readonly [K in keyof D]: InputData<D[K]> };

/** Inputs of loss and forward functions. */
export type InputTensors<D extends InputDecls> = { [K in keyof D]: Tensor };

/** An input with its name, in order of declaration. */
export interface Declared {
  name: string;
  dtype: Dtype;
  shape: ShapeDecl;
}

/** An input without a wildcard. */
export interface Resolved extends Declared {
  shape: readonly number[];
}

/** Returns the declarations in order. */
export function declared(inputs: InputDecls): Declared[] {
  return Object.entries(inputs).map(([name, decl]) => {
    const isShape = Array.isArray(decl);
    if (!isShape) checkOptions(`the input '${name}'`, decl, { shape: 'any', dtype: DTYPES });
    const shape = (isShape ? decl : (decl as { shape?: ShapeDecl }).shape) as ShapeDecl;
    const dtype = (isShape ? 'f32' : (decl as { dtype?: Dtype }).dtype) ?? 'f32';
    const fits = Array.isArray(shape) && shape.every((n) => n === null || (Number.isInteger(n) && n > 0));
    if (!fits) throw fail('trace', `the input '${name}' has the shape [${String(shape)}]`, 'extents are whole numbers above 0');
    if (shape.filter((n) => n === null).length > 1) throw fail('trace', `the input '${name}' has more than one null`);
    return { name, dtype, shape };
  });
}

/** Returns the inputs of a training step, or throws if one has a wildcard. */
export function withoutWildcards(inputs: readonly Declared[]): Resolved[] {
  return inputs.map(({ name, dtype, shape }) => {
    if (shape.includes(null)) {
      throw fail('trace', `the input '${name}' has a null extent`, 'a training step has fixed shapes; attach() takes a null');
    }
    return { name, dtype, shape: shape as readonly number[] };
  });
}

/** Returns the declarations with the wildcard replaced by an extent. */
export function filled(inputs: readonly Declared[], extent: number | null): Resolved[] {
  return inputs.map(({ name, dtype, shape }) => ({ name, dtype, shape: shape.map((n) => n ?? extent!) }));
}

function typed(input: Declared, value: unknown): Data {
  const wanted = arrayOf(input.dtype);
  // The tag also recognises arrays of other windows.
  const tag = ArrayBuffer.isView(value) ? (value as unknown as { [Symbol.toStringTag]: string })[Symbol.toStringTag] : '';
  if (value === undefined) throw fail('feed', `the input '${input.name}' is missing`);
  if (tag !== wanted.name) {
    const given = tag || (Array.isArray(value) ? 'an array' : typeof value);
    throw fail('feed', `the input '${input.name}' is ${given}; ${input.dtype} is a ${wanted.name}`);
  }
  return value as Data;
}

/** Returns the extent of the wildcard for these arrays, or null without a wildcard. */
export function wildcard(inputs: readonly Declared[], given: Readonly<Record<string, unknown>>): number | null {
  let found: { name: string; extent: number } | null = null;
  for (const input of inputs) {
    if (!input.shape.includes(null)) continue;
    const data = typed(input, given[input.name]);
    const rest = elements(input.shape.filter((n) => n !== null));
    const extent = data.length / rest;
    if (!Number.isInteger(extent) || extent === 0) {
      throw fail('feed', `the input '${input.name}' has ${data.length} elements; [${show(input.shape)}] has a multiple of ${rest}, and one at least`);
    }
    if (found && found.extent !== extent) {
      throw fail('feed', `the null of '${found.name}' is ${found.extent}, and that of '${input.name}' is ${extent}`,
        'all nulls of one run are the same extent');
    }
    found ??= { name: input.name, extent };
  }
  return found?.extent ?? null;
}

/** Names that were already reported as not being inputs. */
const told = new Set<string>();

/**
 * Returns the checked arrays in order. An array holds the data of `batches` micro-batches, one after the
 * other.
 */
export function arrays(inputs: readonly Resolved[], given: Readonly<Record<string, unknown>>, batches = 1): Data[] {
  if (typeof given !== 'object' || given === null) throw fail('feed', `the inputs are ${String(given)}, not an object of typed arrays`);
  const names = inputs.map((input) => input.name);
  for (const name of Object.keys(given)) {
    if (names.includes(name) || told.has(name)) continue;
    told.add(name);
    const meant = nearest(name, names);
    console.warn(`gradloom: there is no input '${name}', and it is not used. ${meant ? `Did you mean '${meant}'? ` : ''}The inputs are: ${names.join(', ')}.`);
  }
  return inputs.map((input) => {
    const array = typed(input, given[input.name]);
    // A scalar input is the same for all micro-batches.
    const parts = input.shape.length > 0 ? batches : 1;
    const count = elements(input.shape) * parts;
    if (array.length !== count) {
      const all = parts > 1 ? `, and a step takes ${parts} micro-batches of it: ${count}` : '';
      throw fail('feed', `the input '${input.name}' has ${array.length} elements; [${show(input.shape)}] has ${elements(input.shape)}${all}`);
    }
    return array;
  });
}

function show(shape: ShapeDecl): string {
  return shape.map(String).join(', ');
}
