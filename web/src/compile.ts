// Entry points. In: a model with a loss or a forward function. Out: a compiled program in a worker, or
// (`trace`) a description of it. Always holds: the user's function is traced on the caller's thread, so that
// its errors have the user's stack; all slow work happens in the worker, except in `trace` (with a GPU in
// Node.js, on the caller's thread).

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

/** Device to run a program on. */
export interface WhereSpec {
  /**
   * 'webgpu', 'cpu', or 'auto' (the default): WebGPU, or the CPU if WebGPU is missing or only emulated in
   * software.
   */
  device?: Device;
  /** Limits the program to WebGPU's default limits, so that kernels are the same on every device. */
  portable?: boolean;
  /** Aborts the compilation. */
  signal?: AbortSignal;
}

/** Options of `compile`. */
export type TrainingSpec<M extends Module, D extends InputDecls> = LossSpec<M, D> & WhereSpec;

/** Options of `compileForward`. */
export type ForwardExecutorSpec<M extends Module, D extends InputDecls, O extends Dtype = 'f32'> = ForwardSpec<M, D, O> & WhereSpec & {
  model: M;
  /** Seed of the initial values; random by default. */
  seed?: number;
  /** Precision of the computation; 'f32' by default. */
  precision?: Precision;
};

const WHERE: Rules = { device: ['auto', 'webgpu', 'cpu'], portable: 'flag', signal: 'signal' };

/** Replacements for option names of other libraries, and of older versions of tensorgrad. */
const INSTEAD = {
  adam: "write optimizer: { kind: 'adam', .. }", adamw: "write optimizer: { kind: 'adamw', .. }", sgd: "write optimizer: { kind: 'sgd', .. }",
  lr: "it is an option of the optimizer: { kind: 'adam', lr: .. }", factory: 'write model: new MyModel()',
  withCaptures: 'captures are always read back; step(..) and run(..) take withCaptures',
};

/** Throws if the options of a compilation are invalid. */
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

/** Returns the error of an aborted compilation, with the signal's reason as its cause. */
function aborted(signal: AbortSignal): Error {
  return new GradloomError({ kind: 'aborted', message: 'the compilation was aborted' }, { cause: signal.reason });
}

/** Starts a worker while the model is traced, and closes it if tracing fails. */
async function hosted<R>(where: WhereSpec, work: (core: Core, host: Promise<Host>) => Promise<R>): Promise<R> {
  const { device = 'auto', portable = false, signal } = where;
  if (signal?.aborted) throw aborted(signal);
  const first = chosen(device);
  const host = first.then((chosen) => startHost(device, chosen, portable));
  host.catch(() => undefined);
  // If the module of the chosen device is missing, the host may have started with the other device.
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
    // The abort determines the error, whatever it interrupted.
    throw signal?.aborted ? aborted(signal) : thrown;
  } finally {
    signal?.removeEventListener('abort', end);
  }
}

/**
 * Compiles a training step: loss, gradients, optimizer. Rejects with the kind 'trace' if the model, the loss
 * or an option is wrong, 'unsupported' if `device: 'webgpu'` is not available, 'device' if the device fails,
 * or 'plan' if the memory budget is too small.
 */
export async function compile<M extends Module, const D extends InputDecls>(
  spec: TrainingSpec<M, D> & { loss: LossSpec<M, NoInfer<D>>['loss'] },
): Promise<CompiledTraining<M, D>> {
  checkSpec('compile', spec, { ...LOSS_SPEC, ...WHERE });
  const site = new Error();
  return hosted(spec, async (core, starting) => {
    const inputs = withoutWildcards(declared(spec.inputs));
    // Tracing is finished before anything else can trace on this instance.
    const traced = traceLoss<M, D>(core, spec, inputs);
    const host = await starting;
    return new TrainingProgram<M, D>(host, core, spec, inputs, await compileLoss(host, spec, traced, site));
  });
}

/** Compiles a forward function with a model of its own. */
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
 * Describes the result of `compile` without a GPU or a worker, on this thread: the graph of the loss and its
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

/** Describes the result of `compileForward` without a GPU or a worker, on this thread. */
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
