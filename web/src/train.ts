// A training program. In: a model and its loss, compiled in a worker. Out: steps, attached forward functions,
// parameters in and out. What always holds: `step` posts and returns; steps happen in the order of the calls,
// each with its own inputs and scalars; a model that cannot be traced or compiled leaves the one before
// running; `destroy` settles everything.

import type { Stored } from './dtype.js';
import { fail, type GradloomError } from './errors.js';
import { CompiledForward, type ForwardSpec, type RunOptions } from './forward.js';
import type { Host } from './host.js';
import { arrays, ofAllBatches, type InputDecls, type InputTensors, type Resolved, type TypedInputs } from './inputs.js';
import { inspectProgram, type Inspection } from './inspect.js';
import type { Module, ParamTree } from './module.js';
import type { Counters, Sent } from './protocol.js';
import { failed, stepResult, type QueuedResult, type StepResult } from './results.js';
import type { OptimizerConfig } from './generated/training.js';
import { optimizerNumbers, scheduleNumbers, type LR, type TrainingOptions } from './schedule.js';
import { counters, downloadFlat, downloadState, downloadTree, handed, randomSeed, upload, type Model, type ParamValues } from './session.js';
import type { Tensor } from './tensor.js';
import { shown, traceFunction, type Traced } from './tracing.js';
import type { Core } from './wasm.js';

/** What is compiled: a loss over a model. */
export interface LossSpec<M extends Module, D extends InputDecls> extends TrainingOptions {
  /** The model; it is not changed. */
  model: M;
  /** Gives the loss, a single f32. */
  loss: (model: M, inputs: InputTensors<D>) => Tensor;
  inputs: D;
  optimizer: OptimizerConfig;
  /** Seeds initial values and random ops; a random one if not given. */
  seed?: number;
}

/** What a step can vary. */
export interface StepOptions extends RunOptions {
  /** false: the step is queued, and nothing is read back. */
  read?: boolean;
  /** The arrays are handed over, not copied: the caller cannot use them any more. */
  transfer?: boolean;
}

/** A model in training. */
export class CompiledTraining<M extends Module = Module, D extends InputDecls = InputDecls> {
  readonly #host: Host;
  readonly #core: Core;
  #spec: LossSpec<M, D>;
  readonly #inputs: Resolved[];
  #model: Model;
  #program: number;
  #captures: string[];
  readonly #attached = new Set<CompiledForward<M, never>>();
  /** Replacements, one after another. */
  #replacing: Promise<void> = Promise.resolve();
  #end: Promise<Counters | null> | null = null;

  /** @internal */
  constructor(host: Host, core: Core, spec: LossSpec<M, D>, inputs: Resolved[], made: Made) {
    this.#host = host;
    this.#core = core;
    this.#spec = spec;
    this.#inputs = inputs;
    this.#model = made.model;
    this.#program = made.program;
    this.#captures = made.captures;
  }

  /** Names of the parameters; a tied one has its first. */
  get paramNames(): readonly string[] {
    return this.#model.params.map(({ name }) => name);
  }

