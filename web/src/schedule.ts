// Learning rates and optimizers. In: what the user wants, as plain values that can be posted. Out: the
// numbers of the wasm interface. What always holds: the first step is step 1 of a schedule, as it is in
// tensorgrad; one that is set later counts from the next step, unless it says its own `startStep`; an option that
// is not known is an error.

import { fail } from './errors.js';
import { FLAGS, OPTIMIZERS, SCHEDULES, type OptimizerConfig } from './generated/training.js';
import { checkKind, checkOptions, shownValue, type Rules } from './options.js';
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

/** Schedules of the learning rate. Of step s, counted from 1 behind `startStep` (0 if not given). */
export const lr = {
  /** Straight from `peak` (which would be at step 0) to `final` at step `steps`, then `final`. */
  linear: (shape: Shape<'linear'>): LR => ({ kind: 'linear', ...shape }),
  /** Half a cosine from `peak` (which would be at step 0) to `final` at step `steps`, then `final`. */
  cosineAnnealing: (shape: Shape<'cosineAnnealing'>): LR => ({ kind: 'cosineAnnealing', ...shape }),
  /** Up to `peak` at step `steps`, then `after`, whose step 1 is the next. */
  warmup: (shape: Shape<'warmup'>): LR => ({ kind: 'warmup', ...shape }),
  /** `peak * gamma ^ floor((s - 1) / every)`. */
  step: (shape: Shape<'staircase'>): LR => ({ kind: 'staircase', ...shape }),
  /** The same as `step`. */
  staircase: (shape: Shape<'staircase'>): LR => ({ kind: 'staircase', ...shape }),
  /** `peak`, times `gamma` from each milestone on: at the step of that number already. */
  multiStep: (shape: Shape<'multiStep'>): LR => ({ kind: 'multiStep', ...shape }),
  /** `peak * gamma ^ (s - 1)`. */
  exponential: (shape: Shape<'exponential'>): LR => ({ kind: 'exponential', ...shape }),
  /** `first` for `steps` steps, then `then`, whose step 1 is the next. */
  chained: (shape: Shape<'chained'>): LR => ({ kind: 'chained', ...shape }),
  /** `then`, again from its step 1 after `every` steps. */
  repeated: (shape: Shape<'repeated'>): LR => ({ kind: 'repeated', ...shape }),
};

/** Fields of each kind, beside `kind` and `startStep`. */
const FIELDS: { readonly [K in Exclude<LR, number>['kind']]: readonly string[] } = {
  linear: ['peak', 'final', 'steps'], cosineAnnealing: ['peak', 'final', 'steps'], warmup: ['peak', 'steps', 'after'],
  staircase: ['peak', 'every', 'gamma'], multiStep: ['peak', 'milestones', 'gamma'], exponential: ['peak', 'gamma'],
  chained: ['first', 'steps', 'then'], repeated: ['every', 'then'],
};

/** Options of these names, whose values are looked at where they are taken. */
function named(names: readonly string[]): Rules {
  return Object.fromEntries(names.map((name) => [name, 'any']));
}

/** A schedule as numbers; the compiler counts its steps from 0. */
export function scheduleNumbers(rate: LR, where = 'lr'): number[] {
  if (typeof rate === 'number') return [SCHEDULES.constant, rateOf(where, rate)];
  if (typeof rate !== 'object' || rate === null) throw fail('trace', `${where} is ${String(rate)}, not a number or a schedule`);
  checkKind(where, 'schedule', rate.kind, Object.keys(FIELDS));
  checkOptions(`${where} of kind '${rate.kind}'`, rate, named(['kind', ...FIELDS[rate.kind], 'startStep']));
  const start = count(`${where}.startStep`, rate.startStep ?? 0);
  const numbers = shapeNumbers(rate, where);
  return start > 0 ? [SCHEDULES.delayed, start, ...numbers] : numbers;
}

