// Functions under tensorgrad's names. In: tensors. Out: tensors. Always holds: each is a function of the
// table under another name, or converts its arguments for one; there are no formulas here. Indices out of
// range fail the step, except in `oneHot`, which returns a row of zeros.

import type { Dtype } from './dtype.js';
import { errorOf } from './errors.js';
import { here } from './origin.js';
import type { PoolOptions } from './generated/ops.js';
import { checkOptions } from './options.js';
import { call, type Tensor } from './tensor.js';
import { currentTrace } from './trace.js';

export * from './generated/functions.js';
export type { ConvOptions as Conv2dOptions } from './generated/functions.js';
export {
  detach as stopGradient, eq as equal, gt as greater, lt as less, maximum as max, minimum as min, select as where, transpose as swapAxes,
  upsampleNearest2d as nearestUpsample2d, var_ as variance,
} from './generated/functions.js';

function wrong(message: string, ...help: string[]): Error {
  return errorOf({ kind: 'trace', message, help, origin: here() });
}

/** Returns an axis counted from the front. */
function axisOf(name: string, x: Tensor, axis: number): number {
  const resolved = axis < 0 ? axis + x.rank : axis;
  if (!Number.isInteger(axis) || resolved < 0 || resolved >= x.rank) {
    throw wrong(`\`${name}\`: axis ${axis} is out of range for [${x.shape.join(', ')}]`);
  }
  return resolved;
}

// Reductions.

/** Options of a reduction. */
export interface ReduceOptions {
  /** True to keep reduced axes with extent 1. */
  keepDims?: boolean;
}

function reduced(name: 'sum' | 'mean', x: Tensor, axis: number | readonly number[] | undefined, options: ReduceOptions): Tensor {
  checkOptions(`\`${name}\``, options, { keepDims: 'flag' });
  const keep = options.keepDims ?? false;
  if (axis === undefined && !keep) return call(name, x);
  return call(`${name}${keep ? 'Keep' : 'Axes'}`, x, axis ?? x.shape.map((_, i) => i));
}

/** Sums over one axis, several, or all by default. */
export function sum(x: Tensor, axis?: number | readonly number[], options: ReduceOptions = {}): Tensor {
  return reduced('sum', x, axis, options);
}

/** Averages over one axis, several, or all by default. */
export function mean(x: Tensor, axis?: number | readonly number[], options: ReduceOptions = {}): Tensor {
  return reduced('mean', x, axis, options);
}

/**
 * Returns the index of the largest element along an axis as i32, by default in row-major order. The first of
 * equal elements wins.
 */
export function argmax(x: Tensor, axis?: number): Tensor {
  return axis === undefined ? call('argmax', call('flatten', x), 0) : call('argmax', x, axis);
}

/**
 * Returns the index of the smallest element along an axis as i32, by default in row-major order. The first of
 * equal elements wins.
 */
export function argmin(x: Tensor, axis?: number): Tensor {
  return axis === undefined ? call('argmin', call('flatten', x), 0) : call('argmin', x, axis);
}

// Activations.

/** Options of `gelu`. */
export interface GeluOptions {
  /** 'tanh' for the tanh approximation; 'none' (exact) by default. */
  approximate?: 'none' | 'tanh';
}

/** Computes `x Φ(x)`, exactly or by its tanh approximation. */
export function gelu(x: Tensor, options: GeluOptions = {}): Tensor {
  checkOptions('`gelu`', options, { approximate: ['none', 'tanh'] });
  return call(options.approximate === 'tanh' ? 'geluTanh' : 'gelu', x);
}

/**
 * Computes the softmax along the key axis `axis`, over the keys up to the query's position; later keys are 0.
 * The query axis is the last of the other axes: with axis -1, the shape is `[.., queries, keys]`. Both have
 * the same extent.
 */
export function softmaxCausal(x: Tensor, axis = -1): Tensor {
  const at = axisOf('softmaxCausal', x, axis);
  const last = x.rank - 1;
  if (at === last) return call('softmaxCausal', x);
  const order = x.shape.map((_, i) => i);
  const toEnd = [...order.filter((i) => i !== at), at];
  return call('permute', call('softmaxCausal', call('permute', x, toEnd)), order.map((i) => toEnd.indexOf(i)));
}

