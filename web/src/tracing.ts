// Tracing a user's function. In: a model, declared inputs, the function. Out: a log that another instance can
// replay, and its declarations. Always holds: if the function throws, the trace is abandoned, and the error
// is the user's own, or one of this package with the user's line.

import type { Dtype } from './dtype.js';
import { errorOf, errorValue, fail, GradloomError } from './errors.js';
import type { InputDecls, InputTensors, Resolved } from './inputs.js';
import { Log, type LogValue } from './log.js';
import { declare, type NamedParam } from './module.js';
import { excerpt } from './origin.js';
import { Tensor } from './tensor.js';
import { Trace } from './trace.js';
import type { Core } from './wasm.js';

/** Results of a forward function. */
export type Results = Tensor | readonly Tensor[] | Readonly<Record<string, Tensor>>;

/** A traced function. */
export interface Traced {
  log: LogValue;
  /** Id of the trace on the tracing instance. */
  trace: number;
  params: NamedParam[];
  /** Other names of parameters: [other, first]. */
  aliases: [string, string][];
  captures: string[];
  /** Names of the results in order; '' for a single one. */
  results: string[];
  /** Dtype and shape of the first result. */
  first: { dtype: Dtype; shape: readonly number[] };
}

/** A function to trace. */
export interface TraceSpec<M extends object, D extends InputDecls> {
  model: M;
  inputs: readonly Resolved[];
  run: (model: M, inputs: InputTensors<D>) => Results;
  training: boolean;
  /** True if a training function may return several tensors. */
  several?: boolean;
  decayFilter?: ((name: string) => boolean) | undefined;
  /** True to omit initial values, if a session already has the parameters. */
  withoutValues?: boolean;
  /** True to ignore new values of the model's states. */
  keepsStates?: boolean;
}

/** Traces a function; synchronous, like the user's function. */
export function traceFunction<M extends object, D extends InputDecls>(core: Core, spec: TraceSpec<M, D>): Traced {
  const log = new Log(core);
  const { ids, params, aliases } = declare(log, spec.model, {
    decayFilter: spec.decayFilter, withoutValues: spec.withoutValues ?? false,
  });
  const trace = new Trace(log, ids, spec.training, spec.keepsStates ?? false);
  try {
    const inputs = Object.fromEntries(spec.inputs.map(({ name, dtype, shape }) => [name, trace.input(name, dtype, shape)]));
    const given = spec.run(spec.model, inputs as InputTensors<D>);
    if (given instanceof Promise) {
      throw fail('trace', 'the function is async', 'a loss or forward function is traced once, and returns a tensor at once');
    }
    const { names, tensors } = results(given, spec.training, spec.several ?? false);
    const first = tensors[0]!.type();
    const id = trace.close(tensors);
    return { log: log.value(), trace: id, params, aliases, captures: trace.captures, results: names, first };
  } finally {
    trace.end();
  }
}

/** Declares only a model, for a session without a program. */
export function declareModel(core: Core, model: object): Omit<Traced, 'trace' | 'captures' | 'results' | 'first'> {
  const log = new Log(core);
  const { params, aliases } = declare(log, model);
  return { log: log.value(), params, aliases };
}

function results(given: Results, training: boolean, several: boolean): { names: string[]; tensors: Tensor[] } {
  if (given instanceof Tensor) {
    if (training && (given.rank !== 0 || given.dtype !== 'f32')) {
      throw fail('trace', `the loss is ${given.dtype}[${given.shape.join(', ')}], not a single f32`, 'reduce it with mean(..) or sum(..)');
    }
    return { names: [''], tensors: [given] };
  }
  if ((!training || several) && typeof given === 'object' && given !== null) {
    const entries = Object.entries(given as Readonly<Record<string, Tensor>>);
    if (entries.length > 0 && entries.every(([, tensor]) => tensor instanceof Tensor)) {
      return { names: entries.map(([name]) => name), tensors: entries.map(([, tensor]) => tensor) };
    }
  }
  throw fail('trace', training ? 'the loss function returned no tensor' : 'the forward function returned no tensor',
    training ? 'return the loss' : 'return a tensor, an array of tensors, or a record of tensors');
}

const isShown = new WeakSet<GradloomError>();

/** Adds the user's source line to the errors of a promise, if available. */
export async function shown<R>(work: () => Promise<R>): Promise<R> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof GradloomError && thrown.origin && !isShown.has(thrown)) {
      const lines = await excerpt(thrown.origin);
      const error = errorOf(errorValue(thrown));
      error.message = `${error.message}\n${lines}`;
      error.rendered = error.message;
      if (thrown.stack !== undefined) error.stack = `${error.name}: ${error.message}\n${frames(thrown.stack)}`;
      isShown.add(error);
      throw error;
    }
    throw thrown;
  }
}

/** Returns a stack without its message. */
function frames(stack: string): string {
  const lines = stack.split('\n');
  const first = lines.findIndex((line) => /^\s*at |@/.test(line));
  return first < 0 ? stack : lines.slice(first).join('\n');
}

