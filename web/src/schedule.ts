// Learning rates and optimizers. In: what the user wants, as plain values that can be posted. Out: the numbers of the wasm interface.
// What always holds: a schedule counts the steps of its own graph from 0; one that is set later counts from the next step.

import { fail } from './errors.js';

/** A learning rate over time: a number, or one of the shapes that `lr` makes. */
export type LR =
  | number
  | { readonly kind: 'linear'; readonly peak: number; readonly final: number; readonly steps: number; readonly startStep?: number }
  | { readonly kind: 'cosineAnnealing'; readonly peak: number; readonly final: number; readonly steps: number; readonly startStep?: number }
  | { readonly kind: 'warmup'; readonly peak: number; readonly steps: number; readonly after: LR; readonly startStep?: number }
  | { readonly kind: 'staircase'; readonly peak: number; readonly every: number; readonly gamma: number; readonly startStep?: number }
  | { readonly kind: 'multiStep'; readonly peak: number; readonly milestones: readonly number[]; readonly gamma: number; readonly startStep?: number };

type Shape<K extends string> = Omit<Extract<LR, { kind: K }>, 'kind'>;

/** Schedules of the learning rate. */
export const lr = {
  /** Straight from `peak` to `final` over `steps`, then `final`. */
  linear: (shape: Shape<'linear'>): LR => ({ kind: 'linear', ...shape }),
  /** Half a cosine from `peak` to `final` over `steps`, then `final`. */
  cosineAnnealing: (shape: Shape<'cosineAnnealing'>): LR => ({ kind: 'cosineAnnealing', ...shape }),
  /** Up to `peak` over `steps`, then `after`, counted from there. */
  warmup: (shape: Shape<'warmup'>): LR => ({ kind: 'warmup', ...shape }),
  /** `peak * gamma ^ floor(step / every)`. */
  step: (shape: Shape<'staircase'>): LR => ({ kind: 'staircase', ...shape }),
  /** The same as `step`. */
  staircase: (shape: Shape<'staircase'>): LR => ({ kind: 'staircase', ...shape }),
  /** `peak`, times `gamma` from each milestone on. */
  multiStep: (shape: Shape<'multiStep'>): LR => ({ kind: 'multiStep', ...shape }),
};

/** A schedule as numbers. */
export function scheduleNumbers(rate: LR): number[] {
  if (typeof rate === 'number') return [0, finite('lr', rate)];
  const start = rate.startStep ?? 0;
  const numbers = shapeNumbers(rate);
  return start > 0 ? [6, start, ...numbers] : numbers;
}

function shapeNumbers(rate: Exclude<LR, number>): number[] {
  const peak = finite('lr.peak', rate.peak);
  switch (rate.kind) {
    case 'linear': return [1, peak, finite('lr.final', rate.final), count('lr.steps', rate.steps)];
    case 'cosineAnnealing': return [2, peak, finite('lr.final', rate.final), count('lr.steps', rate.steps)];
    case 'warmup': return [3, peak, count('lr.steps', rate.steps), ...scheduleNumbers(rate.after)];
    case 'staircase': return [4, peak, count('lr.every', rate.every), finite('lr.gamma', rate.gamma)];
    case 'multiStep': {
      const milestones = rate.milestones.map((step) => count('lr.milestones', step));
      if (milestones.some((step, i) => i > 0 && step < milestones[i - 1]!)) {
        throw fail('trace', `lr.milestones [${milestones.join(', ')}] do not rise`);
      }
      return [5, peak, finite('lr.gamma', rate.gamma), milestones.length, ...milestones];
    }
    default: throw fail('trace', `there is no schedule '${String((rate as { kind: unknown }).kind)}'`,
      'make schedules with lr.linear(..), lr.cosineAnnealing(..), lr.warmup(..), lr.step(..), lr.multiStep(..)');
  }
}

function finite(name: string, value: number): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw fail('trace', `${name} is ${String(value)}, not a finite number`);
}

function count(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 0) return value;
  throw fail('trace', `${name} is ${String(value)}, not a whole number`);
}

/** What all optimizers can vary. */
interface Common {
  /** The learning rate. */
  lr: LR;
  /** Bounds the norm of all gradients together. */
  clipGradNorm?: number;
  /** Decides by name which parameters decay, where the parameter does not say itself. */
  decayFilter?: (name: string) => boolean;
}

/** Adam, without decay. */
export interface AdamConfig extends Common {
  kind: 'adam';
  /** 0.9 if not given. */
  b1?: number;
  /** 0.999 if not given. */
  b2?: number;
  /** 1e-8 if not given; added to the corrected root, as PyTorch does. */
  eps?: number;
}

/** Adam with decoupled weight decay. */
export interface AdamWConfig extends Omit<AdamConfig, 'kind'> {
  kind: 'adamw';
  /** 0.01 if not given. */
  weightDecay?: number;
}

/** Stochastic gradient descent. */
export interface SGDConfig extends Common {
  kind: 'sgd';
  momentum?: number;
  nesterov?: boolean;
  /** Added to the gradient. */
  weightDecay?: number;
}

/** How parameters are updated. */
export type OptimizerConfig = AdamConfig | AdamWConfig | SGDConfig;

const KINDS = ['adam', 'adamw', 'sgd'];

/** An optimizer as numbers. */
export function optimizerNumbers(config: OptimizerConfig, extra: { clipGradNorm?: number | undefined; memoryBudget?: number | undefined }): number[] {
  const kind = KINDS.indexOf(config.kind);
  if (kind < 0) throw fail('trace', `there is no optimizer '${String(config.kind)}'`, "use 'adam', 'adamw' or 'sgd'");
  if ('normalizeGrads' in config) {
    throw fail('unsupported', 'optimizer.normalizeGrads is not there', 'clipGradNorm bounds the norm of all gradients');
  }
  const adam = config.kind === 'sgd' ? { b1: 0, b2: 0, eps: 0 } : { b1: 0.9, b2: 0.999, eps: 1e-8, ...defined(config) };
  const decay = config.kind === 'adam' ? 0 : config.weightDecay ?? (config.kind === 'adamw' ? 0.01 : 0);
  const momentum = config.kind === 'sgd' && config.momentum ? config.momentum : -1;
  const nesterov = config.kind === 'sgd' && config.nesterov ? 1 : 0;
  if (nesterov && momentum < 0) throw fail('trace', 'optimizer.nesterov needs momentum above 0');
  return [
    kind, finite('b1', adam.b1), finite('b2', adam.b2), finite('eps', adam.eps), finite('weightDecay', decay),
    finite('momentum', momentum), nesterov, 0, finite('clipGradNorm', config.clipGradNorm ?? extra.clipGradNorm ?? 0),
    finite('memoryBudget', extra.memoryBudget ?? 0), ...scheduleNumbers(config.lr),
  ];
}

function defined({ b1, b2, eps }: { b1?: number; b2?: number; eps?: number }) {
  return { ...(b1 !== undefined && { b1 }), ...(b2 !== undefined && { b2 }), ...(eps !== undefined && { eps }) };
}