  /** Shapes of the parameters. */
  get paramShapes(): Readonly<Record<string, readonly number[]>> {
    return Object.fromEntries(this.#model.params.map(({ name, shape }) => [name, shape]));
  }

  /** The seed of initial values and random ops. */
  get seed(): number {
    return this.#model.seed;
  }

  /** The shape of the loss. */
  get outputShape(): readonly number[] {
    return [];
  }

  /** Where it runs: 'webgpu' or 'cpu'. */
  get device(): 'webgpu' | 'cpu' {
    return this.#host.device;
  }

  /** The device in words. */
  get deviceName(): string {
    return this.#host.name;
  }

  /** Settles with the error if the device is lost. `compile` again and upload parameters to go on. */
  get lost(): Promise<GradloomError> {
    return this.#host.client.lost;
  }

  /** Requests that are not settled. */
  get pending(): number {
    return this.#host.client.pending;
  }

  /**
   * One step: forward, backward, update. The arrays are copied. Steps may be called without waiting for the
   * one before.
   */
  step(inputs: TypedInputs<D>, options: StepOptions & { read: false }): Promise<QueuedResult>;
  step(inputs: TypedInputs<D>, options?: StepOptions): Promise<StepResult>;
  async step(inputs: TypedInputs<D>, options: StepOptions = {}): Promise<StepResult | QueuedResult> {
    const { read = true, signal } = options;
    if (this.#end || signal?.aborted) return { kind: 'aborted' };
    let cancel: (() => void) | undefined;
    const captures = this.#captures;
    try {
      const site = new Error();
      const given = arrays(ofAllBatches(this.#inputs, this.#spec.accumulate ?? 1), inputs as Readonly<Record<string, unknown>>);
      const { data, transfer } = handed(this.#inputs.map(({ dtype }) => dtype), given, options.transfer);
      const { client } = this.#host;
      const reply = await client.ask('step', { program: this.#program, inputs: data, read }, transfer, site, (id) => {
        if (!signal) return;
        cancel = () => client.cancel(id);
        signal.addEventListener('abort', cancel, { once: true });
      });
      return reply.kind === 'completed' ? stepResult(reply.outputs, captures) : reply;
    } catch (thrown) {
      return failed(thrown);
    } finally {
      if (cancel) signal?.removeEventListener('abort', cancel);
    }
  }

  /** A forward function over the parameters in training, as they are whenever it runs. */
  async attach<const E extends InputDecls>(spec: ForwardSpec<M, E>): Promise<CompiledForward<M, E>> {
    if (this.#end) throw destroyed();
    const forward = new CompiledForward<M, E>({
      host: this.#host, core: this.#core, model: () => this.#model, instance: () => this.#spec.model,
      destroyed: () => this.#end !== null, late: false,
    }, spec, async () => { this.#attached.delete(forward as unknown as CompiledForward<M, never>); });
    await forward.check();
    this.#attached.add(forward as unknown as CompiledForward<M, never>);
    return forward;
  }

  /** Overwrites parameters: all of them, or with `partial` those that are given. */
  uploadParams(values: ParamValues, options: { partial?: boolean } = {}): Promise<void> {
    return upload(this.#host, this.#model, values, options.partial ?? false, new Error());
  }

  /** The parameters in the form of the model. */
  downloadParams(): Promise<ParamTree<M>> {
    return downloadTree<M>(this.#host, this.#model, new Error());
  }

  /** The parameters by name, as `uploadParams` and `saveSafetensors` take them. */
  downloadParamsFlat(): Promise<Record<string, Float32Array>> {
    return downloadFlat(this.#host, this.#model, new Error());
  }

  /** Parameters and what the optimizer keeps, to go on from exactly here. */
  downloadState(): Promise<Sent[]> {
    return downloadState(this.#host, this.#model, new Error());
  }

  /** Takes over what `downloadState` gave. */
  async uploadState(state: readonly Sent[]): Promise<void> {
    const { data, transfer } = handed(state.map(({ dtype }) => dtype), state.map((tensor) => tensor.data));
    const tensors = state.map(({ name }, i): [string, Stored] => [name, data[i]!]);
    await this.#host.client.ask('upload', { session: this.#model.session, strict: true, tensors }, transfer, new Error());
  }

  /** Initial values again, of parameters and of what the optimizer keeps, unless one is left out. */
  async reset({ params = true, optimizer = true }: { params?: boolean; optimizer?: boolean } = {}): Promise<void> {
    await this.#host.client.ask('reset', { session: this.#model.session, params, optimizer }, [], new Error());
  }

  /** Another learning rate from the next step on; a schedule counts from there. */
  async setLR(rate: LR): Promise<void> {
    await this.#host.client.ask('rate', { program: this.#program, schedule: scheduleNumbers(rate) }, [], new Error());
  }

  /** The learning rate of the next step. */
  currentLR(): Promise<number> {
    return this.#host.client.ask('lr', { program: this.#program }, [], new Error());
  }

  /** What was compiled. */
  inspect(): Promise<Inspection> {
    return inspectProgram(this.#host.client, this.#program);
  }

  /** What is alive in the worker, for tests. */
  counters(): Promise<Counters> {
    return counters(this.#host);
  }

  /**
   * Another model, with the same loss and inputs. If it cannot be traced or compiled, the one before goes on.
   */
  async replaceModel(
    model: M, options: { seed?: number; optimizer?: OptimizerConfig; loss?: LossSpec<M, D>['loss'] } = {},
  ): Promise<void> {
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
      this.#model = made.model;
      this.#program = made.program;
      this.#captures = made.captures;
      await this.#host.client.ask('drop', { session: old }).catch(() => null);
    });
    this.#replacing = replaced.catch(() => undefined);
    return shown(() => replaced);
  }

  /**
   * Ends everything: what is pending is 'aborted', the worker and all it had on the GPU go. Gives what was
   * alive at the end.
   */
  destroy(): Promise<Counters | null> {
    this.#end ??= this.#host.client.close();
    for (const forward of this.#attached) void forward.destroy();
    return this.#end;
  }
}

/** A compiled loss. */
export interface Made {
  model: Model;
  program: number;
  captures: string[];
}

/** Traces a loss with its optimizer; throws what is wrong with either. */
export function traceLoss<M extends Module, D extends InputDecls>(
  core: Core, spec: LossSpec<M, D>, inputs: readonly Resolved[],
): Traced & { optimizer: number[] } {
  const traced = traceFunction<M, D>(core, {
    model: spec.model, inputs, run: spec.loss, training: true, decayFilter: spec.optimizer.decayFilter,
  });
  if (traced.params.every(({ frozen }) => frozen)) {
    throw fail('trace', traced.params.length > 0 ? 'all parameters of the model are frozen' : 'the model has no parameters',
      'declare some with this.param(..), or use compileForward(..)');
  }
  return { ...traced, optimizer: optimizerNumbers(spec.optimizer, spec, traced.params.map(({ name }) => name)) };
}

/** Compiles a traced loss in a worker. */
export async function compileLoss<M extends Module, D extends InputDecls>(
  host: Host, spec: LossSpec<M, D>, traced: Traced & { optimizer: number[] }, site: Error = new Error(),
): Promise<Made> {
  const seed = spec.seed ?? randomSeed();
  const { log, optimizer, params, aliases, captures } = traced;
  const { session, program } = await host.client
    .ask('compile', { log, seed, precision: spec.precision ?? 'f32', optimizer }, [log.commands.buffer as ArrayBuffer], site);
  return { program, captures, model: { instance: spec.model, params, aliases, session, seed } };
}

function destroyed(): GradloomError {
  return fail('destroyed', 'it was destroyed before', 'compile again to go on');
}

