// The log of a trace. In: commands of the wasm interface, executed immediately on the tracing instance, so
// that an error is thrown at the user's line. Out: the same commands as a value that can be posted and
// replayed on another instance. Always holds: a log begins with a `reset` of the instance, so that its ids
// are the same wherever it is replayed; a command that failed is not in the log.

import type { Dtype } from './dtype.js';
import type { Core } from './wasm.js';

/** Commands other than ops. */
export const COMMAND = {
  model: 0, param: 1, alias: 2, open: 3, input: 4, use: 5, origin: 6, capture: 7, close: 8, abandon: 9, constant: 10, state: 11,
  useState: 12, setState: 13, updateState: 14, gradients: 15, checkpoint: 16, endCheckpoint: 17, scan: 18, endScan: 19,
} as const;

/**
 * Returns the name under which a capture is stored. Names used internally, such as that of the loss, are
 * escaped, so that users may choose them too.
 */
export function keptName(name: string): string {
  return /^(loss$|gradient_norm$|result\.|~)/.test(name) ? `~${name}` : name;
}

/** A log as it is posted. Each command is its code, its number of arguments, and its arguments. */
export interface LogValue {
  commands: Float64Array;
  texts: string[];
  blobs: Float32Array[];
}

/** Executes and records commands. */
export class Log {
  readonly #core: Core;
  readonly #texts = new Map<string, number>();
  readonly #blobs: Float32Array[] = [];
  #commands = new Float64Array(1024);
  #length = 0;

  /** Starts a log and resets the instance. */
  constructor(core: Core) {
    this.#core = core;
    core.reset();
  }

  /** Returns the id of a text. */
  text(text: string): number {
    let id = this.#texts.get(text);
    if (id === undefined) {
      id = this.#core.text(text);
      if (id !== this.#texts.size) throw new Error('texts are numbered in the order of calls');
      this.#texts.set(text, id);
    }
    return id;
  }

  /**
   * Returns the id of a list of f32 elements. The list is not copied, and must not change while the log is in
   * use.
   */
  blob(values: Float32Array): number {
    const id = this.#core.blob(values);
    this.#blobs.push(values);
    return id;
  }

  /** Executes a command, and records it if it succeeds. */
  command(code: number, args: readonly number[]): number {
    const result = this.#core.command(code, args);
    const needed = this.#length + 2 + args.length;
    if (needed > this.#commands.length) {
      const grown = new Float64Array(Math.max(needed, 2 * this.#commands.length));
      grown.set(this.#commands.subarray(0, this.#length));
      this.#commands = grown;
    }
    this.#commands[this.#length] = code;
    this.#commands[this.#length + 1] = args.length;
    this.#commands.set(args, this.#length + 2);
    this.#length = needed;
    return result;
  }

  /** Returns the type of a tensor; not recorded. */
  describe(tensor: number): { dtype: Dtype; shape: number[] } {
    return this.#core.describe(tensor);
  }

  /** Returns the log so far; `commands` is a copy that may be transferred. */
  value(): LogValue {
    return { commands: this.#commands.slice(0, this.#length), texts: [...this.#texts.keys()], blobs: this.#blobs };
  }
}

/** Resets an instance and replays a log on it. Returns the result of the last command. */
export function replay(core: Core, log: LogValue): number {
  core.reset();
  for (const text of log.texts) core.text(text);
  for (const blob of log.blobs) core.blob(blob);
  let last = -1;
  for (let at = 0; at < log.commands.length;) {
    const code = log.commands[at]!;
    const count = log.commands[at + 1]!;
    last = core.command(code, log.commands.subarray(at + 2, at + 2 + count));
    at += 2 + count;
  }
  return last;
}
