// Blocks and gradients inside a trace. In: tensors, alone or in arrays and records, and functions of them.
// Out: tensors in the same structure. Always holds: a function is called once, while it is traced; a tensor
// created in it is used inside, or returned.

import { COMMAND } from './log.js';
import { Tensor } from './tensor.js';
import { currentTrace } from './trace.js';

/** A tensor, an array of groups, or a record of groups. */
export type TensorGroup = Tensor | readonly TensorGroup[] | { readonly [name: string]: TensorGroup };

/** Returns the tensors of a group in order. */
function members(group: TensorGroup): Tensor[] {
  return group instanceof Tensor ? [group] : Object.values(group as Readonly<Record<string, TensorGroup>>).flatMap(members);
}

/** Returns a group with the structure of another, filled with these tensors in order. */
function regrouped<G extends TensorGroup>(group: G, tensors: Iterator<Tensor>): G {
  if (group instanceof Tensor) return tensors.next().value as G & Tensor;
  if (Array.isArray(group)) return group.map((part) => regrouped(part as TensorGroup, tensors)) as unknown as G;
  return Object.fromEntries(Object.entries(group).map(([name, part]) => [name, regrouped(part as TensorGroup, tensors)])) as unknown as G;
}

/**
 * Returns the gradients of an f32 scalar with respect to tensors of the same trace: inputs, parameters, or
 * intermediate values. The gradient is zero for a tensor that the scalar does not depend on. Not allowed
 * inside `checkpoint` and `scan`.
 */
export function gradients<const T extends readonly Tensor[]>(loss: Tensor, of: T): { -readonly [K in keyof T]: Tensor } {
  const trace = currentTrace('gradients');
  return trace.several(COMMAND.gradients, [trace.id(loss, 'gradients'), ...of.map((tensor) => trace.id(tensor, 'gradients'))], of.length) as { -readonly [K in keyof T]: Tensor };
}

/**
 * Computes a part of the model without keeping its intermediate values for the backward pass, which
 * recomputes them. This takes less memory and more time; the results are bit-identical.
 */
export function checkpoint<R extends TensorGroup>(f: () => R): R {
  const trace = currentTrace('checkpoint');
  trace.several(COMMAND.checkpoint, [], 0);
  return trace.block('checkpoint', () => {
    const results = f();
    return [results, members(results)] as const;
  }, ([results, all]) => {
    const ids = all.map((tensor) => trace.id(tensor, 'checkpoint'));
    return regrouped(results, trace.several(COMMAND.endCheckpoint, ids, all.length).values());
  });
}

/**
 * Calls a function for each of `steps` steps, with carried tensors and slices of stacked tensors, whose first
 * axis has the extent `steps`. The function takes the tensors carried from the previous step and the slices,
 * and returns the next carried tensors, of the same types, and outputs. The result is the final carried
 * tensors, and the outputs stacked along a new first axis.
 */
export function scan<C extends TensorGroup, S extends TensorGroup, O extends TensorGroup>(
  steps: number, carried: C, stacked: S, f: (carried: C, slices: S) => readonly [carried: C, outputs: O],
): [carried: C, outputs: O] {
  const trace = currentTrace('scan');
  const ids = (group: TensorGroup) => {
    const all = members(group).map((tensor) => trace.id(tensor, 'scan'));
    return [all.length, ...all];
  };
  const [initial, stacks] = [ids(carried), ids(stacked)];
  const inside = trace.several(COMMAND.scan, [steps, ...initial, ...stacks], initial.length + stacks.length - 2).values();
  return trace.block('scan', () => f(regrouped(carried, inside), regrouped(stacked, inside)), (result) => {
    const [last, outputs] = result;
    const [after, made] = [ids(last), ids(outputs)];
    if (after.length !== initial.length) {
      throw trace.wrong(`\`scan\` begins with ${initial.length - 1} carried tensors, and its function gives ${after.length - 1}`,
        'it gives [carried, outputs], with the carried tensors in the form in which it got them');
    }
    const all = trace.several(COMMAND.endScan, [...after, ...made], after.length + made.length - 2).values();
    return [regrouped(last, all), regrouped(outputs, all)];
  });
}