// Pooling.

/** Options of pooling over two axes. */
export type MaxPool2dOptions = PoolOptions;

/**
 * Returns the largest element of each window of `[batch, channels, rows, columns]`. `size` is for both axes,
 * or one for each.
 */
export function maxPool2d(x: Tensor, size: number | readonly number[], options: MaxPool2dOptions = {}): Tensor {
  return call('maxPool2d', x, typeof size === 'number' ? [size, size] : size, options);
}

/**
 * Returns the mean of each window of `[batch, channels, rows, columns]`. `size` is for both axes, or one for
 * each.
 */
export function avgPool2d(x: Tensor, size: number | readonly number[], options: MaxPool2dOptions = {}): Tensor {
  return call('avgPool2d', x, typeof size === 'number' ? [size, size] : size, options);
}

// Shapes.

/** Merges the axes from `startAxis` on into one. */
export function flatten(x: Tensor, startAxis = 0): Tensor {
  const axis = x.rank === 0 ? 0 : axisOf('flatten', x, startAxis);
  const tail = x.shape.slice(axis).reduce((a, b) => a * b, 1);
  return call('reshape', x, [...x.shape.slice(0, axis), tail]);
}

/** Reorders axes: axis i of the result is axis `order[i]`. */
export function permute(x: Tensor, order: readonly number[]): Tensor {
  return call('permute', x, order.map((axis) => axisOf('permute', x, axis)));
}

/** Returns `length` elements from `start` on along an axis. */
export function narrow(x: Tensor, axis: number, start: number, length: number): Tensor {
  return call('narrow', x, axis, start, length);
}

/** Splits an axis into parts with these extents. */
export function split<const S extends readonly number[]>(x: Tensor, sizes: S, axis: number): { -readonly [K in keyof S]: Tensor } {
  const extent = x.shape[axisOf('split', x, axis)]!;
  const total = sizes.reduce((a, b) => a + b, 0);
  if (total !== extent) throw wrong(`\`split\`: the parts [${sizes.join(', ')}] are ${total} of ${extent} elements`);
  let start = 0;
  return sizes.map((size) => narrow(x, axis, (start += size) - size, size)) as { -readonly [K in keyof S]: Tensor };
}

/** Splits an axis into this many parts of equal extent, of which the last may be shorter. */
export function chunk(x: Tensor, count: number, axis: number): Tensor[] {
  const extent = x.shape[axisOf('chunk', x, axis)]!;
  const size = Math.max(1, Math.ceil(extent / count));
  const parts = Array.from({ length: Math.max(1, Math.ceil(extent / size)) }, (_, i) => Math.min(size, extent - i * size));
  return split(x, parts, axis);
}

/**
 * Returns a tensor `[n0, n1, ..]` for each of several vectors with n0, n1, .. elements; it varies along the
 * vector's axis.
 */
export function meshgrid(vectors: readonly Tensor[]): Tensor[] {
  const extents = vectors.map((vector) => vector.shape.reduce((a, b) => a * b, 1));
  return vectors.map((vector, axis) =>
    call('broadcastTo', call('reshape', vector, extents.map((n, i) => (i === axis ? n : 1))), extents));
}

/** Returns the `k` largest elements along an axis in descending order, and their indices as i32. */
export function topK(x: Tensor, k: number, axis = -1): { values: Tensor, indices: Tensor } {
  const indices = call('argTopK', x, k, axis);
  return { values: call('takeAlongAxis', x, indices, axis), indices };
}

/** Concatenates tensors along an axis. */
export function concat(tensors: readonly Tensor[], axis: number): Tensor {
  return call('concat', axis, tensors);
}

/** Stacks tensors of one shape along a new axis. */
export function stack(tensors: readonly Tensor[], axis: number): Tensor {
  return call('stack', axis, tensors);
}

// Creation.

/** Returns a tensor with all elements equal to `value`. */
export function full(shape: readonly number[], value: number, dtype: Dtype = 'f32'): Tensor {
  return call('full', dtype, shape, value);
}

