// A training program. In: a model and its loss, compiled in a worker. Out: steps, attached forward functions,
// parameters in and out. Always holds: `step` posts a message and returns; steps run in the order of the
// calls, each with its own inputs and scalars; if a new model cannot be traced or compiled, the previous one
// keeps running; `destroy` settles all promises.

import { elements, type Data, type Dtype, type Stored } from './dtype.js';
import { fail, type GradloomError } from './errors.js';
import { ForwardProgram, type CompiledForward, type ForwardSpec, type RunOptions } from './forward.js';
import type { Host } from './host.js';
import { arrays, type InputDecls, type InputTensors, type Resolved, type TypedInputs } from './inputs.js';
import { graphOf, inspectHere, inspectProgram, type CompiledIR, type Graph, type Inspection, type Kernel } from './inspect.js';
import { gradients } from './blocks.js';
import { walk, type Module } from './module.js';
import { checkOptions, type Rules } from './options.js';
import type { Counters } from './protocol.js';
import { failed, stepResult, type QueuedResult, type StepResult } from './results.js';
import type { OptimizerConfig } from './generated/training.js';
import { checkOptimizer, optimizerNumbers, scheduleNumbers, type LR, type TrainingOptions } from './schedule.js';
import { counters, download, handed, randomSeed, upload, type Model, type ParamValues } from './session.js';
import { partsOf, positionOf, stateFrom, stateOf, type TrainingState } from './state.js';
import type { Tensor } from './tensor.js';
import { shown, traceFunction, type Traced } from './tracing.js';
import { PRECISIONS, type Core } from './wasm.js';

/** A loss of a model to compile. */
export interface LossSpec<M extends Module, D extends InputDecls> extends TrainingOptions {
  /** The model, which is not changed. */
  model: M;
  /** Function that returns the loss, an f32 scalar. */
  loss: (model: M, inputs: InputTensors<D>) => Tensor;
  inputs: D;
  optimizer: OptimizerConfig;
  /** Seed of initial values and random ops; random by default. */
  seed?: number;
}

/** Rules for the options of `LossSpec`. */
export const LOSS_SPEC: Rules = {
  model: 'any', loss: 'any', inputs: 'any', optimizer: 'any', seed: 'whole', clipGradNorm: 'number', memoryBudget: 'number',
  averageDecay: 'number', accumulate: 'extent', precision: PRECISIONS, unused: ['warn', 'allow', 'error'],
};

/** Options of a step. */
export interface StepOptions extends RunOptions {
  /** False to queue the step without reading anything back. */
  read?: boolean;
  /** True to transfer the arrays instead of copying them; the caller can no longer use them. */
  transfer?: boolean;
}

/** Parts that `reset` resets. */
export interface ResetOptions {
  /** Parameters; true by default. */
  params?: boolean;
  /** The model's states; the same as `params` by default. */
  states?: boolean;
  /** The optimizer's states, and the number of steps; true by default. */
  optimizer?: boolean;
}

/** Options of `replaceModel`. */
export interface ReplaceOptions<M extends Module, D extends InputDecls> {
  /** Seed of initial values and random ops; random by default. */
  seed?: number;
  /** New optimizer; the same by default. */
  optimizer?: OptimizerConfig;
  /** New loss; the same by default. */
  loss?: LossSpec<M, D>['loss'];
}

/** A model in training, as returned by `compile`. */
export interface CompiledTraining<M extends Module = Module, D extends InputDecls = InputDecls> {
  /** Names of the parameters; a tied one has its first. */
  readonly paramNames: readonly string[];
  /** Shapes of the parameters. */
  readonly paramShapes: Readonly<Record<string, readonly number[]>>;
  /** Names of the parameters that the loss does not depend on; these are not trained. */
  readonly unusedParams: readonly string[];
  /** Seed of initial values and random ops. */
  readonly seed: number;
  /** Shape of the loss: `[]`. */
  readonly outputShape: readonly number[];
  /** The graph of the loss and its gradients, computed on access by tracing the loss again. */
  readonly graph: Graph;
  /** The kernels for WebGPU's default limits, computed on access; `inspect()` returns those that run. */
  readonly kernels: readonly Kernel[];
  /** Device in use: 'webgpu' or 'cpu'. */
  readonly device: 'webgpu' | 'cpu';
  /** Name of the device. */
  readonly deviceName: string;
  /**
   * Resolves with the error if the device is lost. To continue, `compile` again and upload the parameters.
   */
  readonly lost: Promise<GradloomError>;
  /** Number of pending requests. */
  readonly pending: number;