function shapeNumbers(rate: Exclude<LR, number>, where: string): number[] {
  const given = rate as unknown as Record<string, unknown>;
  const number = (name: string) => (name === 'gamma' ? finite : rateOf)(`${where}.${name}`, given[name]);
  const whole = (name: string) => count(`${where}.${name}`, given[name]);
  const inner = (name: string) => scheduleNumbers(given[name] as LR, `${where}.${name}`);
  switch (rate.kind) {
    case 'exponential': return [SCHEDULES.exponential, number('peak'), number('gamma')];
    case 'chained': return [SCHEDULES.chained, ...inner('first'), whole('steps'), ...inner('then')];
    case 'repeated': return [SCHEDULES.repeated, whole('every'), ...inner('then')];
    // The compiler's are at `peak` at their step 0, which is none here.
    case 'linear': return [SCHEDULES.advanced, 1, SCHEDULES.linear, number('peak'), number('final'), whole('steps')];
    case 'cosineAnnealing': return [SCHEDULES.advanced, 1, SCHEDULES.cosine, number('peak'), number('final'), whole('steps')];
    case 'warmup': return [SCHEDULES.warmup, number('peak'), whole('steps'), ...inner('after')];
    case 'staircase': return [SCHEDULES.staircase, number('peak'), whole('every'), number('gamma')];
    case 'multiStep': {
      if (!Array.isArray(rate.milestones)) throw fail('trace', `${where}.milestones is ${String(rate.milestones)}, not a list of steps`);
      const milestones = rate.milestones.map((step) => Math.max(0, count(`${where}.milestones`, step) - 1));
      if (milestones.some((step, i) => i > 0 && step < milestones[i - 1]!)) {
        throw fail('trace', `${where}.milestones [${rate.milestones.join(', ')}] do not rise`);
      }
      return [SCHEDULES.milestones, number('peak'), milestones.length, ...milestones, number('gamma')];
    }
  }
}

/** A learning rate: one below 0 would climb. */
function rateOf(name: string, value: unknown): number {
  const rate = finite(name, value);
  if (rate < 0) throw fail('trace', `${name} is ${rate}, below 0`, 'a learning rate is 0 or more; to climb, negate the loss');
  return rate;
}

function finite(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw fail('trace', `${name} is ${String(value)}, not a finite number`);
}

function count(name: string, value: unknown): number {
  if (Number.isInteger(value) && (value as number) >= 0) return value as number;
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

const COMMON: Rules = { lr: 'any', clipGradNorm: 'number', clipGradValue: 'number', normalizeGrads: 'any', decayFilter: 'function' };

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
  /**
   * What is done if the loss does not depend on a parameter, which is not trained then: 'warn' (the default) says so
   * on the console, 'allow' is silent, 'error' refuses to compile.
   */
  unused?: 'warn' | 'allow' | 'error';
}

/** Which of the parameters have their gradients normalised, by number. */
function normalized(choice: CommonConfig['normalizeGrads'], names: readonly string[]): number[] {
  if (!['undefined', 'boolean', 'function'].includes(typeof choice)) {
    throw fail('trace', `optimizer.normalizeGrads is ${shownValue(choice)}, not true or false or a function of a name`);
  }
  const chosen = names.flatMap((name, i) => (choice === true || (typeof choice === 'function' && choice(name)) ? [i] : []));
  if (typeof choice === 'function' && chosen.length === 0) {
    throw fail('trace', 'optimizer.normalizeGrads chose no parameter', `they are called ${names.slice(0, 6).join(', ')}`);
  }
  return chosen;
}

/** Fails if an optimizer is of no kind that there is, or an option is none of its own, or not what it may be. */
export function checkOptimizer(config: OptimizerConfig): void {
  const kinds = Object.keys(OPTIMIZERS);
  checkKind('optimizer', 'optimizer', config.kind, kinds);
  const settingRules = Object.fromEntries(OPTIMIZERS[config.kind].map((name) => [name, FLAGS.includes(name) ? 'flag' : 'number'] as const));
  checkOptions(`the optimizer '${config.kind}'`, config, { kind: 'any', ...COMMON, ...settingRules }, {
    b1: "write 'beta1'", b2: "write 'beta2'",
  });
}

/**
 * An optimizer as numbers: code, bounds, micro-batches, whether parameters may be unused, the parameters whose gradients are normalised, schedule,
 * then each setting that was given as its code and its number.
 */
export function optimizerNumbers(config: OptimizerConfig, extra: TrainingOptions, names: readonly string[]): number[] {
  checkOptimizer(config);
  const code = Object.keys(OPTIMIZERS).indexOf(config.kind);
  // Without momentum there is no buffer for it, and nothing to look ahead along.
  const given: Record<string, unknown> = { ...config };
  if (!given.momentum) delete given.momentum;
  if (given.nesterov && !given.momentum) throw fail('trace', 'optimizer.nesterov needs momentum above 0');
  const settings = OPTIMIZERS[config.kind].flatMap((name, i) => {
    const value = given[name];
    return value === undefined ? [] : [i, Number(value)];
  });
  const chosen = normalized(config.normalizeGrads, names);
  return [
    code, finite('clipGradNorm', config.clipGradNorm ?? extra.clipGradNorm ?? 0), finite('clipGradValue', config.clipGradValue ?? 0),
    finite('memoryBudget', extra.memoryBudget ?? 0), finite('averageDecay', extra.averageDecay ?? 0),
    count('accumulate', extra.accumulate ?? 1), extra.unused === 'error' ? 0 : 1, chosen.length, ...chosen, ...scheduleNumbers(config.lr), ...settings,
  ];
}
