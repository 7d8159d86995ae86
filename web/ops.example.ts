// A copy of the op table, taken when `cargo xtask web` has not been run: for working on the face without the Rust build.
import type { AttentionOptions, DType, Operand, Tensor } from '../tensor.js'

export const OPS = {
  abs: { code: 32, method: true, params: [] },
  add: { code: 33, method: true, params: [{name:'right',kind:'operand'}] },
  argmax: { code: 34, method: true, params: [{name:'axis',kind:'integer'}] },
  argmin: { code: 35, method: true, params: [{name:'axis',kind:'integer'}] },
  attention: { code: 36, method: true, params: [{name:'keys',kind:'tensor'}, {name:'values',kind:'tensor'}, {name:'options',kind:'attention'}] },
  broadcastTo: { code: 37, method: true, params: [{name:'shape',kind:'shape'}] },
  cast: { code: 38, method: true, params: [{name:'dtype',kind:'dtype'}] },
  clamp: { code: 39, method: true, params: [{name:'low',kind:'operand'}, {name:'high',kind:'operand'}] },
  concat: { code: 40, method: false, params: [{name:'axis',kind:'integer'}, {name:'parts',kind:'tensors'}] },
  cos: { code: 41, method: true, params: [] },
  crossEntropy: { code: 42, method: true, params: [{name:'targets',kind:'tensor'}] },
  crossEntropyRows: { code: 43, method: true, params: [{name:'targets',kind:'tensor'}] },
  detach: { code: 44, method: true, params: [] },
  div: { code: 45, method: true, params: [{name:'right',kind:'operand'}] },
  dropout: { code: 46, method: true, params: [{name:'p',kind:'number'}] },
  dynamicSlice: { code: 47, method: true, params: [{name:'starts',kind:'tensors'}, {name:'sizes',kind:'integers'}] },
  dynamicUpdateSlice: { code: 48, method: true, params: [{name:'update',kind:'tensor'}, {name:'starts',kind:'tensors'}] },
  eq: { code: 49, method: true, params: [{name:'right',kind:'operand'}] },
  erf: { code: 50, method: true, params: [] },
  exp: { code: 51, method: true, params: [] },
  expm1: { code: 52, method: true, params: [] },
  flatten: { code: 53, method: true, params: [] },
  floor: { code: 54, method: true, params: [] },
  full: { code: 55, method: false, params: [{name:'dtype',kind:'dtype'}, {name:'shape',kind:'shape'}, {name:'value',kind:'number'}] },
  gatherRows: { code: 56, method: true, params: [{name:'index',kind:'tensor'}] },
  ge: { code: 57, method: true, params: [{name:'right',kind:'operand'}] },
  gelu: { code: 58, method: true, params: [] },
  geluTanh: { code: 59, method: true, params: [] },
  gt: { code: 60, method: true, params: [{name:'right',kind:'operand'}] },
  iota: { code: 61, method: false, params: [{name:'dtype',kind:'dtype'}, {name:'shape',kind:'shape'}, {name:'axis',kind:'integer'}] },
  le: { code: 62, method: true, params: [{name:'right',kind:'operand'}] },
  log: { code: 63, method: true, params: [] },
  log1p: { code: 64, method: true, params: [] },
  logSoftmax: { code: 65, method: true, params: [{name:'axis',kind:'integer'}] },
  logicalAnd: { code: 66, method: true, params: [{name:'right',kind:'operand'}] },
  logicalNot: { code: 67, method: true, params: [] },
  logicalOr: { code: 68, method: true, params: [{name:'right',kind:'operand'}] },
  logicalXor: { code: 69, method: true, params: [{name:'right',kind:'operand'}] },
  logsumexpKeep: { code: 70, method: true, params: [{name:'axis',kind:'integer'}] },
  lt: { code: 71, method: true, params: [{name:'right',kind:'operand'}] },
  matmul: { code: 72, method: true, params: [{name:'right',kind:'operand'}] },
  max: { code: 73, method: true, params: [] },
  maxAxes: { code: 74, method: true, params: [{name:'axes',kind:'axes'}] },
  maxKeep: { code: 75, method: true, params: [{name:'axes',kind:'axes'}] },
  maximum: { code: 76, method: true, params: [{name:'right',kind:'operand'}] },
  mean: { code: 77, method: true, params: [] },
  meanAxes: { code: 78, method: true, params: [{name:'axes',kind:'axes'}] },
  meanKeep: { code: 79, method: true, params: [{name:'axes',kind:'axes'}] },
  min: { code: 80, method: true, params: [] },
  minAxes: { code: 81, method: true, params: [{name:'axes',kind:'axes'}] },
  minKeep: { code: 82, method: true, params: [{name:'axes',kind:'axes'}] },
  minimum: { code: 83, method: true, params: [{name:'right',kind:'operand'}] },
  mul: { code: 84, method: true, params: [{name:'right',kind:'operand'}] },
  ne: { code: 85, method: true, params: [{name:'right',kind:'operand'}] },
  neg: { code: 86, method: true, params: [] },
  oneHot: { code: 87, method: true, params: [{name:'depth',kind:'integer'}] },
  pad: { code: 88, method: true, params: [{name:'axis',kind:'integer'}, {name:'low',kind:'integer'}, {name:'high',kind:'integer'}, {name:'value',kind:'number'}] },
  permute: { code: 89, method: true, params: [{name:'order',kind:'integers'}] },
  pow: { code: 90, method: true, params: [{name:'right',kind:'operand'}] },
  prod: { code: 91, method: true, params: [] },
  prodAxes: { code: 92, method: true, params: [{name:'axes',kind:'axes'}] },
  prodKeep: { code: 93, method: true, params: [{name:'axes',kind:'axes'}] },
  relu: { code: 94, method: true, params: [] },
  rem: { code: 95, method: true, params: [{name:'right',kind:'operand'}] },
  reshape: { code: 96, method: true, params: [{name:'shape',kind:'shape'}] },
  rsqrt: { code: 97, method: true, params: [] },
  scatterAddRows: { code: 98, method: true, params: [{name:'index',kind:'tensor'}, {name:'updates',kind:'tensor'}] },
  select: { code: 99, method: true, params: [{name:'yes',kind:'operand'}, {name:'no',kind:'operand'}] },
  shiftLeft: { code: 100, method: true, params: [{name:'right',kind:'operand'}] },
  shiftRight: { code: 101, method: true, params: [{name:'right',kind:'operand'}] },
  sigmoid: { code: 102, method: true, params: [] },
  sign: { code: 103, method: true, params: [] },
  silu: { code: 104, method: true, params: [] },
  sin: { code: 105, method: true, params: [] },
  slice: { code: 106, method: true, params: [{name:'axis',kind:'integer'}, {name:'range',kind:'range'}] },
  sliceStep: { code: 107, method: true, params: [{name:'axis',kind:'integer'}, {name:'range',kind:'range'}, {name:'step',kind:'integer'}] },
  softmax: { code: 108, method: true, params: [{name:'axis',kind:'integer'}] },
  sqrt: { code: 109, method: true, params: [] },
  square: { code: 110, method: true, params: [] },
  squeeze: { code: 111, method: true, params: [{name:'axis',kind:'integer'}] },
  sub: { code: 112, method: true, params: [{name:'right',kind:'operand'}] },
  sum: { code: 113, method: true, params: [] },
  sumAxes: { code: 114, method: true, params: [{name:'axes',kind:'axes'}] },
  sumKeep: { code: 115, method: true, params: [{name:'axes',kind:'axes'}] },
  takeLast: { code: 116, method: true, params: [{name:'index',kind:'tensor'}] },
  tanh: { code: 117, method: true, params: [] },
  transpose: { code: 118, method: true, params: [{name:'a',kind:'integer'}, {name:'b',kind:'integer'}] },
  uniform: { code: 119, method: false, params: [{name:'shape',kind:'shape'}] },
  unsqueeze: { code: 120, method: true, params: [{name:'axis',kind:'integer'}] },
} as const

