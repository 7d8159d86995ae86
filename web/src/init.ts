// Initial values. In: what the user wants. Out: an `Init` value that says it; the compiler's runtime makes
// the numbers, from the session's seed.

import { INITS } from './generated/training.js';

/** How a parameter's initial values are made. */
export type Init =
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' }
  | { readonly kind: 'constant'; readonly value: number }
  | { readonly kind: 'randn'; readonly scale: number }
  | { readonly kind: 'uniform'; readonly low: number; readonly high: number }
  | { readonly kind: 'kaiming'; readonly gain: number }
  | { readonly kind: 'kaimingUniform' | 'xavier' | 'xavierUniform' | 'orthogonal'; readonly gain: number }
  | { readonly kind: 'truncatedNormal'; readonly std: number }
  | { readonly kind: 'fanIn' }
  | { readonly kind: 'literal'; readonly values: Float32Array };

/** Initial values of parameters. */
export const init = {
  /** All 0. */
  zeros: (): Init => ({ kind: 'zeros' }),
  /** All 1. */
  ones: (): Init => ({ kind: 'ones' }),
  /** All the same. */
  constant: (value: number): Init => ({ kind: 'constant', value }),
  /** Normal with mean 0 and standard deviation `scale`. */
  randn: ({ scale = 0.02 }: { scale?: number } = {}): Init => ({ kind: 'randn', scale }),
  /** Uniform between two numbers. */
  uniform: (low: number, high: number): Init => ({ kind: 'uniform', low, high }),
  /**
   * Normal with standard deviation `gain / sqrt(fan-in)`. He et al., 2015. The fan-in of a matrix is its first
   * extent, that of the weights of a convolution is their channels and places.
   */
  kaiming: ({ gain = Math.SQRT2 }: { gain?: number } = {}): Init => ({ kind: 'kaiming', gain }),
  /** Uniform within `±gain * sqrt(3 / fan-in)`. */
  kaimingUniform: ({ gain = Math.SQRT2 }: { gain?: number } = {}): Init => ({ kind: 'kaimingUniform', gain }),
  /** Normal with standard deviation `gain * sqrt(2 / (fan-in + fan-out))`. Glorot and Bengio, 2010. */
  xavier: ({ gain = 1 }: { gain?: number } = {}): Init => ({ kind: 'xavier', gain }),
  /** Uniform within `±gain * sqrt(6 / (fan-in + fan-out))`. */
  xavierUniform: ({ gain = 1 }: { gain?: number } = {}): Init => ({ kind: 'xavierUniform', gain }),
  /** Normal, without what lies beyond two standard deviations. */
  truncatedNormal: ({ std = 0.02 }: { std?: number } = {}): Init => ({ kind: 'truncatedNormal', std }),
  /** A matrix with orthonormal rows or columns, times `gain`. Saxe et al., 2014. */
  orthogonal: ({ gain = 1 }: { gain?: number } = {}): Init => ({ kind: 'orthogonal', gain }),
  /** Uniform within `±1 / sqrt(fan-in)`, PyTorch's default of linear layers. */
  fanIn: (): Init => ({ kind: 'fanIn' }),
  /** These elements, row-major. */
  literal: (values: Float32Array): Init => ({ kind: 'literal', values }),
};

/** An init as the numbers of the `param` command: kind, a, b. */
export function initNumbers(init: Init): [number, number, number] {
  switch (init.kind) {
    case 'constant': return [INITS.constant, init.value, 0];
    case 'randn': return [INITS.normal, init.scale, 0];
    case 'uniform': return [INITS.uniform, init.low, init.high];
    case 'kaiming': case 'kaimingUniform': case 'xavier': case 'xavierUniform': case 'orthogonal':
      return [INITS[init.kind], init.gain, 0];
    case 'truncatedNormal': return [INITS.truncatedNormal, init.std, 0];
    case 'literal': return [INITS.values, 0, 0];
    default: return [INITS[init.kind], 0, 0];
  }
}
