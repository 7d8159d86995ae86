// A part of the op table, by hand, in the form that `cargo xtask web` writes; only for working on the face without the Rust build.
import type { AttentionOptions, DType, Operand, Tensor } from '../tensor.js'

export const OPS = {
  add: { code: 32, method: true, params: [{name:'right',kind:'operand'}] },
  sub: { code: 33, method: true, params: [{name:'right',kind:'operand'}] },
  mul: { code: 34, method: true, params: [{name:'right',kind:'operand'}] },
  div: { code: 35, method: true, params: [{name:'right',kind:'operand'}] },
  rem: { code: 36, method: true, params: [{name:'right',kind:'operand'}] },
  minimum: { code: 37, method: true, params: [{name:'right',kind:'operand'}] },
  maximum: { code: 38, method: true, params: [{name:'right',kind:'operand'}] },
  pow: { code: 39, method: true, params: [{name:'right',kind:'operand'}] },
  eq: { code: 40, method: true, params: [{name:'right',kind:'operand'}] },
  ne: { code: 41, method: true, params: [{name:'right',kind:'operand'}] },
  lt: { code: 42, method: true, params: [{name:'right',kind:'operand'}] },
  le: { code: 43, method: true, params: [{name:'right',kind:'operand'}] },
  gt: { code: 44, method: true, params: [{name:'right',kind:'operand'}] },
  ge: { code: 45, method: true, params: [{name:'right',kind:'operand'}] },
  logicalAnd: { code: 46, method: true, params: [{name:'right',kind:'operand'}] },
  logicalOr: { code: 47, method: true, params: [{name:'right',kind:'operand'}] },
  neg: { code: 48, method: true, params: [] },
  abs: { code: 49, method: true, params: [] },
  sign: { code: 50, method: true, params: [] },
  floor: { code: 51, method: true, params: [] },
  exp: { code: 52, method: true, params: [] },
  expm1: { code: 53, method: true, params: [] },
  log: { code: 54, method: true, params: [] },
  log1p: { code: 55, method: true, params: [] },
  sqrt: { code: 56, method: true, params: [] },
  rsqrt: { code: 57, method: true, params: [] },
  sin: { code: 58, method: true, params: [] },
  cos: { code: 59, method: true, params: [] },
  tanh: { code: 60, method: true, params: [] },
  sigmoid: { code: 61, method: true, params: [] },
  erf: { code: 62, method: true, params: [] },
  logicalNot: { code: 63, method: true, params: [] },
  square: { code: 64, method: true, params: [] },
  relu: { code: 65, method: true, params: [] },
  gelu: { code: 66, method: true, params: [] },
  geluTanh: { code: 67, method: true, params: [] },
  silu: { code: 68, method: true, params: [] },
  detach: { code: 69, method: true, params: [] },
  select: { code: 70, method: true, params: [{name:'yes',kind:'operand'}, {name:'no',kind:'operand'}] },
  cast: { code: 71, method: true, params: [{name:'dtype',kind:'dtype'}] },
  clamp: { code: 72, method: true, params: [{name:'low',kind:'operand'}, {name:'high',kind:'operand'}] },
  sum: { code: 73, method: true, params: [] },
  sumAxes: { code: 74, method: true, params: [{name:'axes',kind:'axes'}] },
  sumKeep: { code: 75, method: true, params: [{name:'axes',kind:'axes'}] },
  prod: { code: 76, method: true, params: [] },
  prodAxes: { code: 77, method: true, params: [{name:'axes',kind:'axes'}] },
  prodKeep: { code: 78, method: true, params: [{name:'axes',kind:'axes'}] },
  max: { code: 79, method: true, params: [] },
  maxAxes: { code: 80, method: true, params: [{name:'axes',kind:'axes'}] },
  maxKeep: { code: 81, method: true, params: [{name:'axes',kind:'axes'}] },
  min: { code: 82, method: true, params: [] },
  minAxes: { code: 83, method: true, params: [{name:'axes',kind:'axes'}] },
  minKeep: { code: 84, method: true, params: [{name:'axes',kind:'axes'}] },
  mean: { code: 85, method: true, params: [] },
  meanAxes: { code: 86, method: true, params: [{name:'axes',kind:'axes'}] },
  meanKeep: { code: 87, method: true, params: [{name:'axes',kind:'axes'}] },
  argmax: { code: 88, method: true, params: [{name:'axis',kind:'integer'}] },
  argmin: { code: 89, method: true, params: [{name:'axis',kind:'integer'}] },
  logsumexpKeep: { code: 90, method: true, params: [{name:'axis',kind:'integer'}] },
  softmax: { code: 91, method: true, params: [{name:'axis',kind:'integer'}] },
  logSoftmax: { code: 92, method: true, params: [{name:'axis',kind:'integer'}] },
  reshape: { code: 93, method: true, params: [{name:'shape',kind:'shape'}] },
  flatten: { code: 94, method: true, params: [] },
  permute: { code: 95, method: true, params: [{name:'order',kind:'integers'}] },
  transpose: { code: 96, method: true, params: [{name:'a',kind:'integer'}, {name:'b',kind:'integer'}] },
  broadcastTo: { code: 97, method: true, params: [{name:'shape',kind:'shape'}] },
  unsqueeze: { code: 98, method: true, params: [{name:'axis',kind:'integer'}] },
  squeeze: { code: 99, method: true, params: [{name:'axis',kind:'integer'}] },
  slice: { code: 100, method: true, params: [{name:'axis',kind:'integer'}, {name:'range',kind:'range'}] },
  pad: { code: 101, method: true, params: [{name:'axis',kind:'integer'}, {name:'low',kind:'integer'}, {name:'high',kind:'integer'}, {name:'value',kind:'number'}] },
  concat: { code: 102, method: false, params: [{name:'axis',kind:'integer'}, {name:'parts',kind:'tensors'}] },
  gatherRows: { code: 103, method: true, params: [{name:'index',kind:'tensor'}] },
  takeLast: { code: 104, method: true, params: [{name:'index',kind:'tensor'}] },
  oneHot: { code: 105, method: true, params: [{name:'depth',kind:'integer'}] },
  full: { code: 106, method: false, params: [{name:'dtype',kind:'dtype'}, {name:'shape',kind:'shape'}, {name:'value',kind:'number'}] },
  iota: { code: 107, method: false, params: [{name:'dtype',kind:'dtype'}, {name:'shape',kind:'shape'}, {name:'axis',kind:'integer'}] },
  uniform: { code: 108, method: false, params: [{name:'shape',kind:'shape'}] },
  dropout: { code: 109, method: true, params: [{name:'p',kind:'number'}] },
  crossEntropy: { code: 110, method: true, params: [{name:'targets',kind:'tensor'}] },
  crossEntropyRows: { code: 111, method: true, params: [{name:'targets',kind:'tensor'}] },
  matmul: { code: 112, method: true, params: [{name:'right',kind:'operand'}] },
  attention: { code: 113, method: true, params: [{name:'keys',kind:'tensor'}, {name:'values',kind:'tensor'}, {name:'options',kind:'attention'}] },
} as const

