// Layers. In: sizes and options. Out: modules with parameters under tensorgrad's names, and `.fwd(x)`. What
// always holds: a layer is nothing but parameters and calls of the table's functions, which have the
// formulas.

import { fail } from './errors.js';
import { init, type Init } from './init.js';
import { Module, type ParamOptions } from './module.js';
import { checkOptions, type Rules } from './options.js';
import {
  add, conv1d, conv2d, convTranspose1d, convTranspose2d, dropout, embedding, groupNorm, gru, layerNorm, lstm, matmul,
  reshape, rmsNorm, selfAttention, type ConvOptions,
} from './ops.js';
import type { Tensor } from './tensor.js';

/** What weights can vary. */
export interface WeightOptions {
  /** Initial values of the weight. */
  init?: Init;
  /** Whether weight decay applies to the weight. */
  decay?: boolean;
  /** No parameter of the layer is trained. */
  frozen?: boolean;
}

const WEIGHT: Rules = { init: 'any', decay: 'flag', frozen: 'flag' };

/** What a linear layer can vary. */
export interface LinearOptions extends WeightOptions {
  /** Adds a bias; true if not given. */
  bias?: boolean;
}

/** What an embedding can vary. */
export type EmbeddingOptions = WeightOptions;

function weight({ init, decay, frozen }: WeightOptions): ParamOptions {
  return { ...(init !== undefined && { init }), ...(decay !== undefined && { decay }), ...(frozen !== undefined && { frozen }) };
}

/** A bias: zeros, which do not decay, frozen with the layer. */
function shift({ frozen = false }: WeightOptions): ParamOptions {
  return { init: init.zeros(), frozen };
}

/** `x W + b`. */
export class Linear extends Module {
  /** `[inDim, outDim]`. */
  W: Tensor;
  /** `[outDim]`, or null without a bias. */
  b: Tensor | null;

  constructor(readonly inDim: number, readonly outDim: number, options: LinearOptions = {}) {
    super();
    checkOptions('Linear', options, { bias: 'flag', ...WEIGHT });
    this.W = this.param([inDim, outDim], weight(options));
    this.b = options.bias === false ? null : this.param([outDim], shift(options));
  }

  /** `[.., inDim]` to `[.., outDim]`. */
  fwd(x: Tensor): Tensor {
    const y = matmul(x, this.W);
    return this.b ? add(y, this.b) : y;
  }
}

/** What `RMSNorm` can vary. */
export interface RMSNormOptions {
  /** Is added to the variance; 1e-6 if not given, 1e-5 where a mean is subtracted. */
  eps?: number;
  /** Whether weight decay applies to the gain; false if not given. */
  decay?: boolean;
  /** No parameter of the layer is trained. */
  frozen?: boolean;
}

/** What `LayerNorm` and `GroupNorm` can vary. */
export interface LayerNormOptions extends RMSNormOptions {
  /** Adds a bias; true if not given. */
  bias?: boolean;
}

/** What a normalisation can vary; a number is `eps`. */
export type NormOptions = number | LayerNormOptions;

function normOptions(where: string, given: NormOptions, more: Rules): LayerNormOptions {
  const options = typeof given === 'number' ? { eps: given } : given;
  checkOptions(where, options, { eps: 'number', decay: 'flag', frozen: 'flag', ...more });
  return options;
}

/** The gain of a normalisation. */
function gain({ decay = false, frozen = false }: RMSNormOptions): ParamOptions {
  return { init: init.ones(), decay, frozen };
}

/** `(x - mean) / sqrt(variance + eps) * g + b` over the last axis. */
export class LayerNorm extends Module {
  g: Tensor;
  b: Tensor | null;
  readonly eps: number;

  constructor(readonly d: number, options: NormOptions = {}) {
    super();
    const given = normOptions('LayerNorm', options, { bias: 'flag' });
    this.eps = given.eps ?? 1e-5;
    this.g = this.param([d], gain(given));
    this.b = given.bias ?? true ? this.param([d], shift(given)) : null;
  }

