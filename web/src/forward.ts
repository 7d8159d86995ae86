// Forward programs. In: a forward function with at most one wildcard extent. Out: `run`, which compiles on
// demand. Always holds: simultaneous calls with a new extent compile it once; at most `maxCachedShapes`
// extents are kept, and the others hold no buffers; replacing the model recompiles all of them.

import { DTYPES, isPlain, type Dtype } from './dtype.js';
import { fail, type GradloomError } from './errors.js';
import type { Host } from './host.js';
import { arrays, declared, filled, wildcard, type Declared, type InputDecls, type InputTensors, type Resolved, type TypedInputs } from './inputs.js';
import type { Module } from './module.js';
import { checkOptions, type Rules } from './options.js';
import { failed, runResult, type RunResult } from './results.js';
import { download, downloadOwn, handed, upload, uploadOwn, type Model, type ParamValues } from './session.js';
import { modelState, stateFrom, type TrainingState } from './state.js';
import type { Tensor } from './tensor.js';
import { shown, traceFunction, type Results } from './tracing.js';
import { graphOf, inspectProgram, type CompiledIR, type Inspection } from './inspect.js';
import type { Core } from './wasm.js';

/** A function of a model and its inputs that returns one tensor. */
export type ForwardFn<M extends Module, D extends InputDecls> = (model: M, inputs: InputTensors<D>) => Tensor;

/** A forward function of a model. */
export interface ForwardSpec<M extends Module, D extends InputDecls, O extends Dtype = 'f32'> {
  /** Function that returns a tensor, an array of tensors, or a record of tensors. */
  forward: (model: M, inputs: InputTensors<D>) => Results;
  /** Inputs; one extent, the same in all inputs, may be null. */
  inputs: D;
  /** Dtype of the (first) result; 'f32' by default. For a 16-bit dtype it is 'f32', the type of its array. */
  output?: O;
  /** Maximum number of extents that are kept compiled; 8 by default. */
  maxCachedShapes?: number;
}

/** Rules for the options of `ForwardSpec`. */
export const FORWARD_SPEC: Rules = { forward: 'any', inputs: 'any', output: DTYPES, maxCachedShapes: 'extent' };

/** Options of a run. */
export interface RunOptions {
  /** Cancels the run if it has not started. */
  signal?: AbortSignal;
  /** False to omit captured tensors from the result. */
  withCaptures?: boolean;
}

/** The owner of the parameters that a forward function reads. */
export interface Owner<M extends Module> {
  readonly host: Host;
  readonly core: Core;
  /** Current model; it changes when it is replaced. */
  model(): Model;
  instance(): M;
  destroyed(): boolean;
  /** True if the worker creates the parameters with the first program. */
  readonly late: boolean;
  /** Name of the function that the user called. */
  readonly where: string;
}

interface Variant {
  program: number;
  inputs: Resolved[];
  results: string[];
  captures: string[];
}

/** A compiled forward function, as returned by `attach` and `compileForward`. */
export interface CompiledForward<M extends Module = Module, D extends InputDecls = InputDecls, O extends Dtype = 'f32'> {
  /** Names of the parameters. */
  readonly paramNames: readonly string[];
  /** Seed of the initial values. */
  readonly seed: number;
  /** Resolves with the error if the device is lost. */
  readonly lost: Promise<GradloomError>;
  /** @internal Never set; carries the type of the model. */
  readonly model?: M;
  /** Compiles for an extent of the wildcard (null if there is none) before a run needs it. */
  prepare(extent?: number | null): Promise<void>;
  /** Runs the function on copies of these inputs. Never rejects: the result contains any error. */
  run(inputs: TypedInputs<D>, options?: RunOptions): Promise<RunResult<O>>;
  /** Returns the compiled program for these inputs. */
  inspect(inputs: TypedInputs<D>): Promise<Inspection>;
  /** Returns the graph for these inputs, and the compiled program. */
  graphFor(inputs: TypedInputs<D>): Promise<CompiledIR>;
  /**
   * Overwrites all parameters, or with `partial` only the given ones. They are shared with the training
   * program.
   */
  uploadParams(values: ParamValues, options?: { partial?: boolean }): Promise<void>;
  /** Returns the parameters by path. */
  downloadParams(): Promise<Record<string, Float32Array>>;
  /**
   * Returns the parameters and the model's states by name, with the seed: `saveSafetensors(state.tensors,
   * state.metadata)` writes a file of them. It contains nothing of an optimizer.
   */
  downloadState(): Promise<TrainingState>;
  /**
   * Restores the parameters and the model's states from a result of `downloadState`, or from a file of it,
   * including one of a training program. Restores all of them or none.
   */
  uploadState(state: TrainingState | ArrayBuffer | Uint8Array): Promise<void>;
  /** Resets the model's states to their initial values, but not the parameters. */
  resetStates(): Promise<void>;
  /** Drops the compiled programs; runs that have not started are aborted. */
  destroy(): Promise<void>;
}

