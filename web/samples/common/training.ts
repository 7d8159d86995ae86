// What every sample has: its options, a description of what is trained, and the loop over the steps.

import type { CompiledTraining, Device, InputDecls, LossSpec, Module, TypedInputs } from 'gradloom';

/** What `run` of a sample takes. */
export interface Options {
  /** 'webgpu', 'cpu' or 'auto', as `compile` takes it. */
  device?: Device;
  /** Steps of the training; as many as the stated result needs, if not given. */
  steps?: number;
  /** Is called after each step, which are counted from 0. */
  onStep?: (step: number, loss: number) => void;
}

/** A model with its loss, inputs and optimizer; the function is there for their types. */
export function program<M extends Module, const D extends InputDecls>(
  spec: LossSpec<M, D> & { loss: LossSpec<M, NoInfer<D>>['loss'] },
): LossSpec<M, D> {
  return spec;
}

/** The result of a step or a run that was completed; throws what went wrong with another. */
export function completed<R extends { kind: string }>(result: R): Extract<R, { kind: 'completed' }> {
  if (result.kind === 'completed') return result as Extract<R, { kind: 'completed' }>;
  throw 'error' in result ? result.error : new Error(`the program was ${result.kind}`);
}

/** Trains, each step with a batch of its own. Gives the mean loss of the last tenth of the steps. */
export async function learn<M extends Module, D extends InputDecls>(
  train: CompiledTraining<M, D>, steps: number, batch: () => TypedInputs<D>, onStep?: Options['onStep'],
): Promise<number> {
  const last: number[] = [];
  for (let step = 0; step < steps; step++) {
    const { loss } = completed(await train.step(batch()));
    if (step >= Math.floor(0.9 * steps)) last.push(loss);
    onStep?.(step, loss);
  }
  return last.reduce((a, b) => a + b, 0) / last.length;
}
