// Layers. In: sizes and options. Out: modules with parameters under tensorgrad's names, and `.fwd(x)`. Always
// holds: a layer consists only of parameters and calls of the table's functions, which document the formulas.

import { fail } from './errors.js';
import { init, type Init } from './init.js';
import { Module, type ParamOptions } from './module.js';
import { checkOptions, type Rules } from './options.js';
import {
  add, conv1d, conv2d, convTranspose1d, convTranspose2d, dropout, embedding, groupNorm, gru, layerNorm, lstm, matmul,
  reshape, rmsNorm, selfAttention, type ConvOptions,
} from './ops.js';
import type { Tensor } from './tensor.js';

/** Options of weights. */
export interface WeightOptions {
  /** Initial values of the weight. */
  init?: Init;
  /** True if weight decay applies to the weight. */
  decay?: boolean;
  /** True to train no parameter of the layer. */
  frozen?: boolean;
}

const WEIGHT: Rules = { init: 'any', decay: 'flag', frozen: 'flag' };

/** Options of `Linear`. */
export interface LinearOptions extends WeightOptions {
  /** True (the default) to add a bias. */
  bias?: boolean;
}

/** Options of `Embedding`. */
export type EmbeddingOptions = WeightOptions;

function weight({ init, decay, frozen }: WeightOptions): ParamOptions {
  return { ...(init !== undefined && { init }), ...(decay !== undefined && { decay }), ...(frozen !== undefined && { frozen }) };
}

/** Returns the options of a bias: zeros, without decay, and frozen with the layer. */
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

  /** Maps `[.., inDim]` to `[.., outDim]`. */
  fwd(x: Tensor): Tensor {
    const y = matmul(x, this.W);
    return this.b ? add(y, this.b) : y;
  }
}

/** Options of `RMSNorm`. */
export interface RMSNormOptions {
  /** Added to the variance; by default 1e-6, or 1e-5 in layers that subtract the mean. */
  eps?: number;
  /** True if weight decay applies to the gain; false by default. */
  decay?: boolean;
  /** True to train no parameter of the layer. */
  frozen?: boolean;
}

/** Options of `LayerNorm` and `GroupNorm`. */
export interface LayerNormOptions extends RMSNormOptions {
  /** True (the default) to add a bias. */
  bias?: boolean;
}

/** Options of a normalisation; a number is `eps`. */
export type NormOptions = number | LayerNormOptions;

function normOptions(where: string, given: NormOptions, more: Rules): LayerNormOptions {
  const options = typeof given === 'number' ? { eps: given } : given;
  checkOptions(where, options, { eps: 'number', decay: 'flag', frozen: 'flag', ...more });
  return options;
}

/** Returns the options of the gain of a normalisation. */
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

  /** Normalises `x`. The shape is unchanged. */
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

  /** Normalises `x`. The shape is unchanged. */
  fwd(x: Tensor): Tensor {
    return rmsNorm(x, this.g, this.eps);
  }
}

/** A table of rows that are looked up by index. */
export class Embedding extends Module {
  /** `[vocab, dim]`. */
  W: Tensor;

  constructor(readonly vocab: number, readonly dim: number, options: EmbeddingOptions = {}) {
    super();
    checkOptions('Embedding', options, WEIGHT);
    this.W = this.param([vocab, dim], weight(options));
  }

  /** Maps i32 `[..]` to `[.., dim]`. */
  fwd(index: Tensor): Tensor {
    return embedding(this.W, index);
  }
}

/** Options of a convolution. */
export interface Conv2dLayerOptions extends WeightOptions, ConvOptions {
  /** True (the default) to add a bias. */
  bias?: boolean;
}

/** Adds a bias to each channel of `[batch, channels, ..]`. */
function shifted(x: Tensor, b: Tensor | null): Tensor {
  return b ? add(x, reshape(b, [-1, ...x.shape.slice(2).map(() => 1)])) : x;
}

/** Returns a size for each spatial axis. */
function sizes(size: number | readonly number[], axes: number): readonly number[] {
  return typeof size === 'number' ? Array.from({ length: axes }, () => size) : size;
}

type Conv = (x: Tensor, weights: Tensor, options?: ConvOptions) => Tensor;

/**
 * Returns the number of groups of a convolution, after checking its options before anything is created from
 * them.
 */
function groupsOf(options: Conv2dLayerOptions): number {
  checkOptions('a convolution', options, {
    bias: 'flag', ...WEIGHT, stride: 'sizes', padding: 'sizes', dilation: 'sizes', groups: 'extent', outputPadding: 'sizes',
  });
  return options.groups ?? 1;
}

/** A convolution with its bias; base class of the layers below. */
abstract class ConvLayer extends Module {
  W: Tensor;
  b: Tensor | null;
  readonly #options: ConvOptions;
  readonly #conv: Conv;

  /** `first` and `second` are the extents of the weights before the kernel size. */
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

  /** Maps `[batch, channels, ..]` to `[batch, outputs, ..]`. */
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

/** Group normalisation of channels, with a gain and a bias for each. */
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

  /** Normalises `x`, `[batch, channels, ..]`. The shape is unchanged. */
  fwd(x: Tensor): Tensor {
    return shifted(groupNorm(x, this.groups, this.g, this.eps), this.b);
  }
}

/** The parameters of a recurrent layer, with the gates concatenated. */
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

/** Long short-term memory with an initial state of zeros. */
export class LSTM extends Recurrent {
  constructor(readonly inputs: number, readonly hidden: number) {
    super(inputs, hidden, 4);
  }

  /** Maps `[batch, time, inputs]` to `[batch, time, hidden]`. */
  fwd(x: Tensor): Tensor {
    return lstm(x, this.Wih, this.Whh, this.bih, this.bhh);
  }
}

/** Gated recurrent units with an initial state of zeros. */
export class GRU extends Recurrent {
  constructor(readonly inputs: number, readonly hidden: number) {
    super(inputs, hidden, 3);
  }

  /** Maps `[batch, time, inputs]` to `[batch, time, hidden]`. */
  fwd(x: Tensor): Tensor {
    return gru(x, this.Wih, this.Whh, this.bih, this.bhh);
  }
}

/** Drops elements in the trace of a training loss; elsewhere, it returns its input. */
export class Dropout extends Module {
  constructor(readonly p: number) {
    super();
  }

  /** Applies dropout. The shape is unchanged. */
  fwd(x: Tensor): Tensor {
    return dropout(x, this.p);
  }
}

/** Multi-head self-attention with a causal mask: each position attends to itself and to earlier ones. */
export class CausalSelfAttention extends Module {
  /** Projection to queries, keys and values: `[dim, 3 dim]`. */
  qkv: Linear;
  proj: Linear;

  constructor(readonly dim: number, readonly heads: number, options: LinearOptions = {}) {
    super();
    if (dim % heads !== 0) throw fail('trace', `CausalSelfAttention: ${dim} is not a multiple of ${heads} heads`);
    this.qkv = new Linear(dim, 3 * dim, options);
    this.proj = new Linear(dim, dim, options);
  }

  /** Applies attention to `x`, `[batch, T, dim]`. The shape is unchanged. */
  fwd(x: Tensor): Tensor {
    return this.proj.fwd(selfAttention(this.qkv.fwd(x), this.heads, { causal: true }));
  }
}
