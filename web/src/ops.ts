// Free functions under tensorgrad's names, where these are no ops of the table or take other arguments. In: tensors. Out: tensors,
// composed of the table's ops. What always holds: each throws at the user's line what does not fit; none has a gradient rule of
// its own. Index tensors out of range fail the step, except in `oneHot`, which gives a row of zeros.

import type { Dtype } from './dtype.js';
import { errorOf } from './errors.js';
import { here } from './origin.js';
import { call, Tensor, type AttentionOptions, type Operand } from './tensor.js';
import { currentTrace } from './trace.js';

/** Ops of the table that this file stands on; a test looks that they are there. */
export const NEEDED = [
  'add', 'sub', 'mul', 'div', 'minimum', 'maximum', 'lt', 'gt', 'le', 'ge', 'eq', 'neg', 'abs', 'sqrt', 'log', 'exp', 'log1p',
  'sin', 'cos', 'select', 'cast', 'sum', 'sumAxes', 'sumKeep', 'mean', 'meanAxes', 'meanKeep', 'argmax', 'argmin', 'softmax',
  'logSoftmax', 'reshape', 'permute', 'transpose', 'broadcastTo', 'unsqueeze', 'slice', 'concat', 'gatherRows', 'takeLast',
  'oneHot', 'full', 'iota', 'uniform', 'dropout', 'crossEntropyRows', 'matmul', 'attention', 'detach', 'geluTanh', 'gelu',
] as const;

type Needed = (typeof NEEDED)[number];

/** An op that is surely in the table. */
function op(name: Needed, ...args: unknown[]): Tensor {
  return call(name, ...args);
}

function wrong(message: string, ...help: string[]): Error {
  return errorOf({ kind: 'trace', message, help, origin: here() });
}

/** An axis counted from the front. */
function axisOf(name: string, x: Tensor, axis: number): number {
  const resolved = axis < 0 ? axis + x.rank : axis;
  if (!Number.isInteger(axis) || resolved < 0 || resolved >= x.rank) {
    throw wrong(`\`${name}\`: axis ${axis} is out of range for [${x.shape.join(', ')}]`);
  }
  return resolved;
}

/** Both operands, the left one as a tensor. */
function left(name: string, a: Operand, b: Operand): [Tensor, Operand] {
  if (a instanceof Tensor) return [a, b];
  if (typeof a === 'number' && b instanceof Tensor) return [op('full', b.dtype, [], a), b];
  throw wrong(`\`${name}\` needs a tensor on one side at least`);
}

function binary(name: Needed, a: Operand, b: Operand): Tensor {
  const [x, y] = left(name, a, b);
  return op(name, x, y);
}

// Arithmetic. Either side may be a number.

/** `a + b`, broadcasting from the right. */
export function add(a: Operand, b: Operand): Tensor {
  return binary('add', a, b);
}

/** `a - b`, broadcasting from the right. */
export function sub(a: Operand, b: Operand): Tensor {
  return binary('sub', a, b);
}

/** `a * b`, broadcasting from the right. */
export function mul(a: Operand, b: Operand): Tensor {
  return binary('mul', a, b);
}

/** `a / b`, broadcasting from the right. */
export function div(a: Operand, b: Operand): Tensor {
  return binary('div', a, b);
}

/** The smaller of the two. Ties share the gradient half and half. */
export function min(a: Operand, b: Operand): Tensor {
  return binary('minimum', a, b);
}

/** The larger of the two. Ties share the gradient half and half. */
export function max(a: Operand, b: Operand): Tensor {
  return binary('maximum', a, b);
}

/** `a < b` as bool. */
export function less(a: Operand, b: Operand): Tensor {
  return binary('lt', a, b);
}

/** `a > b` as bool. */
export function greater(a: Operand, b: Operand): Tensor {
  return binary('gt', a, b);
}

/** `a == b` as bool. */
export function equal(a: Operand, b: Operand): Tensor {
  return binary('eq', a, b);
}

/** `a` where the bool tensor is true, `b` elsewhere; the three broadcast together. */
export function where(condition: Tensor, a: Operand, b: Operand): Tensor {
  return op('select', condition, a, b);
}

/** Elements limited to `low..high`. */
export function clamp(x: Tensor, low: Operand, high: Operand): Tensor {
  return op('minimum', op('maximum', x, low), high);
}

// Reductions.

/** What a reduction can vary. */
export interface ReduceOptions {
  /** Reduced axes stay with extent 1. */
  keepDims?: boolean;
}