/** Implementation of `attach` and `compileForward`. */
export class ForwardProgram<M extends Module, D extends InputDecls, O extends Dtype> implements CompiledForward<M, D, O> {
  readonly #owner: Owner<M>;
  readonly #spec: ForwardSpec<M, D, O>;
  readonly #inputs: Declared[];
  readonly #most: number;
  /** Programs by extent, least recently used first, for one session. */
  #variants = new Map<number | null, Promise<Variant>>();
  #session: number;
  #gone = false;
  /** True once a program was compiled. */
  #compiled = false;
  readonly #onDestroy: () => Promise<void>;

  constructor(owner: Owner<M>, spec: ForwardSpec<M, D, O>, onDestroy: () => Promise<void> = async () => undefined) {
    this.#owner = owner;
    this.#spec = spec;
    if (!owner.late) checkOptions(owner.where, spec, FORWARD_SPEC);
    this.#inputs = declared(spec.inputs);
    this.#most = spec.maxCachedShapes ?? 8;
    this.#session = owner.model().session;
    this.#onDestroy = onDestroy;
  }

  get paramNames(): readonly string[] {
    return this.#owner.model().params.map(({ name }) => name);
  }

  get seed(): number {
    return this.#owner.model().seed;
  }

  get lost(): Promise<GradloomError> {
    return this.#owner.host.client.lost;
  }

  /** @internal True if an extent is a wildcard. */
  get hasWildcard(): boolean {
    return this.#inputs.some(({ shape }) => shape.includes(null));
  }

  async prepare(extent: number | null = null): Promise<void> {
    await this.#variant(extent, new Error());
  }

  #variant(extent: number | null, site: Error): Promise<Variant> {
    const { session } = this.#owner.model();
    if (session !== this.#session) {
      // The replaced model's programs no longer exist.
      this.#session = session;
      this.#variants.clear();
    }
    let variant = this.#variants.get(extent);
    this.#variants.delete(extent);
    variant ??= this.#compile(extent, session, site);
    this.#variants.set(extent, variant);
    const made = variant;
    made.catch(() => {
      if (this.#variants.get(extent) === made) this.#variants.delete(extent);
    });
    while (this.#variants.size > this.#most) {
      const [oldest, dropped] = this.#variants.entries().next().value!;
      this.#variants.delete(oldest);
      this.#release(dropped);
    }
    return variant;
  }

