// Layers. In: sizes and options. Out: modules with parameters under tensorgrad's names, and `.fwd(x)`. What
// always holds: a layer is nothing but parameters and calls of the table's functions, which have the
// formulas.

import { fail } from './errors.js';
import { init, type Init } from './init.js';
import { Module, type ParamOptions } from './module.js';
import { add, dropout, embedding, layerNorm, matmul, rmsNorm, selfAttention } from './ops.js';
import type { Tensor } from './tensor.js';

/** What weights can vary. */
export interface WeightOptions {
  /** Initial values of the weight. */
  init?: Init;
  /** Whether weight decay applies to the weight. */
  decay?: boolean;
}

/** What a linear layer can vary. */
export interface LinearOptions extends WeightOptions {
  /** Adds a bias; true if not given. */
  bias?: boolean;
}

/** What an embedding can vary. */
export type EmbeddingOptions = WeightOptions;

function weight({ init, decay }: WeightOptions): ParamOptions {
  return { ...(init !== undefined && { init }), ...(decay !== undefined && { decay }) };
}

/** `x W + b`. */
export class Linear extends Module {
  /** `[inDim, outDim]`. */
  W: Tensor;
  /** `[outDim]`, or null without a bias. */
  b: Tensor | null;

  constructor(readonly inDim: number, readonly outDim: number, options: LinearOptions = {}) {
    super();
    this.W = this.param([inDim, outDim], weight(options));
    this.b = options.bias === false ? null : this.param([outDim], { init: init.zeros() });
  }

  /** `[.., inDim]` to `[.., outDim]`. */
  fwd(x: Tensor): Tensor {
    const y = matmul(x, this.W);
    return this.b ? add(y, this.b) : y;
  }
}

/** What a normalisation can vary; a number is `eps`. */
export type NormOptions = number | { eps?: number; bias?: boolean };

/** `(x - mean) / sqrt(variance + eps) * g + b` over the last axis. */
export class LayerNorm extends Module {
  g: Tensor;
  b: Tensor | null;
  readonly eps: number;

  constructor(readonly d: number, options: NormOptions = {}) {
    super();
    const { eps = 1e-5, bias = true } = typeof options === 'number' ? { eps: options } : options;
    this.eps = eps;
    this.g = this.param([d], { init: init.ones() });
    this.b = bias ? this.param([d], { init: init.zeros() }) : null;
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

  constructor(readonly d: number, options: NormOptions = {}) {
    super();
    this.eps = (typeof options === 'number' ? options : options.eps) ?? 1e-6;
    this.g = this.param([d], { init: init.ones() });
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
    this.W = this.param([vocab, dim], weight(options));
  }

  /** i32 `[..]` to `[.., dim]`. */
  fwd(index: Tensor): Tensor {
    return embedding(index, this.W);
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
