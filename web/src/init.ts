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
   * Normal with standard deviation `gain / sqrt(fan-in)`; the fan-in is the first extent. He et al., 2015.
   */
  kaiming: ({ gain = Math.SQRT2 }: { gain?: number } = {}): Init => ({ kind: 'kaiming', gain }),
  /**
   * Uniform within `±1 / sqrt(fan-in)`, PyTorch's default of linear layers; the fan-in is the first extent.
   */
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
    case 'kaiming': return [INITS.kaiming, init.gain, 0];
    case 'literal': return [INITS.values, 0, 0];
    default: return [INITS[init.kind], 0, 0];
  }
}