/** Methods of every tensor. */
export interface TensorOps {
  /** `self + right`, with broadcasting. */
  add(right: Operand): Tensor
  /** `self - right`, with broadcasting. */
  sub(right: Operand): Tensor
  /** `self * right`, with broadcasting. */
  mul(right: Operand): Tensor
  /** `self / right`, with broadcasting. */
  div(right: Operand): Tensor
  /** The remainder of `self / right`. */
  rem(right: Operand): Tensor
  /** The smaller of the two; NaN if either is. */
  minimum(right: Operand): Tensor
  /** The larger of the two; NaN if either is. */
  maximum(right: Operand): Tensor
  /** `self` to the power of `right`. */
  pow(right: Operand): Tensor
  /** `self == right`, elementwise, as bool. */
  eq(right: Operand): Tensor
  /** `self != right`, elementwise, as bool. */
  ne(right: Operand): Tensor
  /** `self < right`, elementwise, as bool. */
  lt(right: Operand): Tensor
  /** `self <= right`, elementwise, as bool. */
  le(right: Operand): Tensor
  /** `self > right`, elementwise, as bool. */
  gt(right: Operand): Tensor
  /** `self >= right`, elementwise, as bool. */
  ge(right: Operand): Tensor
  /** Logical (bool) or bitwise (integers) and. */
  logicalAnd(right: Operand): Tensor
  /** Logical (bool) or bitwise (integers) or. */
  logicalOr(right: Operand): Tensor
  /** `-x`. */
  neg(): Tensor
  /** `|x|`; the gradient at 0 is 0. */
  abs(): Tensor
  /** -1, 0 or 1. */
  sign(): Tensor
  /** The largest whole number that is not above `x`; no gradient. */
  floor(): Tensor
  /** `e^x`. */
  exp(): Tensor
  /** `e^x - 1` without cancellation near 0. */
  expm1(): Tensor
  /** Natural logarithm. */
  log(): Tensor
  /** `log(1 + x)` without cancellation near 0. */
  log1p(): Tensor
  /** Square root. */
  sqrt(): Tensor
  /** `1 / sqrt(x)`. */
  rsqrt(): Tensor
  /** Sine of an angle in radians. */
  sin(): Tensor
  /** Cosine of an angle in radians. */
  cos(): Tensor
  /** Hyperbolic tangent. */
  tanh(): Tensor
  /** `1 / (1 + e^-x)`. */
  sigmoid(): Tensor
  /** The error function. */
  erf(): Tensor
  /** Logical (bool) or bitwise (integers) complement. */
  logicalNot(): Tensor
  /** `x * x`. */
  square(): Tensor
  /** `max(x, 0)`; the gradient at 0 is 0. */
  relu(): Tensor
  /** `x Phi(x)` with the exact normal distribution function. */
  gelu(): Tensor
  /** The tanh form of GELU, as GPT-2 has it. */
  geluTanh(): Tensor
  /** `x sigmoid(x)`. */
  silu(): Tensor
  /** The same elements; gradients end here. */
  detach(): Tensor
  /** `yes` where this bool tensor is true, `no` elsewhere; the three broadcast together. */
  select(yes: Operand, no: Operand): Tensor
  /** The elements as another dtype. */
  cast(dtype: DType): Tensor
  /** Elements limited to `low..=high`. */
  clamp(low: Operand, high: Operand): Tensor
  /** Sum over all axes; gives rank 0. */
  sum(): Tensor
  /** Sum over the given axes, which vanish. */
  sumAxes(axes: number | readonly number[]): Tensor
  /** Sum over the given axes, which stay with extent 1. */
  sumKeep(axes: number | readonly number[]): Tensor
  /** Prod over all axes; gives rank 0. */
  prod(): Tensor
  /** Prod over the given axes, which vanish. */
  prodAxes(axes: number | readonly number[]): Tensor
  /** Prod over the given axes, which stay with extent 1. */
  prodKeep(axes: number | readonly number[]): Tensor
  /** Max over all axes; gives rank 0. */
  max(): Tensor
  /** Max over the given axes, which vanish. */
  maxAxes(axes: number | readonly number[]): Tensor
  /** Max over the given axes, which stay with extent 1. */
  maxKeep(axes: number | readonly number[]): Tensor
  /** Min over all axes; gives rank 0. */
  min(): Tensor
  /** Min over the given axes, which vanish. */
  minAxes(axes: number | readonly number[]): Tensor
  /** Min over the given axes, which stay with extent 1. */
  minKeep(axes: number | readonly number[]): Tensor
  /** Mean over all axes; gives rank 0. */
  mean(): Tensor
  /** Mean over the given axes, which vanish. */
  meanAxes(axes: number | readonly number[]): Tensor
  /** Mean over the given axes, which stay with extent 1. */
  meanKeep(axes: number | readonly number[]): Tensor
  /** Index of the largest element along an axis, as i32; the first one wins a tie. */
  argmax(axis: number): Tensor
  /** Index of the smallest element along an axis, as i32; the first one wins a tie. */
  argmin(axis: number): Tensor
  /** `log(sum(exp(x)))` along an axis, which stays with extent 1. */
  logsumexpKeep(axis: number): Tensor
  /** `exp(x) / sum(exp(x))` along an axis. */
  softmax(axis: number): Tensor
  /** `x - log(sum(exp(x)))` along an axis. */
  logSoftmax(axis: number): Tensor
  /** The same elements, in row-major order, in another shape. */
  reshape(shape: readonly number[]): Tensor
  /** All elements in one axis. */
  flatten(): Tensor
  /** Axis i of the result is axis `order[i]`. */
  permute(order: readonly number[]): Tensor
  /** Swaps two axes; negative numbers count from the last. */
  transpose(a: number, b: number): Tensor
  /** Repeats axes of extent 1, and missing leading axes, to `shape`. */
  broadcastTo(shape: readonly number[]): Tensor
  /** A new axis of extent 1 at `axis` (0 to rank). */
  unsqueeze(axis: number): Tensor
  /** Removes an axis of extent 1. */
  squeeze(axis: number): Tensor
  /** Elements `start..end` along an axis. */
  slice(axis: number, range: readonly [start: number, end: number]): Tensor
  /** `low` elements of `value` before and `high` after, along an axis. */
  pad(axis: number, low: number, high: number, value: number): Tensor
  /** Rows by number: `self` `[N, R..]`, `index` i32 `[I..]` gives `[I.., R..]`. */
  gatherRows(index: Tensor): Tensor
  /** One element of each last axis: `self` `[B.., N]`, `index` i32 `[B..]` gives `[B..]`. */
  takeLast(index: Tensor): Tensor
  /** 1 where the last axis' position equals the index, 0 elsewhere. */
  oneHot(depth: number): Tensor
  /** While a training loss is traced: zero with probability `p`, else `x / (1 - p)`. Otherwise `x`. */
  dropout(p: number): Tensor
  /** Mean cross-entropy over rows, in nats. */
  crossEntropy(targets: Tensor): Tensor
  /** Cross-entropy of each row, in nats. */
  crossEntropyRows(targets: Tensor): Tensor
  /** The matrix product over the last two axes, broadcasting the others. */
  matmul(right: Operand): Tensor
  /** softmax(scale q k^T) v: self is q `[batch, heads, queries, depth]`. */
  attention(keys: Tensor, values: Tensor, options: AttentionOptions): Tensor
}

/** Functions that make tensors. */
export interface FunctionOps {
  /** Joins tensors along an axis; the other extents agree. */
  concat(axis: number, parts: readonly Tensor[]): Tensor
  /** A tensor with the same number everywhere. */
  full(dtype: DType, shape: readonly number[], value: number): Tensor
  /** The position along an axis. */
  iota(dtype: DType, shape: readonly number[], axis: number): Tensor
  /** Uniform f32 numbers in `[0, 1)`. */
  uniform(shape: readonly number[]): Tensor
}
