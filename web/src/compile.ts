// Entry points. In: a model with a loss or a forward function. Out: a compiled program in a worker, or
// (`trace`) what it would be. What always holds: the user's function is traced on the caller's thread, so
// that its errors have the user's stack; everything that takes long happens in the worker, except in `trace` (for a GPU in Node.js
// the caller's thread serves).

import type { Dtype } from './dtype.js';
import { checkOutput, FORWARD_SPEC, ForwardProgram, type CompiledForward, type ForwardSpec } from './forward.js';
import { fail, GradloomError } from './errors.js';
import { chosen, showingCore, startHost, tracingCore, type Device, type Host } from './host.js';
import { declared, withoutWildcards, type InputDecls } from './inputs.js';
import { graphOf, type CompiledIR } from './inspect.js';
import { Module, walk } from './module.js';
import { checkOptions, type Rules } from './options.js';
import { randomSeed, type Model } from './session.js';
import { compileLoss, LOSS_SPEC, lossIR, plan, TrainingProgram, type CompiledTraining, type LossSpec } from './train.js';
import { traceLoss } from './train.js';
import { declareModel, shown, traceFunction } from './tracing.js';
import { PRECISIONS, type Core, type Precision } from './wasm.js';

/** Where a program runs. */
export interface WhereSpec {
  /** 'webgpu', 'cpu', or (the default) 'auto': WebGPU, or the CPU where there is none, or only one in software. */
  device?: Device;
  /** Asks for no more than WebGPU's default limits, so that kernels are the same everywhere. */
  portable?: boolean;
  /** Ends the compilation. */
  signal?: AbortSignal;
}

/** What `compile` takes. */
export type TrainingSpec<M extends Module, D extends InputDecls> = LossSpec<M, D> & WhereSpec;

/** What `compileForward` takes. */
export type ForwardExecutorSpec<M extends Module, D extends InputDecls, O extends Dtype = 'f32'> = ForwardSpec<M, D, O> & WhereSpec & {
  model: M;
  /** Seeds initial values; a random one if not given. */
  seed?: number;
  /** What it computes in; 'f32' if not given. */
  precision?: Precision;
};

const WHERE: Rules = { device: ['auto', 'webgpu', 'cpu'], portable: 'flag', signal: 'signal' };

/** What to write for names of other libraries, and of older versions of tensorgrad. */
const INSTEAD = {
  adam: "write optimizer: { kind: 'adam', .. }", adamw: "write optimizer: { kind: 'adamw', .. }", sgd: "write optimizer: { kind: 'sgd', .. }",
  lr: "it is an option of the optimizer: { kind: 'adam', lr: .. }", factory: 'write model: new MyModel()',
  withCaptures: 'captures are always read back; step(..) and run(..) take withCaptures',
};

/** Fails if what is to be compiled is not what it should be. */
function checkSpec(where: string, spec: unknown, known: Rules): void {
  checkOptions(where, spec, known, INSTEAD);
  const { model, loss, forward, inputs } = (spec ?? {}) as Record<string, unknown>;
  const name = 'loss' in known ? 'loss' : 'forward';
  if (!(model instanceof Module)) {
    throw fail('trace', `${where}: the model is ${typeof model === 'function' ? 'a class or a function' : String(model)}`, 'write model: new MyModel(), of a class that extends Module');
  }
  if (typeof (loss ?? forward) !== 'function') throw fail('trace', `${where}: \`${name}\` is ${String(loss ?? forward)}, not a function`);
  if (typeof inputs !== 'object' || inputs === null) throw fail('trace', `${where}: \`inputs\` is ${String(inputs)}`, 'write inputs: { x: [32, 1] }');
}

/** The error of a compilation whose signal was aborted, with the signal's reason as its cause. */
function aborted(signal: AbortSignal): Error {
  return new GradloomError({ kind: 'aborted', message: 'the compilation was aborted' }, { cause: signal.reason });
}

/** Starts a worker while something is traced; without the worker if tracing fails. */
async function hosted<R>(where: WhereSpec, work: (core: Core, host: Promise<Host>) => Promise<R>): Promise<R> {
  const { device = 'auto', portable = false, signal } = where;
  if (signal?.aborted) throw aborted(signal);
  const first = chosen(device);
  const host = first.then((chosen) => startHost(device, chosen, portable));
  host.catch(() => undefined);
  // Its module may be missing, where another device was taken then.
  const core = first.then(tracingCore).catch(async () => tracingCore((await host).device));
  core.catch(() => undefined);
  const end = () => { host.then(({ client }) => client.close()).catch(() => undefined); };
  signal?.addEventListener('abort', end, { once: true });
  try {
    const made = await shown(async () => work(await core, host));
    if (signal?.aborted) throw aborted(signal);
    return made;
  } catch (thrown) {
    end();
    // Whatever it was that the abort met.
    throw signal?.aborted ? aborted(signal) : thrown;
  } finally {
    signal?.removeEventListener('abort', end);
  }
}

