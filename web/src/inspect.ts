// Looking inside. In: a program of a worker, or a traced function. Out: texts: the graph before and after the
// passes, the plan, the kernels, counts. What always holds: nothing runs for it.

import type { Client } from './protocol.js';
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
  /** The graph as it was traced. */
  graph: string;
  /** The graph with the backward pass and the optimizer, after the passes. */
  passes: string;
  /** The plan, as a value. */
  plan: unknown;
  kernels: Kernel[];
  counts: Counts;
}

const PARTS = ['graph', 'passes', 'plan', 'kernels', 'counts'] as const;

function assembled(texts: readonly string[]): Inspection {
  const [graph, passes, plan, kernels, counts] = texts as [string, string, string, string, string];
  return {
    graph, passes, plan: JSON.parse(plan) as unknown,
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