/** Methods of every tensor. */
export interface TensorOps {
  /** `|x|`; the gradient at 0 is 0. */
  abs(): Tensor
  /** `x + y`, elementwise. */
  add(right: Operand): Tensor
  /** Index of the largest element along an axis, as i32; the first one wins a tie, NaN wins over numbers. */
  argmax(axis: number): Tensor
  /** Index of the smallest element along an axis, as i32; the first one wins a tie, NaN wins over numbers. */
  argmin(axis: number): Tensor
  /**
   * softmax(scale · q kᵀ) v: `self` is q `[batch, heads, queries, depth]`, k and v are `[batch, kv_heads, keys, depth]`;
   * gives `[batch, heads, queries, value depth]`. Query head h reads key head `h / (heads / kv_heads)`. A query that sees no
   * key gives 0. See `AttentionSpec`.
   */
  attention(keys: Tensor, values: Tensor, options: AttentionOptions): Tensor
  /** Repeats axes of extent 1, and missing leading axes, to `shape`. */
  broadcastTo(shape: readonly number[]): Tensor
  /**
   * The elements as another dtype. Float to integer rounds towards zero and saturates (NaN gives 0), integer to integer
   * wraps, to bool is `x != 0`.
   */
  cast(dtype: DType): Tensor
  /** Elements limited to `low..=high`. */
  clamp(low: Operand, high: Operand): Tensor
  /** Cosine of an angle in radians. */
  cos(): Tensor
  /**
   * Mean cross-entropy over rows, in nats: `self` holds logits `[B.., classes]`.
   *
   * Targets are class numbers, i32 `[B..]` (one outside `0..classes` fails the step), or rows of probabilities, f32 of the
   * logits' shape. A row of probabilities that does not sum to 1 has the gradient `sum(y)·softmax - y`: a row of zeros
   * gives none, but counts in the mean.
   */
  crossEntropy(targets: Tensor): Tensor
  /** Cross-entropy of each row, in nats: `[B..]`. See `cross_entropy`. */
  crossEntropyRows(targets: Tensor): Tensor
  /** The same elements; no gradient flows through. */
  detach(): Tensor
  /** `x / y`, elementwise. */
  div(right: Operand): Tensor
  /**
   * While a training loss is traced: zero with probability `p` in `0..=1`, else `x / (1 - p)`. Otherwise `x`.
   * Srivastava et al., JMLR 2014.
   */
  dropout(p: number): Tensor
  /** The window of extents `sizes` that starts at the given i32 scalars, one for each axis. */
  dynamicSlice(starts: readonly Tensor[], sizes: readonly number[]): Tensor
  /** The tensor with the window that starts at the given i32 scalars replaced by `update`. */
  dynamicUpdateSlice(update: Tensor, starts: readonly Tensor[]): Tensor
  /** `self == right`, elementwise, as bool. */
  eq(right: Operand): Tensor
  /** The error function. */
  erf(): Tensor
  /** `e^x`. */
  exp(): Tensor
  /** `e^x - 1` without cancellation near 0. */
  expm1(): Tensor
  /** All elements in one axis. */
  flatten(): Tensor
  /** The largest whole number that is not above `x`; no gradient. */
  floor(): Tensor
  /** Rows by number: `self` `[N, R..]`, `index` i32 `[I..]` gives `[I.., R..]`. */
  gatherRows(index: Tensor): Tensor
  /** `self >= right`, elementwise, as bool. */
  ge(right: Operand): Tensor
  /** `x · Φ(x)` with the exact normal distribution function: `0.5 x (1 + erf(x / sqrt 2))`. Hendrycks and Gimpel, 2016. */
  gelu(): Tensor
  /** The tanh form of GELU, as GPT-2 has it: `0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))`. */
  geluTanh(): Tensor
  /** `self > right`, elementwise, as bool. */
  gt(right: Operand): Tensor
  /** `self <= right`, elementwise, as bool. */
  le(right: Operand): Tensor
  /** Natural logarithm. */
  log(): Tensor
  /** `log(1 + x)` without cancellation near 0. */
  log1p(): Tensor
  /** `x - log(sum(exp(x)))` along an axis. */
  logSoftmax(axis: number): Tensor
  /** Logical (bool) or bitwise (integers) and. */
  logicalAnd(right: Operand): Tensor
  /** Logical (bool) or bitwise (integers) complement. */
  logicalNot(): Tensor
  /** Logical (bool) or bitwise (integers) or. */
  logicalOr(right: Operand): Tensor
  /** Logical (bool) or bitwise (integers) exclusive or. */
  logicalXor(right: Operand): Tensor
  /** `log(sum(exp(x)))` along an axis, which stays with extent 1; safe for large elements, `-inf` for nothing but `-inf`. */
  logsumexpKeep(axis: number): Tensor
  /** `self < right`, elementwise, as bool. */
  lt(right: Operand): Tensor
  /**
   * Matrix product over the last axis of `self` and the second-to-last of `right`, as NumPy's `@`:
   * `[.., M, K] x [.., K, N] -> [.., M, N]`. Leading axes broadcast; a rank-1 operand is a row on the left, a column on the
   * right, and its axis vanishes.
   */
  matmul(right: Operand): Tensor
  /**
   * Largest element; `-inf` for no elements, NaN if there is one.
   *
   * Over all axes; gives rank 0.
   */
  max(): Tensor
  /**
   * Largest element; `-inf` for no elements, NaN if there is one.
   *
   * Over the given axes, which vanish.
   */
  maxAxes(axes: number | readonly number[]): Tensor
  /**
   * Largest element; `-inf` for no elements, NaN if there is one.
   *
   * Over the given axes, which stay with extent 1.
   */
  maxKeep(axes: number | readonly number[]): Tensor
  /** The larger of the two; NaN if either is. Ties share the gradient half and half. */
  maximum(right: Operand): Tensor
  /** Mean over all elements; NaN for none. */
  mean(): Tensor
  /** Mean over the given axes, which vanish. */
  meanAxes(axes: number | readonly number[]): Tensor
  /** Mean over the given axes, which stay with extent 1. */
  meanKeep(axes: number | readonly number[]): Tensor
  /**
   * Smallest element; `inf` for no elements, NaN if there is one.
   *
   * Over all axes; gives rank 0.
   */
  min(): Tensor
  /**
   * Smallest element; `inf` for no elements, NaN if there is one.
   *
   * Over the given axes, which vanish.
   */
  minAxes(axes: number | readonly number[]): Tensor
  /**
   * Smallest element; `inf` for no elements, NaN if there is one.
   *
   * Over the given axes, which stay with extent 1.
   */
  minKeep(axes: number | readonly number[]): Tensor
  /** The smaller of the two; NaN if either is. Ties share the gradient half and half. */
  minimum(right: Operand): Tensor
  /** `x * y`, elementwise. */
  mul(right: Operand): Tensor
  /** `self != right`, elementwise, as bool; true for NaN. */
  ne(right: Operand): Tensor
  /** `-x`. */
  neg(): Tensor
  /**
   * 1 where the last axis' position equals the index, 0 elsewhere: i32 `[I..]` gives f32 `[I.., depth]`.
   * An index outside `0..depth` gives a row of zeros, as it has no position.
   */
  oneHot(depth: number): Tensor
  /** `low` elements of `value` before and `high` after, along an axis. */
  pad(axis: number, low: number, high: number, value: number): Tensor
  /** Axis i of the result is axis `order[i]`. */
  permute(order: readonly number[]): Tensor
  /** `self` to the power of `right`. */
  pow(right: Operand): Tensor
  /**
   * Product; 1 for no elements.
   *
   * Over all axes; gives rank 0.
   */
  prod(): Tensor
  /**
   * Product; 1 for no elements.
   *
   * Over the given axes, which vanish.
   */
  prodAxes(axes: number | readonly number[]): Tensor
  /**
   * Product; 1 for no elements.
   *
   * Over the given axes, which stay with extent 1.
   */
  prodKeep(axes: number | readonly number[]): Tensor
  /** `max(x, 0)`; the gradient at 0 is 0. */
  relu(): Tensor
  /** `x % y`, elementwise. */
  rem(right: Operand): Tensor
  /** The same elements, in row-major order, in another shape. */
  reshape(shape: readonly number[]): Tensor
  /** `1 / sqrt(x)`. */
  rsqrt(): Tensor
  /** `self` `[N, R..]` with each row of `updates` `[I.., R..]` added at the row that `index` i32 `[I..]` names, in order. */
  scatterAddRows(index: Tensor, updates: Tensor): Tensor
  /**
   * `yes` where this bool tensor is true, `no` elsewhere; the three broadcast together.
   * When both branches are numbers, the result is f32.
   */
  select(yes: Operand, no: Operand): Tensor
  /** Integers shifted left; the count is taken modulo 32. */
  shiftLeft(right: Operand): Tensor
  /** Integers shifted right: logical for `u32`, arithmetic for `i32`; the count is taken modulo 32. */
  shiftRight(right: Operand): Tensor
  /** `1 / (1 + e^-x)`. */
  sigmoid(): Tensor
  /** -1, 0 or 1. */
  sign(): Tensor
  /** `x · sigmoid(x)`. */
  silu(): Tensor
  /** Sine of an angle in radians. */
  sin(): Tensor
  /** Elements of a range along an axis, as `x.slice(-1, 0..64)`. */
  slice(axis: number, range: readonly [start: number, end: number]): Tensor
  /** Every `step`th element of a range along an axis. */
  sliceStep(axis: number, range: readonly [start: number, end: number], step: number): Tensor
  /** `exp(x) / sum(exp(x))` along an axis. */
  softmax(axis: number): Tensor
  /** Square root. */
  sqrt(): Tensor
  /** `x * x`. */
  square(): Tensor
  /** Removes an axis of extent 1. */
  squeeze(axis: number): Tensor
  /** `x - y`, elementwise. */
  sub(right: Operand): Tensor
  /**
   * Sum; 0 for no elements.
   *
   * Over all axes; gives rank 0.
   */
  sum(): Tensor
  /**
   * Sum; 0 for no elements.
   *
   * Over the given axes, which vanish.
   */
  sumAxes(axes: number | readonly number[]): Tensor
  /**
   * Sum; 0 for no elements.
   *
   * Over the given axes, which stay with extent 1.
   */
  sumKeep(axes: number | readonly number[]): Tensor
  /** One element of each last axis: `self` `[B.., N]`, `index` i32 `[B..]` gives `[B..]`. */
  takeLast(index: Tensor): Tensor
  /** Hyperbolic tangent. */
  tanh(): Tensor
  /** Swaps two axes; negative numbers count from the last. */
  transpose(a: number, b: number): Tensor
  /** A new axis of extent 1 at `axis` (0 to rank). */
  unsqueeze(axis: number): Tensor
}

/** Functions that make tensors. */
export interface FunctionOps {
  /** Joins tensors along an axis; the other extents agree. */
  concat(axis: number, parts: readonly Tensor[]): Tensor
  /** A tensor whose elements are all `value`. */
  full(dtype: DType, shape: readonly number[], value: number): Tensor
  /** The index along `axis`, in a tensor of the given shape: positions, as `iota(DType::I32, [context], 0)`. */
  iota(dtype: DType, shape: readonly number[], axis: number): Tensor
  /** Uniform f32 numbers in `[0, 1)`, multiples of 2^-24, keyed by (seed, attempted step, place in the model, element). */
  uniform(shape: readonly number[]): Tensor
}