  /**
   * Runs a step: forward, backward, update. The arrays are copied. The next step may be called before this
   * one completes. Never rejects: the result contains any error.
   */
  step(inputs: TypedInputs<D>, options: StepOptions & { read: false }): Promise<QueuedResult>;
  step(inputs: TypedInputs<D>, options?: StepOptions): Promise<StepResult>;
  /**
   * Compiles a forward function that always uses the current parameters of the training. Rejects with the
   * kind 'trace' if it cannot be traced, or does not match `output`.
   */
  attach<const E extends InputDecls, O extends Dtype = 'f32'>(spec: ForwardSpec<M, E, O>): Promise<CompiledForward<M, E, O>>;
  /** Overwrites all parameters, or with `partial` only the given ones. */
  uploadParams(values: ParamValues, options?: { partial?: boolean }): Promise<void>;
  /**
   * Returns the parameters by path, such as 'layers.0.W', as `uploadParams` and `saveSafetensors` accept
   * them.
   */
  downloadParams(): Promise<Record<string, Float32Array>>;
  /**
   * Returns the gradients of the loss by path, without clipping: for the current parameters and these inputs,
   * or by default those of the last step. With micro-batches, it is the mean of their gradients. Random ops
   * draw new numbers; nothing is changed. The first call compiles the function. For the gradients of a step,
   * call it with the step's inputs before the step.
   */
  downloadParamGrads(inputs?: TypedInputs<D>): Promise<Record<string, Float32Array>>;
  /** Returns everything that is needed to continue from this point. */
  downloadState(): Promise<TrainingState>;
  /**
   * Restores the result of `downloadState`, or a file of it, for the same model, optimizer and seed: all of
   * it or nothing.
   */
  uploadState(state: TrainingState | ArrayBuffer | Uint8Array): Promise<void>;
  /**
   * Resets the parameters, states and optimizer to their initial values, except for the parts excluded by an
   * option.
   */
  reset(options?: ResetOptions): Promise<void>;
  /** Resets the model's states to their initial values, but not the parameters and the optimizer. */
  resetStates(): Promise<void>;
  /** Sets the learning rate from the next step on; a schedule without `startStep` starts there. */
  setLR(rate: LR): Promise<void>;
  /** Returns the learning rate of the next step. */
  currentLR(): Promise<number>;
  /** Returns the compiled program. */
  inspect(): Promise<Inspection>;
  /** Returns the numbers of existing objects in the worker, for tests. */
  counters(): Promise<Counters>;
  /**
   * Replaces the model, with the same loss and inputs. If the new one cannot be traced or compiled, the
   * previous one stays.
   */
  replaceModel(model: M, options?: ReplaceOptions<M, D>): Promise<void>;
  /**
   * Ends the training: pending requests are 'aborted', and the worker and its GPU resources are freed.
   * Returns the numbers of objects that existed at the end.
   */
  destroy(): Promise<Counters | null>;
}

/** Implementation of `compile`. */
export class TrainingProgram<M extends Module, D extends InputDecls> implements CompiledTraining<M, D> {
  readonly #host: Host;
  readonly #core: Core;
  #spec: LossSpec<M, D>;
  readonly #inputs: Resolved[];
  #made: Made;
  /** Schedule set by the user instead of the optimizer's; the worker determines its start. */
  #rate: Promise<LR | null> = Promise.resolve(null);
  #ir: CompiledIR | null = null;
  readonly #attached = new Set<{ destroy(): Promise<void> }>();
  /** Replacements of the model, one after another. */
  #replacing: Promise<void> = Promise.resolve();
  #end: Promise<Counters | null> | null = null;

  constructor(host: Host, core: Core, spec: LossSpec<M, D>, inputs: Resolved[], made: Made) {
    this.#host = host;
    this.#core = core;
    this.#spec = spec;
    this.#inputs = inputs;
    this.#made = made;
  }