function reduced(name: 'sum' | 'mean', x: Tensor, axis: number | readonly number[] | undefined, keepDims = false): Tensor {
  if (axis === undefined) {
    const all = op(name, x);
    return keepDims ? op('reshape', all, x.shape.map(() => 1)) : all;
  }
  return op(keepDims ? `${name}Keep` : `${name}Axes`, x, axis);
}

/** Sum over an axis, several, or (none given) all. */
export function sum(x: Tensor, axis?: number | readonly number[], options: ReduceOptions = {}): Tensor {
  return reduced('sum', x, axis, options.keepDims);
}

/** Mean over an axis, several, or (none given) all. */
export function mean(x: Tensor, axis?: number | readonly number[], options: ReduceOptions = {}): Tensor {
  return reduced('mean', x, axis, options.keepDims);
}

/** Index of the largest element along an axis (none given: in row-major order), as i32; the first one wins a tie. */
export function argmax(x: Tensor, axis?: number): Tensor {
  return axis === undefined ? op('argmax', op('reshape', x, [-1]), 0) : op('argmax', x, axis);
}

/** Index of the smallest element along an axis (none given: in row-major order), as i32; the first one wins a tie. */
export function argmin(x: Tensor, axis?: number): Tensor {
  return axis === undefined ? op('argmin', op('reshape', x, [-1]), 0) : op('argmin', x, axis);
}

// Activations.

/** `x Φ(x)`, exact, or its tanh form. */
export function gelu(x: Tensor, options: { approximate?: 'none' | 'tanh' } = {}): Tensor {
  return op(options.approximate === 'tanh' ? 'geluTanh' : 'gelu', x);
}

/** `x` where it is above 0, `alpha x` elsewhere. */
export function leakyRelu(x: Tensor, alpha = 0.01): Tensor {
  return op('select', op('gt', x, 0), x, op('mul', x, alpha));
}

/** `log(1 + e^x)`, exact also far below 0. */
export function softplus(x: Tensor): Tensor {
  return op('add', op('maximum', x, 0), op('log1p', op('exp', op('neg', op('abs', x)))));
}

/** `e^x / sum(e^x)` along an axis. */
export function softmax(x: Tensor, axis = -1): Tensor {
  return op('softmax', x, axis);
}

/** `x - log(sum(e^x))` along an axis. */
export function logSoftmax(x: Tensor, axis = -1): Tensor {
  return op('logSoftmax', x, axis);
}

/** bool `[T, T]`, true where the column is not after the row. */
function causal(name: string, x: Tensor): Tensor {
  const [rows, columns] = x.shape.slice(-2);
  if (x.rank < 2 || rows !== columns) {
    throw wrong(`\`${name}\` of [${x.shape.join(', ')}]`, 'the last two axes are queries and keys, equally many');
  }
  const shape = [rows, columns];
  return op('ge', op('iota', 'i32', shape, 0), op('iota', 'i32', shape, 1));
}

/** `x` where the key (last axis) is not after the query (the axis before), `fill` elsewhere. */
export function whereCausal(x: Tensor, fill: number): Tensor {
  return op('select', causal('whereCausal', x), x, fill);
}

/** Softmax over the last axis of what is not after the query; 0 elsewhere. */
export function softmaxCausal(x: Tensor, axis = -1): Tensor {
  if (axisOf('softmaxCausal', x, axis) !== x.rank - 1) throw wrong('`softmaxCausal` goes along the last axis');
  const mask = causal('softmaxCausal', x);
  // Every row has its own diagonal, which is above this, so that the rest becomes exactly 0.
  return op('softmax', op('select', mask, x, -3e38), -1);
}

// Shapes.

/** The same elements in another shape; one extent may be -1. */
export function reshape(x: Tensor, shape: readonly number[]): Tensor {
  return op('reshape', x, shape);
}

/** The axes from `startAxis` on as one. */
export function flatten(x: Tensor, startAxis = 0): Tensor {
  if (x.rank === 0) return op('reshape', x, [1]);
  const axis = axisOf('flatten', x, startAxis);
  const tail = x.shape.slice(axis).reduce((a, b) => a * b, 1);
  return op('reshape', x, [...x.shape.slice(0, axis), tail]);
}

/** Axis i of the result is axis `order[i]`. */
export function permute(x: Tensor, order: readonly number[]): Tensor {
  return op('permute', x, order.map((axis) => axisOf('permute', x, axis)));
}

/** Two axes exchanged. */
export function swapAxes(x: Tensor, a: number, b: number): Tensor {
  return op('transpose', x, a, b);
}

/** `length` elements from `start` on along an axis. */
export function narrow(x: Tensor, axis: number, start: number, length: number): Tensor {
  const at = axisOf('narrow', x, axis);
  const extent = x.shape[at]!;
  if (!Number.isInteger(start) || !Number.isInteger(length) || start < 0 || length < 0 || start + length > extent) {
    throw wrong(`\`narrow\`: ${length} elements from ${start} on, of ${extent} along axis ${axis}`);
  }
  return op('slice', x, at, [start, start + length]);
}