  /** The shape stays. */
  fwd(x: Tensor): Tensor {
    const y = layerNorm(x, this.g, this.eps);
    return this.b ? add(y, this.b) : y;
  }
}

/** `x / sqrt(mean(x²) + eps) * g` over the last axis. */
export class RMSNorm extends Module {
  g: Tensor;
  readonly eps: number;

  constructor(readonly d: number, options: number | RMSNormOptions = {}) {
    super();
    const given = normOptions('RMSNorm', options, {});
    this.eps = given.eps ?? 1e-6;
    this.g = this.param([d], gain(given));
  }

  /** The shape stays. */
  fwd(x: Tensor): Tensor {
    return rmsNorm(x, this.g, this.eps);
  }
}

/** Rows of a table by number. */
export class Embedding extends Module {
  /** `[vocab, dim]`. */
  W: Tensor;

  constructor(readonly vocab: number, readonly dim: number, options: EmbeddingOptions = {}) {
    super();
    checkOptions('Embedding', options, WEIGHT);
    this.W = this.param([vocab, dim], weight(options));
  }

  /** i32 `[..]` to `[.., dim]`. */
  fwd(index: Tensor): Tensor {
    return embedding(this.W, index);
  }
}

/** What a convolution can vary. */
export interface Conv2dLayerOptions extends WeightOptions, ConvOptions {
  /** Adds a bias; true if not given. */
  bias?: boolean;
}

/** Adds a number to each channel of `[batch, channels, ..]`. */
function shifted(x: Tensor, b: Tensor | null): Tensor {
  return b ? add(x, reshape(b, [-1, ...x.shape.slice(2).map(() => 1)])) : x;
}

/** A size for each spatial axis from one for all. */
function sizes(size: number | readonly number[], axes: number): readonly number[] {
  return typeof size === 'number' ? Array.from({ length: axes }, () => size) : size;
}

type Conv = (x: Tensor, weights: Tensor, options?: ConvOptions) => Tensor;

/** The groups of a convolution, whose options are checked here: before anything is made of them. */
function groupsOf(options: Conv2dLayerOptions): number {
  checkOptions('a convolution', options, {
    bias: 'flag', ...WEIGHT, stride: 'sizes', padding: 'sizes', dilation: 'sizes', groups: 'extent', outputPadding: 'sizes',
  });
  return options.groups ?? 1;
}

/** A convolution with its bias; the classes below say which. */
abstract class ConvLayer extends Module {
  W: Tensor;
  b: Tensor | null;
  readonly #options: ConvOptions;
  readonly #conv: Conv;

  /** `first` and `second` are the extents of the weights before the size. */
  constructor(conv: Conv, first: number, second: number, size: readonly number[], out: number, options: Conv2dLayerOptions) {
    super();
    const { init: initial, decay: _decay, frozen: _frozen, bias = true, ...rest } = options;
    this.#conv = conv;
    this.#options = rest;
    const fanIn = second * size.reduce((a, b) => a * b, 1);
    const start = init.uniform(-1 / Math.sqrt(fanIn), 1 / Math.sqrt(fanIn));
    this.W = this.param([first, second, ...size], weight({ ...options, init: initial ?? start }));
    this.b = bias ? this.param([out], shift(options)) : null;
  }

