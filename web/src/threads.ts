// Threads of the CPU's module. In: on the page, workers; in each, the module and a memory that they share. Out: the
// imports through which Rust's threads start (WASI's, of which nothing else is there: no files, no environment); on the
// page, one port for all of the workers. What always holds: a thread is handed over in memory, as a worker that computes
// hears no messages, and may begin late: programs wait for none of them; a trap in any of them is one of all.

import { fail } from './errors.js';
import type { Port } from './protocol.js';

/** Pages of memory to begin with, and at most: those that the module is linked for (wasm.mjs). */
const PAGES = { initial: 256, maximum: 65536 };
/** Threads at most: more of them gain little on what a page computes, and its visitor has other things to do. */
const MOST = 8;

/** Milliseconds after the first step was asked for until other threads are started, which would take time from it. */
const LATER = 50;

/** The place of whether the first instance is there; then two places for each other thread: what it does, and what it is to run. */
const BEGUN = 0;
const [STATE, ARGUMENT, PLACES] = [1, 2, 2];
/** What a thread does: its worker has not started; it waits; it runs, or will once the worker has started; there will be none. */
const [NEW, IDLE, RUNS, NONE] = [0, 1, 2, 3];

/** What threads have in common. */
export interface Crew {
  memory: WebAssembly.Memory;
  /** Numbers by which they know of each other. */
  places: Int32Array<SharedArrayBuffer>;
}

/** What makes a worker a thread. */
export interface ThreadMessage {
  kind: 'thread';
  module: WebAssembly.Module;
  crew: Crew;
  number: number;
}

/** Whether a module's memory is shared, and given to it. */
export function isThreaded(module: WebAssembly.Module): boolean {
  return WebAssembly.Module.imports(module).some(({ kind }) => kind === 'memory');
}

/** Whether there is such a memory, once that is known: where addresses are scarce, there is none. */
let isShareable: boolean | undefined;

/** Threads that this page may have: 1 unless it is cross-origin isolated. */
export function threadsHere(): number {
  if (!globalThis.crossOriginIsolated || typeof Worker === 'undefined') return 1;
  try {
    isShareable ??= Boolean(sharedMemory());
  } catch {
    isShareable = false;
  }
  return isShareable ? Math.min(navigator.hardwareConcurrency || 1, MOST) : 1;
}

/** A memory for the threaded module. */
function sharedMemory(): WebAssembly.Memory {
  return new WebAssembly.Memory({ ...PAGES, shared: true });
}

/** What so many threads have in common. */
export function crewOf(threads: number): Crew {
  return { memory: sharedMemory(), places: new Int32Array(new SharedArrayBuffer(4 + 4 * PLACES * (threads - 1))) };
}

/** Says that the first instance is there. */
export function begin({ places }: Crew): void {
  Atomics.store(places, BEGUN, 1);
  Atomics.notify(places, BEGUN);
}

/**
 * Waits for the first instance. Of those over a memory, the one that is made first has what the linker sets aside for the
 * main thread, so that must be the one that the script calls.
 */
export function awaitFirst({ places }: Crew): void {
  Atomics.wait(places, BEGUN, 0);
}

/** Workers as one: the first is spoken to, and the others compute with it. */
export class Team implements Port {
  readonly #start: () => Port;
  readonly #first: Port;
  #others: Port[] = [];
  #later: ReturnType<typeof setTimeout> | undefined;
  /** The module, once it is known. */
  module: WebAssembly.Module | undefined;
  readonly crew: Crew;
  onmessage: Port['onmessage'] = null;
  onerror: Port['onerror'] = null;
  onmessageerror: Port['onmessageerror'] = null;

  constructor(start: () => Port, threads: number) {
    this.#start = start;
    this.#first = start();
    this.#first.onmessage = (event) => this.onmessage?.(event);
    this.#first.onerror = (event) => this.onerror?.(event);
    this.#first.onmessageerror = (event) => this.onmessageerror?.(event);
    this.crew = crewOf(threads);
  }

  /** Starts the other workers as threads. Those that cannot be started are left out. */
  #enlist(module: WebAssembly.Module): void {
    this.#others = Array.from({ length: (this.crew.places.length - STATE) / PLACES }, this.#start);
    this.#others.forEach((port, number) => {
      port.onmessage = () => { port.onerror = (event) => this.onerror?.(event); };
      port.onerror = (event) => {
        event.preventDefault?.();
        Atomics.store(this.crew.places, PLACES * number + STATE, NONE);
      };
      port.postMessage({ kind: 'thread', module, crew: this.crew, number }, []);
    });
  }

  postMessage(...[message, transfer]: Parameters<Port['postMessage']>): void {
    this.#first.postMessage(message, transfer);
    const { module } = this;
    if (module && (message.kind === 'step' || message.kind === 'run')) this.#later ??= setTimeout(() => this.#enlist(module), LATER);
  }

  terminate(): void {
    clearTimeout(this.#later);
    for (const port of [this.#first, ...this.#others]) port.terminate();
  }
}

/** Threads of a crew, with the one that asks. */
export function threadsOf({ places }: Crew): number {
  let count = 1;
  for (let at = 0; at + STATE < places.length; at += PLACES) count += Number(Atomics.load(places, at + STATE) !== NONE);
  return count;
}

/** Runs what this thread is given, again and again; `began` is called before. */
export function serveThread({ places }: Crew, number: number, run: (thread: number, argument: number) => void, began: () => void): never {
  const at = PLACES * number;
  began();
  Atomics.compareExchange(places, at + STATE, NEW, IDLE);
  for (;;) {
    Atomics.wait(places, at + STATE, IDLE);
    run(number + 1, Atomics.load(places, at + ARGUMENT));
    Atomics.store(places, at + STATE, IDLE);
  }
}

/** Error codes of WASI. */
const NOT_THERE = 8; // badf
const NO_MORE = -6; // again

/** Imports of a threaded module: its memory, and what Rust's standard library asks of a system. */
export function system({ memory, places }: Crew): Record<string, WebAssembly.ModuleImports> {
  const view = () => new DataView(memory.buffer);
  const wasi: Record<string, (...args: never[]) => number> = {
    environ_sizes_get: (count: number, bytes: number) => {
      view().setUint32(count, 0, true);
      view().setUint32(bytes, 0, true);
      return 0;
    },
    environ_get: () => 0,
    clock_time_get: (_: number, _precision: bigint, at: number) => {
      // The same for all threads, which began at different times.
      view().setBigUint64(at, BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6)), true);
      return 0;
    },
    random_get: (at: number, bytes: number) => {
      new Uint8Array(memory.buffer, at, bytes).set(crypto.getRandomValues(new Uint8Array(bytes)));
      return 0;
    },
    sched_yield: () => 0,
    proc_exit: () => { throw fail('internal', 'the module ended'); },
  };
  return {
    env: { memory },
    wasi_snapshot_preview1: new Proxy(wasi, { get: (all, name) => all[String(name)] ?? (() => NOT_THERE) }) as WebAssembly.ModuleImports,
    wasi: {
      'thread-spawn': (argument: number) => {
        for (let at = 0; at + STATE < places.length; at += PLACES) {
          if (Atomics.load(places, at + STATE) > IDLE) continue;
          Atomics.store(places, at + ARGUMENT, argument);
          Atomics.store(places, at + STATE, RUNS);
          Atomics.notify(places, at + STATE);
          return at / PLACES + 1;
        }
        return NO_MORE;
      },
    },
  };
}
