// Threads of the CPU's module. In: on the page, workers; in each worker, the module and a shared memory. Out:
// the imports through which Rust starts threads (of WASI only these are provided: no files, no environment);
// on the page, one port for all workers. Always holds: work is passed to a thread in shared memory, since a
// busy worker receives no messages, and it may start late, so programs wait for no thread; a trap in any
// thread ends all of them.

import { fail } from './errors.js';
import type { Port } from './protocol.js';

/** Initial and maximum number of memory pages, the same as in the module's linker options (wasm.mjs). */
const PAGES = { initial: 256, maximum: 65536 };
/**
 * Maximum number of threads: more would gain little on what a page computes, and the visitor needs cores too.
 */
const MOST = 8;

/**
 * Delay in milliseconds from the first step to starting the other threads, which would otherwise slow that
 * step.
 */
const LATER = 50;

/**
 * Index of the flag that the first instance exists; after it, two words for each other thread: its state and
 * its argument.
 */
const BEGUN = 0;
const [STATE, ARGUMENT, PLACES] = [1, 2, 2];
/**
 * States of a thread: worker not started; waiting; running, or pending until its worker starts; not
 * available.
 */
const [NEW, IDLE, RUNS, NONE] = [0, 1, 2, 3];

/** State shared by the threads. */
export interface Crew {
  memory: WebAssembly.Memory;
  /** Words through which threads communicate. */
  places: Int32Array<SharedArrayBuffer>;
}

/** The message that makes a worker a thread. */
export interface ThreadMessage {
  kind: 'thread';
  module: WebAssembly.Module;
  crew: Crew;
  number: number;
}

/** Returns true if a module imports its memory, which is then shared. */
export function isThreaded(module: WebAssembly.Module): boolean {
  return WebAssembly.Module.imports(module).some(({ kind }) => kind === 'memory');
}

/**
 * True if a shared memory can be allocated; undefined until tested. Systems with little address space have
 * none.
 */
let isShareable: boolean | undefined;

/** Returns the number of threads that this page may use: 1 unless it is cross-origin isolated. */
export function threadsHere(): number {
  if (!globalThis.crossOriginIsolated || typeof Worker === 'undefined') return 1;
  try {
    isShareable ??= Boolean(sharedMemory());
  } catch {
    isShareable = false;
  }
  return isShareable ? Math.min(navigator.hardwareConcurrency || 1, MOST) : 1;
}

/** Allocates a memory for the threaded module. */
function sharedMemory(): WebAssembly.Memory {
  return new WebAssembly.Memory({ ...PAGES, shared: true });
}

/** Creates the shared state of this many threads. */
export function crewOf(threads: number): Crew {
  return { memory: sharedMemory(), places: new Int32Array(new SharedArrayBuffer(4 + 4 * PLACES * (threads - 1))) };
}

/** Signals that the first instance exists. */
export function begin({ places }: Crew): void {
  Atomics.store(places, BEGUN, 1);
  Atomics.notify(places, BEGUN);
}

/**
 * Waits for the first instance. The instance created first on a memory gets the region that the linker
 * reserves for the main thread, so it must be the one that the script calls.
 */
export function awaitFirst({ places }: Crew): void {
  Atomics.wait(places, BEGUN, 0);
}

/** Several workers as one: the first receives all messages, and the others compute with it. */
export class Team implements Port {
  readonly #start: () => Port;
  readonly #first: Port;
  #others: Port[] = [];
  #later: ReturnType<typeof setTimeout> | undefined;
  /** The module, once it is loaded. */
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

  /** Starts the other workers as threads, except those that fail to start. */
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

/** Returns the number of threads of a crew, including the calling one. */
export function threadsOf({ places }: Crew): number {
  let count = 1;
  for (let at = 0; at + STATE < places.length; at += PLACES) count += Number(Atomics.load(places, at + STATE) !== NONE);
  return count;
}

/** Runs the jobs of this thread forever; `began` is called first. */
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

/**
 * Returns the imports of a threaded module: its memory, and the functions that Rust's standard library
 * requires of a system.
 */
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
      // This clock is the same for all threads, which have different time origins.
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
