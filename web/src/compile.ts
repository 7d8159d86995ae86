// Entry points. In: a model with a loss or a forward function. Out: a compiled program in a worker, or
// (`trace`) what it would be. What always holds: the user's function is traced on the caller's thread, so
// that its errors have the user's stack; everything that takes long happens in the worker, except in `trace`.

import { CompiledForward, type ForwardSpec } from './forward.js';
import { fail } from './errors.js';
import { startHost, tracingCore, type Device, type Host } from './host.js';
import { declared, withoutWildcards, type InputDecls } from './inputs.js';
import { inspectHere, type Inspection } from './inspect.js';
import type { Module } from './module.js';
import { randomSeed, type Model } from './session.js';
import { compileLoss, CompiledTraining, traceLoss, type LossSpec } from './train.js';
import { declareModel, shown, traceFunction } from './tracing.js';
import type { Core, Precision } from './wasm.js';

/** Where a program runs. */
export interface WhereSpec {
  /** 'webgpu', 'cpu', or (the default) 'auto': WebGPU, or the CPU where there is none. */
  device?: Device;
  /** Asks for no more than WebGPU's default limits, so that kernels are the same everywhere. */
  portable?: boolean;
  /** Ends the compilation. */
  signal?: AbortSignal;
}

/** What `compile` takes. */
export type TrainingSpec<M extends Module, D extends InputDecls> = LossSpec<M, D> & WhereSpec;

/** What `compileForward` takes. */
export type StandaloneForwardSpec<M extends Module, D extends InputDecls> = ForwardSpec<M, D> & WhereSpec & {
  model: M;
  /** Seeds initial values; a random one if not given. */
  seed?: number;
  /** What it computes in; 'f32' if not given. */
  precision?: Precision;
};

/** Starts a worker while something is traced; without the worker if tracing fails. */
async function hosted<R>(where: WhereSpec, work: (core: Core, host: Promise<Host>) => Promise<R>): Promise<R> {
  const { device = 'auto', portable = false, signal } = where;
  signal?.throwIfAborted();
  const host = startHost(device, portable);
  host.catch(() => undefined);
  const end = () => { host.then(({ client }) => client.close()).catch(() => undefined); };
  signal?.addEventListener('abort', end, { once: true });
  try {
    return await shown(async () => work(await tracingCore(device), host));
  } catch (thrown) {
    end();
    throw thrown;
  } finally {
    signal?.removeEventListener('abort', end);
  }
}

/** Compiles a training step: loss, gradients, optimizer. */
export async function compile<M extends Module, const D extends InputDecls>(
  spec: TrainingSpec<M, D> & { loss: LossSpec<M, NoInfer<D>>['loss'] },
): Promise<CompiledTraining<M, D>> {
  const site = new Error();
  return hosted(spec, async (core, starting) => {
    const inputs = withoutWildcards(declared(spec.inputs));
    // The trace is done before anything else can trace on this instance.
    const traced = traceLoss<M, D>(core, spec, inputs);
    const host = await starting;
    return new CompiledTraining<M, D>(host, core, spec, inputs, await compileLoss(host, spec, traced, site));
  });
}

/** Compiles a forward function over a model of its own. */
export async function compileForward<M extends Module, const D extends InputDecls>(
  spec: StandaloneForwardSpec<M, D> & { forward: ForwardSpec<M, NoInfer<D>>['forward'] },
): Promise<CompiledForward<M, D>> {
  const site = new Error();
  return hosted(spec, async (core, starting) => {
    const seed = spec.seed ?? randomSeed();
    const { log, params, aliases } = declareModel(core, spec.model);
    const host = await starting;
    const { session } = await host.client.ask('compile', { log, seed, precision: spec.precision ?? 'f32', optimizer: null }, [log.commands.buffer as ArrayBuffer], site);
    const model: Model = { instance: spec.model, params, aliases, session, seed };
    let end = false;
    const forward = new CompiledForward<M, D>(
      { host, core, model: () => model, instance: () => spec.model, destroyed: () => end, late: true }, spec,
      async () => {
        end = true;
        await host.client.close();
      },
    );
    return forward.check();
  });
}

/** What `compile` would make, without a GPU and without a worker, on this thread. */
export async function trace<M extends Module, const D extends InputDecls>(
  spec: LossSpec<M, D> & { loss: LossSpec<M, NoInfer<D>>['loss'] },
): Promise<Inspection & { paramNames: string[] }> {
  return shown(async () => {
    const core = await tracingCore();
    const traced = traceLoss<M, D>(core, spec, withoutWildcards(declared(spec.inputs)));
    const planned = plan(core, spec.seed ?? 0, (session) => core.train(session, traced.trace, traced.optimizer));
    return { ...planned, paramNames: traced.params.map(({ name }) => name) };
  });
}

/** What `compileForward` would make, without a GPU and without a worker, on this thread. */
export async function traceForward<M extends Module, const D extends InputDecls>(
  spec: ForwardSpec<M, D> & { model: M; forward: ForwardSpec<M, NoInfer<D>>['forward'] },
): Promise<Inspection & { paramNames: string[] }> {
  return shown(async () => {
    const core = await tracingCore();
    const inputs = declared(spec.inputs);
    if (inputs.some(({ shape }) => shape.includes(null))) throw fail('trace', 'traceForward takes fixed shapes, no null');
    const traced = traceFunction<M, D>(core, {
      model: spec.model, inputs: withoutWildcards(inputs), run: spec.forward, training: false,
    });
    const planned = plan(core, 0, (session) => core.forward(session, traced.trace));
    return { ...planned, paramNames: traced.params.map(({ name }) => name) };
  });
}

function plan(core: Core, seed: number, program: (session: number) => number): Inspection {
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
