// The log of a trace. In: commands of the wasm interface, executed at once on the tracing instance, so that
// an error is thrown at the user's line. Out: the same commands as a value that can be posted and replayed on
// another instance. What always holds: a log begins with a forgotten instance (`reset`), so that its ids are
// the same wherever it is replayed; a command that failed is not in it.

import type { Dtype } from './dtype.js';
import type { Core } from './wasm.js';

/** Commands that are no ops. */
export const COMMAND = {
  model: 0, param: 1, alias: 2, open: 3, input: 4, use: 5, origin: 6, capture: 7, close: 8, abandon: 9, constant: 10, state: 11,
  useState: 12, setState: 13, updateState: 14, gradients: 15, checkpoint: 16, endCheckpoint: 17, scan: 18, endScan: 19,
} as const;

/** The name under which a capture is kept: those that are ours, as that of the loss, are free for users too. */
export function keptName(name: string): string {
  return /^(loss$|gradient_norm$|result\.|~)/.test(name) ? `~${name}` : name;
}

/** A log as it is posted: each command is its code, its number of arguments, its arguments. */
export interface LogValue {
  commands: Float64Array;
  texts: string[];
  blobs: Float32Array[];
}

/** Commands executed and recorded. */
export class Log {
  readonly #core: Core;
  readonly #texts = new Map<string, number>();
  readonly #blobs: Float32Array[] = [];
  #commands = new Float64Array(1024);
  #length = 0;

  /** Begins a log: the instance forgets what was traced before. */
  constructor(core: Core) {
    this.#core = core;
    core.reset();
  }

  /** The number of a text. */
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
   * The number of a list of f32 elements. The list is not copied here: it must not change while the log is
   * used.
   */
  blob(values: Float32Array): number {
    const id = this.#core.blob(values);
    this.#blobs.push(values);
    return id;
  }

  /** Executes a command, and records it if it did not fail. */
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

  /** What a tensor is; not recorded. */
  describe(tensor: number): { dtype: Dtype; shape: number[] } {
    return this.#core.describe(tensor);
  }

  /** The log so far; `commands` is a copy that may be transferred. */
  value(): LogValue {
    return { commands: this.#commands.slice(0, this.#length), texts: [...this.#texts.keys()], blobs: this.#blobs };
  }
}

/** Replays a log on an instance that forgets what was traced before; gives the result of the last command. */
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