/** An axis cut into parts of these extents. */
export function split(x: Tensor, sizes: readonly number[], axis: number): Tensor[] {
  const extent = x.shape[axisOf('split', x, axis)]!;
  const total = sizes.reduce((a, b) => a + b, 0);
  if (total !== extent) throw wrong(`\`split\`: the parts [${sizes.join(', ')}] are ${total} of ${extent} elements`);
  let start = 0;
  return sizes.map((size) => narrow(x, axis, (start += size) - size, size));
}

/** Tensors joined along an axis. */
export function concat(tensors: readonly Tensor[], axis: number): Tensor {
  return op('concat', axis, tensors);
}

/** Tensors of one shape joined along a new axis. */
export function stack(tensors: readonly Tensor[], axis: number): Tensor {
  const first = tensors[0];
  if (!first) throw wrong('`stack` of no tensors');
  const at = axis < 0 ? axis + first.rank + 1 : axis;
  return op('concat', at, tensors.map((tensor) => op('unsqueeze', tensor, at)));
}

/** `[.., T, D]` to `[.., heads, T, D / heads]`. */
export function splitHeads(x: Tensor, heads: number): Tensor {
  const [time, width] = x.shape.slice(-2);
  if (x.rank < 2 || width! % heads !== 0) {
    throw wrong(`\`splitHeads\`: the last axis of [${x.shape.join(', ')}] is not a multiple of ${heads}`);
  }
  const lead = x.shape.slice(0, -2);
  return op('transpose', op('reshape', x, [...lead, time!, heads, width! / heads]), -2, -3);
}

/** `[.., heads, T, D]` to `[.., T, heads * D]`. */
export function mergeHeads(x: Tensor): Tensor {
  if (x.rank < 3) throw wrong(`\`mergeHeads\` of [${x.shape.join(', ')}]`, 'it takes [.., heads, T, D]');
  const [heads, time, depth] = x.shape.slice(-3);
  return op('reshape', op('transpose', x, -2, -3), [...x.shape.slice(0, -3), time!, heads! * depth!]);
}

// Tensors out of nothing.

/** All the same. */
export function full(shape: readonly number[], value: number, dtype: Dtype = 'f32'): Tensor {
  return op('full', dtype, shape, value);
}

/** All 0. */
export function zeros(shape: readonly number[], dtype: Dtype = 'f32'): Tensor {
  return full(shape, 0, dtype);
}

/** All 1. */
export function ones(shape: readonly number[], dtype: Dtype = 'f32'): Tensor {
  return full(shape, 1, dtype);
}

/** 0, 1, .. `n - 1`. */
export function arange(n: number, dtype: Dtype = 'i32'): Tensor {
  return op('iota', dtype, [n], 0);
}

/** These numbers, as a part of the program. */
export function constant(values: Float32Array | readonly number[], shape: readonly number[], dtype: Dtype = 'f32'): Tensor {
  const array = values instanceof Float32Array ? values : Float32Array.from(values);
  const count = shape.reduce((a, b) => a * b, 1);
  if (array.length !== count) throw wrong(`\`constant\`: ${array.length} numbers for [${shape.join(', ')}]`);
  return currentTrace('constant').constant(array, dtype, shape);
}

/** Normally distributed numbers, new at every step; they have no gradient. */
export function randn(shape: readonly number[]): Tensor {
  // Box and Muller: 1 - u is in (0, 1], whose logarithm is finite.
  const radius = op('sqrt', op('mul', op('log', op('sub', full([], 1), op('uniform', shape))), -2));
  return op('detach', op('mul', radius, op('cos', op('mul', op('uniform', shape), 2 * Math.PI))));
}

/** A class drawn from each row of logits (last axis), as i32: the largest of logit plus Gumbel noise. */
export function categorical(logits: Tensor, axis = -1): Tensor {
  // Half of a step of the uniform numbers above 0, so that both logarithms are finite.
  const u = op('add', op('mul', op('uniform', logits.shape), 1 - 2 ** -23), 2 ** -25);
  const noise = op('neg', op('log', op('neg', op('log', u))));
  return op('argmax', op('add', op('detach', logits), noise), axis);
}

/** Zero with probability `p`, else `x / (1 - p)`, while a training loss is traced; `x` elsewhere. */
export function dropout(x: Tensor, p: number): Tensor {
  return p === 0 ? x : op('dropout', x, p);
}

// Indexing.

