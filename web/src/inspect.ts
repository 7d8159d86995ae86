// Inspection. In: a program of a worker, or a traced function. Out: the graph as a value; its text before and
// after the passes, the plan, the kernels, statistics. Always holds: nothing is run.

import type { Dtype } from './dtype.js';
import type { Origin } from './errors.js';
import type { Client } from './protocol.js';
import { Tensor, type CallSite } from './tensor.js';
import type { Core } from './wasm.js';

/** A kernel. */
export interface Kernel {
  label: string;
  /** Source text in WGSL. */
  source: string;
  workgroups: [number, number, number];
}

/** Statistics of a program. */
export interface Counts {
  /**
   * Number of threads that compute; more than one only on the CPU, on a page that is cross-origin isolated.
   */
  threads: number;
  launches: number;
  dispatches: number;
  pipelines: number;
  passes: number;
  submits: number;
  /** Memory that a step needs, including parameters and states. */
  bytes: number;
  /** Memory that was allocated. */
  allocated: number;
  /** Memory of parameters and states. */
  store: number;
}

/** A description of a program. */
export interface Inspection {
  /** The graph as it was traced, as text. */
  traced: string;
  /** The graph with the backward pass and the optimizer, after the passes. */
  passes: string;
  /** The plan as a value. */
  plan: unknown;
  kernels: Kernel[];
  counts: Counts;
}

const PARTS = ['traced', 'passes', 'plan', 'kernels', 'counts'] as const;

function assembled(texts: readonly string[]): Inspection {
  const [traced, passes, plan, kernels, counts] = texts as [string, string, string, string, string];
  return {
    traced, passes, plan: JSON.parse(plan) as unknown,
    kernels: JSON.parse(kernels) as Kernel[], counts: JSON.parse(counts) as Counts,
  };
}

/** Describes a program of a worker. */
export async function inspectProgram(client: Client, program: number): Promise<Inspection> {
  return assembled(await Promise.all(PARTS.map((what) => client.ask('inspect', { program, what }))));
}

/** Describes a program of an instance on this thread. */
export function inspectHere(core: Core, program: number): Inspection {
  return assembled(PARTS.map((what) => core.inspect(program, what)));
}

/** An op of a graph. One that runs a block (`checkpoint`, `scan`) is a single op. */
export interface OpNode {
  /** The compiler's name of the op. */
  readonly kind: string;
  /** Name of an input, a parameter or a state, else null. */
  readonly name: string | null;
  /** Ids of the operands, in reading order. */
  readonly inputs: readonly number[];
  /** Id of the (first) result. */
  readonly out: number;
  /** Ids of all results. */
  readonly outs: readonly number[];
  /** The op with its attributes, in the text form of graphs. */
  readonly text: string;
  /** Location of the user's call. */
  readonly site: CallSite | null;
}

/** A graph as a value: ops in an order in which they can run, and their results by id. */
export interface Graph {
  readonly ops: readonly OpNode[];
  readonly tensors: readonly Tensor[];
  /** Ids of the results. */
  readonly outputs: readonly number[];
  /** Ids of the captured tensors, by name. */
  readonly captures: ReadonlyMap<string, number>;
}

/** Result of `trace`, `traceForward` and `graphFor`. */
export interface CompiledIR extends Inspection {
  /** The graph; that of a loss includes the gradients of all parameters. */
  readonly graph: Graph;
  /** For a loss, the gradient of each parameter by name, as a tensor of the graph. */
  readonly paramGrads: Readonly<Record<string, Tensor>>;
  /** The loss, or the first result, as a tensor of the graph. */
  readonly loss: Tensor;
}

/** Returns the ids of an op's operands, in reading order. */
export function getOpInputs(op: OpNode): number[] {
  return [...op.inputs];
}

interface RawGraph {
  ops: { kind: string; name: string | null; text: string; inputs: number[]; outs: number[]; origin: Origin | null }[];
  tensors: { dtype: Dtype; shape: number[]; source: number }[];
  results: number[];
  captures: { name: string; value: number }[];
}

/** Returns a trace of an instance on this thread, which must not have been compiled. */
export function graphOf(core: Core, trace: number): Graph {
  const raw = JSON.parse(core.graph(trace)) as RawGraph;
  const ops = raw.ops.map(({ kind, name, text, inputs, outs, origin }): OpNode => ({
    kind, name, text, inputs, outs, out: outs[0] ?? -1,
    site: origin && { ...origin, opName: kind, stack: `${kind}@${origin.file}:${origin.line}:${origin.column}` },
  }));
  const tensors = raw.tensors.map(({ dtype, shape, source }, id) => new Tensor(null, id, { dtype, shape, source, site: ops[source]?.site ?? null }));
  return { ops, tensors, outputs: raw.results, captures: new Map(raw.captures.map(({ name, value }) => [name.replace(/^~/, ''), value])) };
}