  get #model(): Model {
    return this.#made.model;
  }

  get paramNames(): readonly string[] {
    return this.#model.params.map(({ name }) => name);
  }

  get paramShapes(): Readonly<Record<string, readonly number[]>> {
    return Object.fromEntries(this.#model.params.map(({ name, shape }) => [name, shape]));
  }

  get unusedParams(): readonly string[] {
    return this.#made.unused;
  }

  get seed(): number {
    return this.#model.seed;
  }

  get outputShape(): readonly number[] {
    return [];
  }

  get graph(): Graph {
    return this.#looked().graph;
  }

  get kernels(): readonly Kernel[] {
    return this.#looked().kernels;
  }

  #looked(): CompiledIR {
    this.#ir ??= lossIR(this.#core, this.#spec, this.#inputs);
    return this.#ir;
  }

  get device(): 'webgpu' | 'cpu' {
    return this.#host.device;
  }

  get deviceName(): string {
    return this.#host.name;
  }

  get lost(): Promise<GradloomError> {
    return this.#host.client.lost;
  }

  get pending(): number {
    return this.#host.client.pending;
  }

  step(inputs: TypedInputs<D>, options: StepOptions & { read: false }): Promise<QueuedResult>;
  step(inputs: TypedInputs<D>, options?: StepOptions): Promise<StepResult>;
  async step(inputs: TypedInputs<D>, options: StepOptions = {}): Promise<StepResult | QueuedResult> {
    const { read = true, signal, withCaptures = true } = options;
    if (this.#end || signal?.aborted) return { kind: 'aborted' };
    let cancel: (() => void) | undefined;
    const { captures, program } = this.#made;
    try {
      checkOptions('step', options, { read: 'flag', signal: 'signal', transfer: 'flag', withCaptures: 'flag' });
      const site = new Error();
      const given = arrays(this.#inputs, inputs as Readonly<Record<string, unknown>>, this.#spec.accumulate);
      const { data, transfer } = handed(this.#inputs.map(({ dtype }) => dtype), given, options.transfer);
      const { client } = this.#host;
      const reply = await client.ask('step', { program, inputs: data, read }, transfer, site, (id) => {
        if (!signal) return;
        cancel = () => client.cancel(id);
        signal.addEventListener('abort', cancel, { once: true });
      });
      return reply.kind === 'completed' ? stepResult(reply.outputs, withCaptures ? captures : []) : reply;
    } catch (thrown) {
      return failed(thrown);
    } finally {
      if (cancel) signal?.removeEventListener('abort', cancel);
    }
  }

  async attach<const E extends InputDecls, O extends Dtype = 'f32'>(spec: ForwardSpec<M, E, O>): Promise<CompiledForward<M, E, O>> {
    if (this.#end) throw destroyed();
    const forward: ForwardProgram<M, E, O> = new ForwardProgram<M, E, O>({
      host: this.#host, core: this.#core, model: () => this.#model, instance: () => this.#spec.model,
      destroyed: () => this.#end !== null, late: false, where: 'attach',
    }, spec, async () => { this.#attached.delete(forward); });
    // Errors of the function are reported by its runs, so that the training continues.
    await forward.check().catch((thrown: unknown) => {
      if (this.#end) throw thrown;
    });
    this.#attached.add(forward);
    return forward;
  }

  async uploadParams(values: ParamValues, options: { partial?: boolean } = {}): Promise<void> {
    checkOptions('uploadParams', options, { partial: 'flag' });
    return upload(this.#host, this.#model, values, options.partial ?? false, new Error());
  }

  downloadParams(): Promise<Record<string, Float32Array>> {
    return download(this.#host, this.#model, new Error());
  }

  async downloadParamGrads(inputs?: TypedInputs<D>): Promise<Record<string, Float32Array>> {
    const site = new Error();
    const { client } = this.#host;
    const { program, grads } = this.#made;
    const parts = this.#spec.accumulate ?? 1;
    const given = inputs && arrays(this.#inputs, inputs as Readonly<Record<string, unknown>>, parts);
    grads.program ??= this.#compileGrads(site);
    const { program: of, names } = await grads.program.catch((thrown: unknown) => {
      grads.program = null;
      throw thrown;
    });
    const sums: Float32Array[] = [];
    for (let part = 0; part < parts; part++) {
      const { data, transfer } = handed(this.#inputs.map(({ dtype }) => dtype), given?.map((array, i) => this.#part(array, i, part)) ?? []);
      const reply = await client.ask('run', { program: of, inputs: data, ...(!given && { of: { program, part, parts } }) }, transfer, site);
      if (reply.kind !== 'completed') throw fail('aborted', 'the model was replaced');
      names.forEach((_, i) => {
        const one = reply.outputs.find((output) => output.name === `result.${i}`)!.data as Float32Array;
        const sum = (sums[i] ??= new Float32Array(one.length));
        one.forEach((value, k) => { sum[k]! += value / parts; });
      });
    }
    return Object.fromEntries(names.map((name, i) => [name, sums[i]!]));
  }

  /** Returns the elements of one micro-batch of an input. */
  #part(array: Data, input: number, part: number): Data {
    const count = elements(this.#inputs[input]!.shape);
    return array.length === count ? array : array.subarray(part * count, (part + 1) * count) as Data;
  }

  /** Compiles the program of the gradients, which shares the parameters in training. */
  #compileGrads(site: Error): Promise<Grads> {
    return shown(async () => {
      const { params, traced: { log } } = traceGrads(this.#core, this.#spec, this.#inputs);
      const { program } = await this.#host.client.ask('attach', { session: this.#model.session, log }, [log.commands.buffer as ArrayBuffer], site);
      return { program, names: params.map(({ name }) => name) };
    });
  }

  async downloadState(): Promise<TrainingState> {
    const { model: { session, seed }, program } = this.#made;
    const rate = this.#rate;
    const { tensors, attempted } = await this.#host.client.ask('download', { session, states: true, program }, [], new Error());
    return stateOf(tensors, attempted, seed, await rate);
  }

  async uploadState(given: TrainingState | ArrayBuffer | Uint8Array): Promise<void> {
    const state = stateFrom(given);
    const { model: { session, seed }, program } = this.#made;
    const { rate, attempted, schedule } = positionOf(state, seed);
    const parts = partsOf(state);
    const tensors = parts.names.map((name, i) => ({ name, dtype: parts.dtypes[i]!, data: parts.data[i]! }));
    const at = { program, attempted, schedule, types: parts.types };
    await this.#setting(rate, this.#host.client.upload({ session, strict: true, finite: false, at }, tensors, new Error()));
  }

  async reset(options: ResetOptions = {}): Promise<void> {
    checkOptions('reset', options, { params: 'flag', states: 'flag', optimizer: 'flag' });
    const { params = true, states = params, optimizer = true } = options;
    const done = this.#host.client.ask('reset', { session: this.#model.session, params, states, optimizer }, [], new Error());
    await (optimizer ? this.#setting(null, done) : done);
  }

  resetStates(): Promise<void> {
    return this.reset({ params: false, states: true, optimizer: false });
  }

  async setLR(rate: LR): Promise<void> {
    const startsNow = typeof rate === 'object' && rate !== null && rate.startStep === undefined;
    const schedule = [startsNow ? 1 : 0, ...scheduleNumbers(rate)];
    const done = this.#host.client.ask('rate', { program: this.#made.program, schedule }, [], new Error());
    await this.#setting(startsNow ? done.then((before) => ({ ...rate, startStep: before })) : rate, done);
  }

  /** Records the rate for all later requests, unless setting it fails. */
  async #setting(rate: LR | null | Promise<LR>, done: Promise<unknown>): Promise<void> {
    const former = this.#rate;
    this.#rate = done.then(() => rate, () => former);
    await done;
  }

  currentLR(): Promise<number> {
    return this.#host.client.ask('lr', { program: this.#made.program }, [], new Error());
  }

  inspect(): Promise<Inspection> {
    return inspectProgram(this.#host.client, this.#made.program);
  }

  counters(): Promise<Counters> {
    return counters(this.#host);
  }

  async replaceModel(model: M, options: ReplaceOptions<M, D> = {}): Promise<void> {
    checkOptions('replaceModel', options, { seed: 'whole', optimizer: 'any', loss: 'function' });
    const before = this.#replacing;
    const replaced = before.then(async () => {
      if (this.#end) throw destroyed();
      const { seed: _, ...rest } = this.#spec;
      const spec: LossSpec<M, D> = {
        ...rest, model, ...(options.optimizer && { optimizer: options.optimizer }), ...(options.loss && { loss: options.loss }),
        ...(options.seed !== undefined && { seed: options.seed }),
      };
      const made = await compileLoss(this.#host, spec, traceLoss(this.#core, spec, this.#inputs));
      const old = this.#model.session;
      this.#spec = spec;
      this.#made = made;
      this.#rate = Promise.resolve(null);
      this.#ir = null;
      await this.#host.client.ask('drop', { session: old }).catch(() => null);
    });
    this.#replacing = replaced.catch(() => undefined);
    return shown(() => replaced);
  }

  destroy(): Promise<Counters | null> {
    this.#end ??= this.#host.client.close();
    for (const forward of this.#attached) void forward.destroy();
    return this.#end;
  }
}

/** A program that computes the gradients of the parameters with these names. */
interface Grads {
  program: number;
  names: readonly string[];
}

/** A compiled loss. */
export interface Made {
  /** Program of its gradients, once requested. */
  grads: { program: Promise<Grads> | null };
  model: Model;
  program: number;
  captures: string[];
  unused: readonly string[];
}

/** Traces a loss with its optimizer; throws if either is wrong. */
export function traceLoss<M extends Module, D extends InputDecls>(
  core: Core, spec: LossSpec<M, D>, inputs: readonly Resolved[],
): Traced & { optimizer: number[] } {
  if (typeof spec.optimizer !== 'object' || spec.optimizer === null) {
    throw fail('trace', `the optimizer is ${String(spec.optimizer)}`, "write optimizer: { kind: 'adam', lr: 0.001 }");
  }
  checkOptimizer(spec.optimizer);
  const traced = traceFunction<M, D>(core, {
    model: spec.model, inputs, run: spec.loss, training: true, decayFilter: spec.optimizer.decayFilter,
  });
  if (traced.params.every(({ frozen }) => frozen)) {
    throw fail('trace', traced.params.length > 0 ? 'all parameters of the model are frozen' : 'the model has no parameters',
      'declare some with this.param(..), or use compileForward(..)');
  }
  return { ...traced, optimizer: optimizerNumbers(spec.optimizer, spec, traced.params.map(({ name }) => name)) };
}

/** Traces the gradients of a loss, with `withLoss` after the loss itself. */
function traceGrads<M extends Module, D extends InputDecls>(core: Core, spec: LossSpec<M, D>, inputs: readonly Resolved[], withLoss = false) {
  const params = walk(spec.model).params.filter(({ param }) => !param.frozen);
  const traced = traceFunction<M, D>(core, {
    model: spec.model, inputs, training: true, several: true, withoutValues: true, keepsStates: !withLoss,
    run: (model, tensors) => {
      const loss = spec.loss(model, tensors);
      return [...(withLoss ? [loss] : []), ...gradients(loss, params.map(({ param }) => param))];
    },
  });
  return { params, traced };
}

/** Describes the compiled program of a loss, on this thread, for WebGPU's default limits. */
export function lossIR<M extends Module, D extends InputDecls>(core: Core, spec: LossSpec<M, D>, inputs: readonly Resolved[]): CompiledIR {
  const { params, traced: { trace } } = traceGrads(core, spec, inputs, true);
  const graph = graphOf(core, trace);
  const [loss, ...grads] = graph.outputs.map((id) => graph.tensors[id]!);
  const traced = traceLoss(core, spec, inputs);
  const planned = plan(core, spec.seed ?? 0, (session) => core.train(session, traced.trace, traced.optimizer));
  return { ...planned, graph, loss: loss!, paramGrads: Object.fromEntries(grads.map((grad, i) => [params[i]!.name, grad])) };
}

/** Describes a program that is compiled only for this purpose. */
export function plan(core: Core, seed: number, program: (session: number) => number): Inspection {
  const session = core.session(seed, 'none');
  try {
    const id = program(session);
    try {
      return inspectHere(core, id);
    } finally {
      core.release('program', id);
    }
  } finally {
    core.release('session', session);
  }
}

/** Compiles a traced loss in a worker. */
export async function compileLoss<M extends Module, D extends InputDecls>(
  host: Host, spec: LossSpec<M, D>, traced: Traced & { optimizer: number[] }, site: Error = new Error(),
): Promise<Made> {
  const seed = spec.seed ?? randomSeed();
  const { log, optimizer, params, aliases, captures } = traced;
  const { session, program, unused } = await host.client
    .ask('compile', { log, seed, precision: spec.precision ?? 'f32', optimizer }, [log.commands.buffer as ArrayBuffer], site);
  if (unused.length > 0 && (spec.unused ?? 'warn') === 'warn') {
    console.warn(`gradloom: the loss does not depend on ${unused.slice(0, 8).join(', ')}${unused.length > 8 ? ', ..' : ''}: `
      + `${unused.length > 1 ? 'these parameters are' : 'this parameter is'} not trained. Compile with unused: 'allow' to be silent, or 'error' to refuse.`);
  }
  return { program, captures, unused, grads: { program: null }, model: { instance: spec.model, params, aliases, session, seed } };
}

function destroyed(): GradloomError {
  return fail('destroyed', 'it was destroyed before', 'compile again to go on');
}