  /** `[batch, channels, ..]` to `[batch, outputs, ..]`. */
  fwd(x: Tensor): Tensor {
    return shifted(this.#conv(x, this.W, this.#options), this.b);
  }
}

/** Convolution over one axis: weights `[outputs, channels / groups, size]`. */
export class Conv1d extends ConvLayer {
  constructor(inC: number, outC: number, size: number, options: Conv2dLayerOptions = {}) {
    super(conv1d, outC, inC / groupsOf(options), [size], outC, options);
  }
}

/** Convolution over two axes: weights `[outputs, channels / groups, rows, columns]`. */
export class Conv2d extends ConvLayer {
  constructor(inC: number, outC: number, size: number | readonly number[], options: Conv2dLayerOptions = {}) {
    super(conv2d, outC, inC / groupsOf(options), sizes(size, 2), outC, options);
  }
}

/** Transposed convolution over one axis: weights `[channels, outputs / groups, size]`. */
export class ConvTranspose1d extends ConvLayer {
  constructor(inC: number, outC: number, size: number, options: Conv2dLayerOptions = {}) {
    super(convTranspose1d, inC, outC / groupsOf(options), [size], outC, options);
  }
}

/** Transposed convolution over two axes: weights `[channels, outputs / groups, rows, columns]`. */
export class ConvTranspose2d extends ConvLayer {
  constructor(inC: number, outC: number, size: number | readonly number[], options: Conv2dLayerOptions = {}) {
    super(convTranspose2d, inC, outC / groupsOf(options), sizes(size, 2), outC, options);
  }
}

/** Group normalisation of channels, with a gain and a shift for each. */
export class GroupNorm extends Module {
  g: Tensor;
  b: Tensor | null;
  readonly eps: number;

  constructor(readonly groups: number, readonly channels: number, options: NormOptions = {}) {
    super();
    const given = normOptions('GroupNorm', options, { bias: 'flag' });
    this.eps = given.eps ?? 1e-5;
    this.g = this.param([channels], gain(given));
    this.b = given.bias ?? true ? this.param([channels], shift(given)) : null;
  }

  /** `[batch, channels, ..]`, as it was. */
  fwd(x: Tensor): Tensor {
    return shifted(groupNorm(x, this.groups, this.g, this.eps), this.b);
  }
}

/** The parameters of a recurrent layer, gates side by side. */
abstract class Recurrent extends Module {
  Wih: Tensor;
  Whh: Tensor;
  bih: Tensor;
  bhh: Tensor;

  constructor(inputs: number, hidden: number, gates: number) {
    super();
    const start = { init: init.uniform(-1 / Math.sqrt(hidden), 1 / Math.sqrt(hidden)) };
    this.Wih = this.param([inputs, gates * hidden], start);
    this.Whh = this.param([hidden, gates * hidden], start);
    this.bih = this.param([gates * hidden], start);
    this.bhh = this.param([gates * hidden], start);
  }
}

/** Long short-term memory from a state of zeros. */
export class LSTM extends Recurrent {
  constructor(readonly inputs: number, readonly hidden: number) {
    super(inputs, hidden, 4);
  }

  /** `[batch, time, inputs]` to `[batch, time, hidden]`. */
  fwd(x: Tensor): Tensor {
    return lstm(x, this.Wih, this.Whh, this.bih, this.bhh);
  }
}

/** Gated recurrent units from a state of zeros. */
export class GRU extends Recurrent {
  constructor(readonly inputs: number, readonly hidden: number) {
    super(inputs, hidden, 3);
  }

  /** `[batch, time, inputs]` to `[batch, time, hidden]`. */
  fwd(x: Tensor): Tensor {
    return gru(x, this.Wih, this.Whh, this.bih, this.bhh);
  }
}

/** Drops elements while a training loss is traced, and does nothing elsewhere. */
export class Dropout extends Module {
  constructor(readonly p: number) {
    super();
  }

  /** The shape stays. */
  fwd(x: Tensor): Tensor {
    return dropout(x, this.p);
  }
}

/** Multi-head self-attention in which a position sees itself and what is before it. */
export class CausalSelfAttention extends Module {
  /** Queries, keys and values in one product: `[dim, 3 dim]`. */
  qkv: Linear;
  proj: Linear;

  constructor(readonly dim: number, readonly heads: number, options: LinearOptions = {}) {
    super();
    if (dim % heads !== 0) throw fail('trace', `CausalSelfAttention: ${dim} is not a multiple of ${heads} heads`);
    this.qkv = new Linear(dim, 3 * dim, options);
    this.proj = new Linear(dim, dim, options);
  }

  /** `[batch, T, dim]`, as it was. */
  fwd(x: Tensor): Tensor {
    return this.proj.fwd(selfAttention(this.qkv.fwd(x), this.heads, { causal: true }));
  }
}
