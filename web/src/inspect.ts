// Looking inside. In: a program of a worker, or a traced function. Out: the graph as a value; texts of it before and
// after the passes, the plan, the kernels, counts. What always holds: nothing runs for it.

import type { Dtype } from './dtype.js';
import type { Origin } from './errors.js';
import type { Client } from './protocol.js';
import { Tensor, type CallSite } from './tensor.js';
import type { Core } from './wasm.js';

/** A kernel. */
export interface Kernel {
  label: string;
  /** WGSL. */
  source: string;
  workgroups: [number, number, number];
}

/** How much there is of everything. */
export interface Counts {
  /** Threads that compute: more than one on the CPU of a page that is cross-origin isolated. */
  threads: number;
  launches: number;
  dispatches: number;
  pipelines: number;
  passes: number;
  submits: number;
  /** Memory that a step needs, with what is kept. */
  bytes: number;
  /** Memory that was allocated. */
  allocated: number;
  /** Memory of parameters and states. */
  store: number;
}

/** What a program is. */
export interface Inspection {
  /** The graph as it was traced, as text. */
  traced: string;
  /** The graph with the backward pass and the optimizer, after the passes. */
  passes: string;
  /** The plan, as a value. */
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

/** Of a program in a worker. */
export async function inspectProgram(client: Client, program: number): Promise<Inspection> {
  return assembled(await Promise.all(PARTS.map((what) => client.ask('inspect', { program, what }))));
}

/** Of a program of an instance on this thread. */
export function inspectHere(core: Core, program: number): Inspection {
  return assembled(PARTS.map((what) => core.inspect(program, what)));
}

/** An op of a graph. One that runs a block (`checkpoint`, `scan`) is one op. */
export interface OpNode {
  /** The compiler's name of the op. */
  readonly kind: string;
  /** Of an input, a parameter or a state: its name. */
  readonly name: string | null;
  /** Numbers of the tensors that it takes, in reading order. */
  readonly inputs: readonly number[];
  /** The number of its (first) result. */
  readonly out: number;
  /** Numbers of all of its results. */
  readonly outs: readonly number[];
  /** The op with its attributes, in the text form of graphs. */
  readonly text: string;
  /** Where the user asked for it. */
  readonly site: CallSite | null;
}

/** A graph as a value: ops in an order in which they can run, and their results by number. */
export interface Graph {
  readonly ops: readonly OpNode[];
  readonly tensors: readonly Tensor[];
  /** Numbers of the results. */
  readonly outputs: readonly number[];
  /** Numbers of the captured tensors, by name. */
  readonly captures: ReadonlyMap<string, number>;
}

/** What `trace`, `traceForward` and `graphFor` give. */
export interface CompiledIR extends Inspection {
  /** The graph: of a loss, with the gradients of all parameters. */
  readonly graph: Graph;
  /** Of a loss: the gradient of each parameter, by name, a tensor of the graph. */
  readonly paramGrads: Readonly<Record<string, Tensor>>;
  /** The loss, or the first result: a tensor of the graph. */
  readonly loss: Tensor;
}

/** Numbers of the tensors that an op of a graph takes, in reading order. */
export function getOpInputs(op: OpNode): number[] {
  return [...op.inputs];
}

interface RawGraph {
  ops: { kind: string; name: string | null; text: string; inputs: number[]; outs: number[]; origin: Origin | null }[];
  tensors: { dtype: Dtype; shape: number[]; source: number }[];
  results: number[];
  captures: { name: string; value: number }[];
}

/** A trace of an instance on this thread, of which no program was made yet. */
export function graphOf(core: Core, trace: number): Graph {
  const raw = JSON.parse(core.graph(trace)) as RawGraph;
  const ops = raw.ops.map(({ kind, name, text, inputs, outs, origin }): OpNode => ({
    kind, name, text, inputs, outs, out: outs[0] ?? -1,
    site: origin && { ...origin, opName: kind, stack: `${kind}@${origin.file}:${origin.line}:${origin.column}` },
  }));
  const tensors = raw.tensors.map(({ dtype, shape, source }, id) => new Tensor(null, id, { dtype, shape, source, site: ops[source]?.site ?? null }));
  return { ops, tensors, outputs: raw.results, captures: new Map(raw.captures.map(({ name, value }) => [name.replace(/^~/, ''), value])) };
}