  #release(variant: Promise<Variant>): void {
    const { client } = this.#owner.host;
    variant.then(({ program }) => client.ask('release', { program })).catch(() => undefined);
  }

  async #compile(extent: number | null, session: number, site: Error): Promise<Variant> {
    return shown(async () => {
      const inputs = filled(this.#inputs, extent);
      const { log, results, captures } = this.#traced(inputs);
      const { client } = this.#owner.host;
      const { program } = await client.ask('attach', { session, log }, [log.commands.buffer as ArrayBuffer], site);
      this.#compiled = true;
      return { program, inputs, results, captures };
    });
  }

  #traced(inputs: Resolved[]): ReturnType<typeof traceFunction> {
    const traced = traceFunction<M, D>(this.#owner.core, {
      model: this.#owner.instance(), inputs, run: this.#spec.forward, training: false, withoutValues: true,
    });
    checkOutput(this.#spec.output, traced.first);
    return traced;
  }

  async run(inputs: TypedInputs<D>, options: RunOptions = {}): Promise<RunResult<O>> {
    const site = new Error();
    if (this.#gone || this.#owner.destroyed() || options.signal?.aborted) return { kind: 'aborted' };
    let cancel: (() => void) | undefined;
    try {
      checkOptions('run', options, { signal: 'signal', withCaptures: 'flag' });
      const variant = this.#variant(wildcard(this.#inputs, inputs), site);
      // Copied now, since the caller may write to its arrays while this waits.
      const given = inputs as Readonly<Record<string, unknown>>;
      const taken = handed(this.#inputs.map(({ dtype }) => dtype), arrays(filled(this.#inputs, wildcard(this.#inputs, inputs)), given));
      const { program, results, captures } = await variant;
      if (this.#gone || options.signal?.aborted) return { kind: 'aborted' };
      const { client } = this.#owner.host;
      const reply = await client.ask('run', { program, inputs: taken.data }, taken.transfer, site, (id) => {
        cancel = () => client.cancel(id);
        options.signal?.addEventListener('abort', cancel, { once: true });
      });
      return reply.kind === 'completed' ? runResult<O>(reply.outputs, results, options.withCaptures === false ? [] : captures) : { kind: 'aborted' };
    } catch (thrown) {
      return failed(thrown);
    } finally {
      if (cancel) options.signal?.removeEventListener('abort', cancel);
    }
  }

  async inspect(inputs: TypedInputs<D>): Promise<Inspection> {
    const { program } = await this.#variant(wildcard(this.#inputs, inputs), new Error());
    return inspectProgram(this.#owner.host.client, program);
  }

  async graphFor(inputs: TypedInputs<D>): Promise<CompiledIR> {
    const inspection = await this.inspect(inputs);
    const { trace } = this.#traced(filled(this.#inputs, wildcard(this.#inputs, inputs)));
    const graph = graphOf(this.#owner.core, trace);
    return { ...inspection, graph, paramGrads: {}, loss: graph.tensors[graph.outputs[0]!]! };
  }

  async uploadParams(values: ParamValues, options: { partial?: boolean } = {}): Promise<void> {
    checkOptions('uploadParams', options, { partial: 'flag' });
    const site = new Error();
    await this.#store(site);
    return upload(this.#owner.host, this.#owner.model(), values, options.partial ?? false, site);
  }

  async downloadParams(): Promise<Record<string, Float32Array>> {
    const site = new Error();
    await this.#store(site);
    return download(this.#owner.host, this.#owner.model(), site);
  }

  async downloadState(): Promise<TrainingState> {
    const site = new Error();
    await this.#store(site);
    const model = this.#owner.model();
    return modelState(await downloadOwn(this.#owner.host, model, site), model.seed);
  }

  async uploadState(given: TrainingState | ArrayBuffer | Uint8Array): Promise<void> {
    const site = new Error();
    const state = stateFrom(given);
    await this.#store(site);
    return uploadOwn(this.#owner.host, this.#owner.model(), state, site);
  }

  async resetStates(): Promise<void> {
    const site = new Error();
    await this.#store(site);
    const { session } = this.#owner.model();
    await this.#owner.host.client.ask('reset', { session, params: false, states: true, optimizer: false }, [], site);
  }

  /** Ensures that there are parameters, which `compileForward` creates with the first program. */
  async #store(site: Error): Promise<void> {
    if (!this.#owner.late || this.#compiled) return;
    await (this.#variants.values().next().value ?? this.#variant(this.hasWildcard ? 1 : null, site));
  }

  async destroy(): Promise<void> {
    if (this.#gone) return;
    this.#gone = true;
    for (const variant of this.#variants.values()) this.#release(variant);
    this.#variants.clear();
    await this.#onDestroy();
  }

  /** @internal Throws if the function cannot be compiled. */
  async check(): Promise<this> {
    if (!this.hasWildcard) await this.prepare();
    if (this.#owner.destroyed()) throw fail('aborted', 'it was destroyed while it was compiled');
    return this;
  }
}

/** Throws if a result does not match `output`. */
export function checkOutput(output: Dtype | undefined, { dtype, shape }: { dtype: Dtype; shape: readonly number[] }): void {
  const told = isPlain(dtype) ? dtype : 'f32';
  const said = output === undefined || isPlain(output) ? output ?? 'f32' : 'f32';
  if (told === said) return;
  throw fail('trace', `the forward function gives ${dtype}[${shape.join(', ')}], and its output is ${output === undefined ? "'f32', as nothing else is said" : `'${output}'`}`,
    `say \`output: '${told}'\` beside \`forward\`, or cast the result`);
}
