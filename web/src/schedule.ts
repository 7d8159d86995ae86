// Learning rates and optimizers. In: the user's choice, as plain values that can be posted. Out: the
// arguments of the wasm interface. Always holds: the first step is step 1 of a schedule, as in tensorgrad; a
// schedule that is set later starts at the next step, unless it has its own `startStep`; an unknown option is
// an error.

import { fail } from './errors.js';
import { FLAGS, OPTIMIZERS, SCHEDULES, type OptimizerConfig } from './generated/training.js';
import { checkKind, checkOptions, shownValue, type Rules } from './options.js';
import type { Precision } from './wasm.js';

export type { SgdConfig as SGDConfig } from './generated/training.js';

/** A learning rate over time: a number, or a schedule created by `lr`. */
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

/**
 * Schedules of the learning rate, as functions of step s, counted from 1 after `startStep` (0 by default).
 */
export const lr = {
  /** Linear from `peak` (at step 0, before the first) to `final` at step `steps`, then `final`. */
  linear: (shape: Shape<'linear'>): LR => ({ kind: 'linear', ...shape }),
  /** Half a cosine from `peak` (at step 0, before the first) to `final` at step `steps`, then `final`. */
  cosineAnnealing: (shape: Shape<'cosineAnnealing'>): LR => ({ kind: 'cosineAnnealing', ...shape }),
  /** Linear from 0 to `peak` at step `steps`, then `after`, whose step 1 is the next one. */
  warmup: (shape: Shape<'warmup'>): LR => ({ kind: 'warmup', ...shape }),
  /** `peak * gamma ^ floor((s - 1) / every)`. */
  step: (shape: Shape<'staircase'>): LR => ({ kind: 'staircase', ...shape }),
  /** Alias of `step`. */
  staircase: (shape: Shape<'staircase'>): LR => ({ kind: 'staircase', ...shape }),
  /** `peak`, multiplied by `gamma` at each milestone, beginning with the step of that number. */
  multiStep: (shape: Shape<'multiStep'>): LR => ({ kind: 'multiStep', ...shape }),
  /** `peak * gamma ^ (s - 1)`. */
  exponential: (shape: Shape<'exponential'>): LR => ({ kind: 'exponential', ...shape }),
  /** `first` for `steps` steps, then `then`, whose step 1 is the next one. */
  chained: (shape: Shape<'chained'>): LR => ({ kind: 'chained', ...shape }),
  /** `then`, restarted from its step 1 every `every` steps. */
  repeated: (shape: Shape<'repeated'>): LR => ({ kind: 'repeated', ...shape }),
};

/** Fields of each kind, besides `kind` and `startStep`. */
const FIELDS: { readonly [K in Exclude<LR, number>['kind']]: readonly string[] } = {
  linear: ['peak', 'final', 'steps'], cosineAnnealing: ['peak', 'final', 'steps'], warmup: ['peak', 'steps', 'after'],
  staircase: ['peak', 'every', 'gamma'], multiStep: ['peak', 'milestones', 'gamma'], exponential: ['peak', 'gamma'],
  chained: ['first', 'steps', 'then'], repeated: ['every', 'then'],
};

/** Returns rules for options with these names, whose values are checked where they are used. */
function named(names: readonly string[]): Rules {
  return Object.fromEntries(names.map((name) => [name, 'any']));
}

/** Returns a schedule as numbers; the compiler counts its steps from 0. */
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
    // The compiler's schedules have the value `peak` at step 0, which is before the first step here.
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

/** Returns a learning rate, or throws if it is negative, which would be gradient ascent. */
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

/** Options of all optimizers. */
export interface CommonConfig {
  /** The learning rate. */
  lr: LR;
  /** Maximum norm of all gradients together. */
  clipGradNorm?: number;
  /** Maximum absolute value of each element of the gradients, applied before `clipGradNorm`. */
  clipGradValue?: number;
  /**
   * Divides gradients by their own norms plus 1e-8, before they are clipped: all of them, or those with some
   * names.
   */
  normalizeGrads?: boolean | ((name: string) => boolean);
  /** Decides by name about weight decay of parameters that do not set `decay`. */
  decayFilter?: (name: string) => boolean;
}

const COMMON: Rules = { lr: 'any', clipGradNorm: 'number', clipGradValue: 'number', normalizeGrads: 'any', decayFilter: 'function' };

/** Options of a training program besides its optimizer. */
export interface TrainingOptions {
  /** Maximum norm of all gradients together; also an option of the optimizer. */
  clipGradNorm?: number;
  /** Maximum memory of a step in bytes; values that do not fit are recomputed. */
  memoryBudget?: number;
  /**
   * Decay factor per step of running averages of the parameters, which are kept in the states
   * `optim.average.NAME`.
   */
  averageDecay?: number;
  /**
   * Number of micro-batches in a step, whose gradients are averaged; one at a time is in memory. Inputs are
   * declared for one micro-batch; in a step, their first axis is this many times as long.
   */
  accumulate?: number;
  /** Precision of the step and of attached programs; 'f32' by default. */
  precision?: Precision;
  /**
   * Treatment of parameters that the loss does not depend on, which are not trained: 'warn' (the default)
   * prints a warning to the console, 'allow' is silent, 'error' refuses to compile.
   */
  unused?: 'warn' | 'allow' | 'error';
}

/** Returns the indices of the parameters whose gradients are normalised. */
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

/** Throws if an optimizer has an unknown kind or option, or an invalid value. */
export function checkOptimizer(config: OptimizerConfig): void {
  const kinds = Object.keys(OPTIMIZERS);
  checkKind('optimizer', 'optimizer', config.kind, kinds);
  const settingRules = Object.fromEntries(OPTIMIZERS[config.kind].map((name) => [name, FLAGS.includes(name) ? 'flag' : 'number'] as const));
  checkOptions(`the optimizer '${config.kind}'`, config, { kind: 'any', ...COMMON, ...settingRules }, {
    b1: "write 'beta1'", b2: "write 'beta2'",
  });
}

/**
 * Returns an optimizer as numbers: code, limits, micro-batches, whether parameters may be unused, the
 * parameters with normalised gradients, schedule, then the code and number of each given setting.
 */
export function optimizerNumbers(config: OptimizerConfig, extra: TrainingOptions, names: readonly string[]): number[] {
  checkOptimizer(config);
  const code = Object.keys(OPTIMIZERS).indexOf(config.kind);
  // Without momentum, there is no momentum buffer and no Nesterov lookahead.
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
