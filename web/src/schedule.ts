// Learning rates and optimizers. In: what the user wants, as plain values that can be posted. Out: the
// numbers of the wasm interface. What always holds: a schedule counts the steps of its own graph from 0; one
// that is set later counts from the next step.

import { fail } from './errors.js';
import { OPTIMIZERS, SCHEDULES, type OptimizerConfig } from './generated/training.js';
import type { Precision } from './wasm.js';

export type { SgdConfig as SGDConfig } from './generated/training.js';

/** A learning rate over time: a number, or one of the shapes that `lr` makes. */
export type LR =
  | number
  | { readonly kind: 'linear'; readonly peak: number; readonly final: number; readonly steps: number; readonly startStep?: number }
  | { readonly kind: 'cosineAnnealing'; readonly peak: number; readonly final: number; readonly steps: number; readonly startStep?: number }
  | { readonly kind: 'warmup'; readonly peak: number; readonly steps: number; readonly after: LR; readonly startStep?: number }
  | { readonly kind: 'staircase'; readonly peak: number; readonly every: number; readonly gamma: number; readonly startStep?: number }
  | { readonly kind: 'multiStep'; readonly peak: number; readonly milestones: readonly number[]; readonly gamma: number; readonly startStep?: number }
  | { readonly kind: 'exponential'; readonly peak: number; readonly gamma: number; readonly startStep?: number }
  | { readonly kind: 'chained'; readonly first: LR; readonly steps: number; readonly then: LR; readonly startStep?: number }
  | { readonly kind: 'repeated'; readonly every: number; readonly then: LR; readonly startStep?: number };

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
  /** `peak * gamma ^ step`. */
  exponential: (shape: Shape<'exponential'>): LR => ({ kind: 'exponential', ...shape }),
  /** `first` for `steps`, then `then`, counted from there. */
  chained: (shape: Shape<'chained'>): LR => ({ kind: 'chained', ...shape }),
  /** `then`, again from its start after `every` steps. */
  repeated: (shape: Shape<'repeated'>): LR => ({ kind: 'repeated', ...shape }),
};

/** A schedule as numbers. */
export function scheduleNumbers(rate: LR): number[] {
  if (typeof rate === 'number') return [SCHEDULES.constant, finite('lr', rate)];
  const start = rate.startStep ?? 0;
  const numbers = shapeNumbers(rate);
  return start > 0 ? [SCHEDULES.delayed, start, ...numbers] : numbers;
}

function shapeNumbers(rate: Exclude<LR, number>): number[] {
  const peak = 'peak' in rate ? finite('lr.peak', rate.peak) : 0;
  switch (rate.kind) {
    case 'exponential': return [SCHEDULES.exponential, peak, finite('lr.gamma', rate.gamma)];
    case 'chained': return [SCHEDULES.chained, ...scheduleNumbers(rate.first), count('lr.steps', rate.steps), ...scheduleNumbers(rate.then)];
    case 'repeated': return [SCHEDULES.repeated, count('lr.every', rate.every), ...scheduleNumbers(rate.then)];
    case 'linear': return [SCHEDULES.linear, peak, finite('lr.final', rate.final), count('lr.steps', rate.steps)];
    case 'cosineAnnealing': return [SCHEDULES.cosine, peak, finite('lr.final', rate.final), count('lr.steps', rate.steps)];
    case 'warmup': return [SCHEDULES.warmup, peak, count('lr.steps', rate.steps), ...scheduleNumbers(rate.after)];
    case 'staircase': return [SCHEDULES.staircase, peak, count('lr.every', rate.every), finite('lr.gamma', rate.gamma)];
    case 'multiStep': {
      const milestones = rate.milestones.map((step) => count('lr.milestones', step));
      if (milestones.some((step, i) => i > 0 && step < milestones[i - 1]!)) {
        throw fail('trace', `lr.milestones [${milestones.join(', ')}] do not rise`);
      }
      return [SCHEDULES.milestones, peak, milestones.length, ...milestones, finite('lr.gamma', rate.gamma)];
    }
    default: throw fail('trace', `there is no schedule '${String((rate as { kind: unknown }).kind)}'`,
      'make schedules with lr.linear(..), lr.cosineAnnealing(..), lr.warmup(..), lr.step(..), lr.multiStep(..)');
  }
}