/** Returns a tensor of zeros. */
export function zeros(shape: readonly number[], dtype: Dtype = 'f32'): Tensor {
  return full(shape, 0, dtype);
}

/** Returns a tensor of ones. */
export function ones(shape: readonly number[], dtype: Dtype = 'f32'): Tensor {
  return full(shape, 1, dtype);
}

/** Returns 0, 1, .. `n - 1`. */
export function arange(n: number, dtype: Dtype = 'i32'): Tensor {
  return call('iota', dtype, [n], 0);
}

/** Returns a tensor with these elements, which are part of the program. */
export function constant(values: Float32Array | readonly number[], shape: readonly number[], dtype: Dtype = 'f32'): Tensor {
  const array = values instanceof Float32Array ? values : Float32Array.from(values);
  const count = shape.reduce((a, b) => a * b, 1);
  if (array.length !== count) throw wrong(`\`constant\`: ${array.length} numbers for [${shape.join(', ')}]`);
  return currentTrace('constant').constant(array, dtype, shape);
}

// Indexing.

/** Returns 1 where the position along a new last axis equals the index, 0 elsewhere. */
export function oneHot(index: Tensor, depth: number, dtype: Dtype = 'f32'): Tensor {
  return call('cast', call('oneHot', index, depth), dtype);
}

/** Looks up rows of a table `[V, D]`: i32 `[..]` to `[.., D]`. An index out of range fails the step. */
export function embedding(table: Tensor, indices: Tensor): Tensor {
  if (table.dtype === 'i32' && indices.dtype !== 'i32') {
    throw wrong(`\`embedding\` of ${String(table)} and ${String(indices)}`, 'the table comes first: embedding(table, indices)');
  }
  return call('gatherRows', table, indices);
}

// Losses.

/** Options that reduce the losses of rows. */
export interface LossOptions {
  /** 'mean' (the default) or 'sum' for one number, 'none' for the losses of all rows. */
  reduction?: 'mean' | 'sum' | 'none';
}

function reductionOf(name: string, options: LossOptions): (losses: Tensor) => Tensor {
  checkOptions(`\`${name}\``, options, { reduction: ['mean', 'sum', 'none'] });
  const { reduction = 'mean' } = options;
  return (losses) => (reduction === 'none' ? losses : call(reduction, losses));
}

/**
 * Computes the cross-entropy of logits `[.., V]` and class indices i32 `[..]`. A class out of range fails the
 * step.
 */
export function crossEntropy(logits: Tensor, targets: Tensor, options: LossOptions = {}): Tensor {
  return reductionOf('crossEntropy', options)(call('crossEntropyRows', logits, targets));
}

/** Computes the negative log-likelihood of class indices i32 `[..]` from log-probabilities `[.., V]`. */
export function nllLoss(logProbs: Tensor, targets: Tensor, options: LossOptions = {}): Tensor {
  return reductionOf('nllLoss', options)(call('neg', call('takeLast', logProbs, targets)));
}

/** Marks a tensor to be read back under this name whenever the program runs, and returns it. */
export function capture<T extends Tensor>(name: string, x: T): T {
  if (typeof name !== 'string') throw wrong('`capture`: the name comes first, then the tensor: capture(name, x)');
  return x.capture(name) as T;
}

/** Options of `rope`. */
export interface RopeOptions {
  /** Base of the angles; 10,000 by default. */
  base?: number;
}

/** Applies rotary position embedding to queries and keys `[.., T, D]` (D even), and returns `[q, k]`. */
export function rope(q: Tensor, k: Tensor, options: RopeOptions = {}): [q: Tensor, k: Tensor] {
  checkOptions('`rope`', options, { base: 'number' });
  const [left, right] = [q, k].map(({ shape }) => shape.slice(-2).join(', '));
  if (left !== right) {
    throw wrong(`\`rope\` of [${q.shape.join(', ')}] and [${k.shape.join(', ')}]`, 'both are [.., T, D] with the same T and D');
  }
  return [call('rope', q, options.base), call('rope', k, options.base)];
}