/**
 * Compiles a training step: loss, gradients, optimizer. Rejects with the kind 'trace' where the model, the loss or
 * an option is wrong, 'unsupported' where `device: 'webgpu'` is wanted and there is none, 'device' where the device
 * refuses, 'plan' where the memory budget cannot be met.
 */
export async function compile<M extends Module, const D extends InputDecls>(
  spec: TrainingSpec<M, D> & { loss: LossSpec<M, NoInfer<D>>['loss'] },
): Promise<CompiledTraining<M, D>> {
  checkSpec('compile', spec, { ...LOSS_SPEC, ...WHERE });
  const site = new Error();
  return hosted(spec, async (core, starting) => {
    const inputs = withoutWildcards(declared(spec.inputs));
    // The trace is done before anything else can trace on this instance.
    const traced = traceLoss<M, D>(core, spec, inputs);
    const host = await starting;
    return new TrainingProgram<M, D>(host, core, spec, inputs, await compileLoss(host, spec, traced, site));
  });
}

/** Compiles a forward function over a model of its own. */
export async function compileForward<M extends Module, const D extends InputDecls, O extends Dtype = 'f32'>(
  spec: ForwardExecutorSpec<M, D, O> & { forward: ForwardSpec<M, NoInfer<D>, O>['forward'] },
): Promise<CompiledForward<M, D, O>> {
  checkSpec('compileForward', spec, { ...FORWARD_SPEC, ...WHERE, model: 'any', seed: 'whole', precision: PRECISIONS });
  const site = new Error();
  return hosted(spec, async (core, starting) => {
    const seed = spec.seed ?? randomSeed();
    const { log, params, aliases } = declareModel(core, spec.model);
    const host = await starting;
    const { session } = await host.client.ask('compile', { log, seed, precision: spec.precision ?? 'f32', optimizer: null }, [log.commands.buffer as ArrayBuffer], site);
    const model: Model = { instance: spec.model, params, aliases, session, seed };
    let end = false;
    const forward = new ForwardProgram<M, D, O>(
      { host, core, model: () => model, instance: () => spec.model, destroyed: () => end, late: true, where: 'compileForward' }, spec,
      async () => {
        end = true;
        await host.client.close();
      },
    );
    return forward.check();
  });
}

/**
 * What `compile` would make, without a GPU and without a worker, on this thread: the graph of the loss with the
 * gradients, and the plan and the kernels of the step.
 */
export async function trace<M extends Module, const D extends InputDecls>(
  spec: TrainingSpec<M, D> & { loss: LossSpec<M, NoInfer<D>>['loss'] },
): Promise<CompiledIR & { paramNames: string[] }> {
  checkSpec('trace', spec, { ...LOSS_SPEC, ...WHERE });
  return shown(async () => {
    const core = await showingCore();
    const ir = lossIR<M, D>(core, spec, withoutWildcards(declared(spec.inputs)));
    return { ...ir, paramNames: walk(spec.model).params.map(({ name }) => name) };
  });
}

/** What `compileForward` would make, without a GPU and without a worker, on this thread. */
export async function traceForward<M extends Module, const D extends InputDecls, O extends Dtype = 'f32'>(
  spec: ForwardExecutorSpec<M, D, O> & { forward: ForwardSpec<M, NoInfer<D>, O>['forward'] },
): Promise<CompiledIR & { paramNames: string[] }> {
  checkSpec('traceForward', spec, { ...FORWARD_SPEC, ...WHERE, model: 'any', seed: 'whole', precision: PRECISIONS });
  return shown(async () => {
    const core = await showingCore();
    const inputs = declared(spec.inputs);
    if (inputs.some(({ shape }) => shape.includes(null))) throw fail('trace', 'traceForward takes fixed shapes, no null');
    const traced = traceFunction<M, D>(core, {
      model: spec.model, inputs: withoutWildcards(inputs), run: spec.forward, training: false,
    });
    checkOutput(spec.output, traced.first);
    const graph = graphOf(core, traced.trace);
    const planned = plan(core, 0, (session) => core.forward(session, traced.trace));
    return {
      ...planned, graph, paramGrads: {}, loss: graph.tensors[graph.outputs[0]!]!, paramNames: traced.params.map(({ name }) => name),
    };
  });
}