/** 1 where the new last axis' position is the index, 0 elsewhere. */
export function oneHot(index: Tensor, depth: number, dtype: Dtype = 'f32'): Tensor {
  const hot = op('oneHot', index, depth);
  return dtype === 'f32' ? hot : op('cast', hot, dtype);
}

/** Rows of a table `[V, D]`: i32 `[..]` gives `[.., D]`. */
export function embedding(index: Tensor, table: Tensor): Tensor {
  return op('gatherRows', table, index);
}

/** Elements picked along an axis: `indices` has the rank of `x`, and its extents but along the axis. */
export function takeAlongAxis(x: Tensor, indices: Tensor, axis: number): Tensor {
  const at = axisOf('takeAlongAxis', x, axis);
  const fits = indices.rank === x.rank && indices.shape.every((n, i) => i === at || n === x.shape[i]);
  if (!fits) {
    throw wrong(`\`takeAlongAxis\` of [${x.shape.join(', ')}] with indices [${indices.shape.join(', ')}] along axis ${axis}`,
      'the extents agree but along the axis');
  }
  // One element a row: each of the k picks of a row reads the row again.
  const last = x.rank - 1;
  const rows = op('transpose', x, at, last);
  const picks = op('transpose', indices, at, last);
  const lead = rows.shape.slice(0, -1);
  const [width, count] = [rows.shape[last]!, picks.shape[last]!];
  const many = op('broadcastTo', op('reshape', rows, [...lead, 1, width]), [...lead, count, width]);
  return op('transpose', op('takeLast', many, picks), at, last);
}

// Linear algebra and losses.

/** The matrix product over the last two axes; the others broadcast. */
export function matmul(a: Tensor, b: Tensor): Tensor {
  return op('matmul', a, b);
}

/** softmax(scale q kᵀ) v of `[batch, heads, length, depth]`. */
export function attention(q: Tensor, k: Tensor, v: Tensor, options: AttentionOptions = {}): Tensor {
  return op('attention', q, k, v, options);
}

/** How the losses of rows become one. */
export interface LossOptions {
  /** One number, the mean or the sum, or the losses as they are. */
  reduction?: 'mean' | 'sum' | 'none';
}

function reduction(losses: Tensor, { reduction = 'mean' }: LossOptions): Tensor {
  return reduction === 'none' ? losses : op(reduction, losses);
}

/** Cross-entropy of logits `[.., V]` and class numbers i32 `[..]`. A class out of range fails the step. */
export function crossEntropy(logits: Tensor, targets: Tensor, options: LossOptions = {}): Tensor {
  return reduction(op('crossEntropyRows', logits, targets), options);
}

/** The same of logarithms of probabilities. */
export function nllLoss(logProbs: Tensor, targets: Tensor, options: LossOptions = {}): Tensor {
  return reduction(op('neg', op('takeLast', logProbs, targets)), options);
}

/** The same elements; gradients end here. */
export function stopGradient(x: Tensor): Tensor {
  return op('detach', x);
}

/** The same tensor, read back under this name whenever the program runs. */
export function capture(name: string, x: Tensor): Tensor {
  return x.capture(name);
}

/** Rotary position embedding of queries and keys `[.., T, D]` (D even), halves rotated against each other. Su et al., 2021. */
export function rope(q: Tensor, k: Tensor, options: { base?: number } = {}): { q: Tensor; k: Tensor } {
  const [time, depth] = q.shape.slice(-2);
  const [otherTime, otherDepth] = k.shape.slice(-2);
  if (q.rank < 2 || time !== otherTime || depth !== otherDepth || depth! % 2 !== 0) {
    throw wrong(`\`rope\` of [${q.shape.join(', ')}] and [${k.shape.join(', ')}]`, 'both are [.., T, D] with the same T and an even D');
  }
  const half = depth! / 2;
  const base = options.base ?? 10000;
  // The angles are part of the program: computed here in float64, once.
  const [cosines, sines] = [new Float32Array(time! * half), new Float32Array(time! * half)];
  for (let t = 0; t < time!; t++) {
    for (let i = 0; i < half; i++) {
      const angle = t * base ** (-i / half);
      cosines[t * half + i] = Math.cos(angle);
      sines[t * half + i] = Math.sin(angle);
    }
  }
  const cos = constant(cosines, [time!, half]);
  const sin = constant(sines, [time!, half]);
  const turned = (x: Tensor): Tensor => {
    const [a, b] = [narrow(x, -1, 0, half), narrow(x, -1, half, half)];
    return op('concat', -1, [
      op('sub', op('mul', a, cos), op('mul', b, sin)), op('add', op('mul', b, cos), op('mul', a, sin)),
    ]);
  };
  return { q: turned(q), k: turned(k) };
}