function finite(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw fail('trace', `${name} is ${String(value)}, not a finite number`);
}

function count(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 0) return value;
  throw fail('trace', `${name} is ${String(value)}, not a whole number`);
}

/** What all optimizers can vary. */
export interface CommonConfig {
  /** The learning rate. */
  lr: LR;
  /** Bounds the norm of all gradients together. */
  clipGradNorm?: number;
  /** Bounds each element of the gradients, with either sign; before their norm is bounded. */
  clipGradValue?: number;
  /** Divides gradients by their own norms plus 1e-8, before they are bounded: all, or those of some names. */
  normalizeGrads?: boolean | ((name: string) => boolean);
  /** Decides by name which parameters decay, where the parameter does not say itself. */
  decayFilter?: (name: string) => boolean;
}

/** What a training program can vary beside its optimizer. */
export interface TrainingOptions {
  /** Bounds the norm of all gradients together; also an option of the optimizer. */
  clipGradNorm?: number;
  /** Bytes that a step may need: what does not fit is computed again. */
  memoryBudget?: number;
  /** Keeps running means of the parameters, of which so much stays at a step: states `optim.average.NAME`. */
  averageDecay?: number;
  /**
   * Micro-batches of a step, one in memory at a time, whose gradients are averaged. Inputs are declared for one;
   * a step takes as many times their first axis.
   */
  accumulate?: number;
  /** What the step computes in, and what is attached to it; 'f32' if not given. */
  precision?: Precision;
}

/** Which of the parameters have their gradients normalised, by number. */
function normalized(choice: CommonConfig['normalizeGrads'], names: readonly string[]): number[] {
  const chosen = names.flatMap((name, i) => (choice === true || (typeof choice === 'function' && choice(name)) ? [i] : []));
  if (typeof choice === 'function' && chosen.length === 0) {
    throw fail('trace', 'optimizer.normalizeGrads chose no parameter', `they are called ${names.slice(0, 6).join(', ')}`);
  }
  return chosen;
}

/**
 * An optimizer as numbers: code, bounds, micro-batches, the parameters whose gradients are normalised, schedule,
 * then each setting that was given as its code and its number.
 */
export function optimizerNumbers(config: OptimizerConfig, extra: TrainingOptions, names: readonly string[]): number[] {
  const kinds = Object.keys(OPTIMIZERS);
  const code = kinds.indexOf(config.kind);
  if (code < 0) throw fail('trace', `there is no optimizer '${String(config.kind)}'`, `use one of ${kinds.join(', ')}`);
  // Without momentum there is no buffer for it, and nothing to look ahead along.
  const given: Record<string, unknown> = { ...config };
  if (!given.momentum) delete given.momentum;
  if (given.nesterov && !given.momentum) throw fail('trace', 'optimizer.nesterov needs momentum above 0');
  const settings = OPTIMIZERS[config.kind].flatMap((name, i) => {
    const value = given[name];
    return value === undefined ? [] : [i, typeof value === 'boolean' ? Number(value) : finite(name, value)];
  });
  const chosen = normalized(config.normalizeGrads, names);
  return [
    code, finite('clipGradNorm', config.clipGradNorm ?? extra.clipGradNorm ?? 0), finite('clipGradValue', config.clipGradValue ?? 0),
    finite('memoryBudget', extra.memoryBudget ?? 0), finite('averageDecay', extra.averageDecay ?? 0),
    count('accumulate', extra.accumulate ?? 1), chosen.length, ...chosen, ...scheduleNumbers(config.lr), ...settings,
  ];
}
