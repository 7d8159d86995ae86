// Blocks and gradients inside a trace. In: tensors, alone or in arrays and records, and functions of them. Out:
// tensors in the same form. What always holds: a function is called once, while it is traced; a tensor that is
// made in it is used in it, or returned.

import { COMMAND } from './log.js';
import { Tensor } from './tensor.js';
import { currentTrace } from './trace.js';

/** Tensors: one, an array of groups, or a record of groups. */
export type TensorGroup = Tensor | readonly TensorGroup[] | { readonly [name: string]: TensorGroup };

/** The tensors of a group in order. */
function members(group: TensorGroup): Tensor[] {
  return group instanceof Tensor ? [group] : Object.values(group as Readonly<Record<string, TensorGroup>>).flatMap(members);
}

/** A group in the form of another, of these tensors in order. */
function regrouped<G extends TensorGroup>(group: G, tensors: Iterator<Tensor>): G {
  if (group instanceof Tensor) return tensors.next().value as G & Tensor;
  if (Array.isArray(group)) return group.map((part) => regrouped(part as TensorGroup, tensors)) as unknown as G;
  return Object.fromEntries(Object.entries(group).map(([name, part]) => [name, regrouped(part as TensorGroup, tensors)])) as unknown as G;
}

/**
 * Gradients of a single f32 with respect to tensors of the same trace: inputs, parameters, anything between. A
 * tensor that it does not depend on gets zeros. Not inside `checkpoint` and `scan`.
 */
export function gradients<const T extends readonly Tensor[]>(loss: Tensor, of: T): { -readonly [K in keyof T]: Tensor } {
  const trace = currentTrace('gradients');
  return trace.several(COMMAND.gradients, [trace.id(loss, 'gradients'), ...of.map((tensor) => trace.id(tensor, 'gradients'))], of.length) as { -readonly [K in keyof T]: Tensor };
}

/**
 * Computes a part of the model, of which only the results are kept for the backward pass: the rest is computed
 * again there. Less memory for more time, and the same bits.
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
 * Runs a function `steps` times over tensors that it carries along and slices of tensors that are stacked along
 * their first axis, which has the extent `steps`. The function takes what is carried, as the step before left it,
 * and the slices, and gives the next carried tensors, of the same types, and outputs. The result is what is
 * carried at the end, and the outputs stacked along a new first axis.
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
