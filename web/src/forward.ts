// Forward programs. In: a forward function with one wildcard extent at most. Out: `run`, which compiles on
// demand. What always holds: calls that come at once with a new extent compile it once; at most
// `maxCachedShapes` extents are kept, the rest leaves no buffer; a replaced model makes them all compile
// again.

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

/** A function of a model and its inputs that gives one tensor. */
export type ForwardFn<M extends Module, D extends InputDecls> = (model: M, inputs: InputTensors<D>) => Tensor;

/** A forward function over a model. */
export interface ForwardSpec<M extends Module, D extends InputDecls, O extends Dtype = 'f32'> {
  /** Gives a tensor, an array of tensors, or a record of tensors. */
  forward: (model: M, inputs: InputTensors<D>) => Results;
  /** Inputs; one extent, the same in all, may be null. */
  inputs: D;
  /** The dtype of the (first) result; 'f32' if not given. One of 16 bits is 'f32', as its array is. */
  output?: O;
  /** Extents that are kept compiled; 8 if not given. */
  maxCachedShapes?: number;
}

/** Options of `ForwardSpec`. */
export const FORWARD_SPEC: Rules = { forward: 'any', inputs: 'any', output: DTYPES, maxCachedShapes: 'extent' };

/** What a run can vary. */
export interface RunOptions {
  /** Cancels the run if it was not begun. */
  signal?: AbortSignal;
  /** false: what was captured is not in the result. */
  withCaptures?: boolean;
}

/** Who owns the parameters that a forward function reads. */
export interface Owner<M extends Module> {
  readonly host: Host;
  readonly core: Core;
  /** The model now; it changes when it is replaced. */
  model(): Model;
  instance(): M;
  destroyed(): boolean;
  /** Whether the worker makes the parameters with the first program only. */
  readonly late: boolean;
  /** Which function of ours the user called. */
  readonly where: string;
}

interface Variant {
  program: number;
  inputs: Resolved[];
  results: string[];
  captures: string[];
}

/** A compiled forward function: what `attach` and `compileForward` give. */
export interface CompiledForward<M extends Module = Module, D extends InputDecls = InputDecls, O extends Dtype = 'f32'> {
  /** Names of the parameters. */
  readonly paramNames: readonly string[];
  /** The seed of the initial values. */
  readonly seed: number;
  /** Settles if the device is lost. */
  readonly lost: Promise<GradloomError>;
  /** @internal Never there: it says which model it is of. */
  readonly model?: M;
  /** Compiles for an extent of the wildcard (null where there is none), before a run needs it. */
  prepare(extent?: number | null): Promise<void>;
  /** Runs the function on these inputs, which are copied. It never rejects: what went wrong is in the result. */
  run(inputs: TypedInputs<D>, options?: RunOptions): Promise<RunResult<O>>;
  /** What was compiled for these inputs. */
  inspect(inputs: TypedInputs<D>): Promise<Inspection>;
  /** The graph for these inputs, and what was compiled for it. */
  graphFor(inputs: TypedInputs<D>): Promise<CompiledIR>;
  /**
   * Overwrites parameters: all of them, or with `partial` those that are given. They are shared with the training.
   */
  uploadParams(values: ParamValues, options?: { partial?: boolean }): Promise<void>;
  /** The parameters by path. */
  downloadParams(): Promise<Record<string, Float32Array>>;
  /**
   * The parameters and the model's states by name, with the seed: `saveSafetensors(state.tensors, state.metadata)` makes a
   * file of them. Nothing of an optimizer is in it.
   */
  downloadState(): Promise<TrainingState>;
  /**
   * Takes over parameters and the model's states of what `downloadState` gave, or of a file of it, also of a training:
   * all of them or nothing.
   */
  uploadState(state: TrainingState | ArrayBuffer | Uint8Array): Promise<void>;
  /** Sets the model's states to their initial values; parameters stay. */
  resetStates(): Promise<void>;
  /** Drops the compiled programs; runs that were not begun are aborted. */
  destroy(): Promise<void>;
}

/** What `attach` and `compileForward` make. */
export class ForwardProgram<M extends Module, D extends InputDecls, O extends Dtype> implements CompiledForward<M, D, O> {
  readonly #owner: Owner<M>;
  readonly #spec: ForwardSpec<M, D, O>;
  readonly #inputs: Declared[];
  readonly #most: number;
  /** By extent, the least recently used first; made for one session. */
  #variants = new Map<number | null, Promise<Variant>>();
  #session: number;
  #gone = false;
  /** Whether any program was. */
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

  /** @internal Whether one extent is open. */
  get hasWildcard(): boolean {
    return this.#inputs.some(({ shape }) => shape.includes(null));
  }

  async prepare(extent: number | null = null): Promise<void> {
    await this.#variant(extent, new Error());
  }

  #variant(extent: number | null, site: Error): Promise<Variant> {
    const { session } = this.#owner.model();
    if (session !== this.#session) {
      // The programs went with the model that was replaced.
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
      // Taken now: the caller may write to its arrays while this waits.
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

  /** Sees to it that there are parameters: a model of its own has them with its first program. */
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

  /** @internal Fails if the function cannot be compiled. */
  async check(): Promise<this> {
    if (!this.hasWildcard) await this.prepare();
    if (this.#owner.destroyed()) throw fail('aborted', 'it was destroyed while it was compiled');
    return this;
  }
}

/** Fails if a result is not what `output` says. */
export function checkOutput(output: Dtype | undefined, { dtype, shape }: { dtype: Dtype; shape: readonly number[] }): void {
  const told = isPlain(dtype) ? dtype : 'f32';
  const said = output === undefined || isPlain(output) ? output ?? 'f32' : 'f32';
  if (told === said) return;
  throw fail('trace', `the forward function gives ${dtype}[${shape.join(', ')}], and its output is ${output === undefined ? "'f32', as nothing else is said" : `'${output}'`}`,
    `say \`output: '${told}'\` beside \`forward\`, or cast the result`);
}
