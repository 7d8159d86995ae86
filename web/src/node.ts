// Node.js. In: nothing from a browser. Out: replacements for browser features: threads for workers, files for
// URLs, and the npm package `webgpu` (Dawn), if installed, for navigator.gpu. Always holds: in a browser all
// of it is undefined, and bundlers have nothing to resolve.

import type { FromWorker, Port, ToWorker } from './protocol.js';
import type { Scope } from './worker.js';

interface ThreadPort {
  postMessage(message: unknown, transfer?: readonly Transferable[]): void;
  on(event: 'message' | 'error' | 'messageerror', listener: (value: never) => void): void;
}

interface Thread extends ThreadPort {
  terminate(): Promise<number>;
  ref(): void;
  unref(): void;
}

interface Threads {
  isMainThread: boolean;
  parentPort: ThreadPort | null;
  workerData: { gradloom?: boolean } | null;
  Worker: new (file: URL, options: { workerData: unknown }) => Thread;
}

interface Process {
  versions?: { node?: string };
  getBuiltinModule?(name: string): unknown;
  cwd(): string;
}

const nodeProcess = (globalThis as { process?: Process }).process;

/** True in Node.js, which has threads instead of workers. */
export const IS_NODE = nodeProcess?.versions?.node !== undefined && nodeProcess.getBuiltinModule !== undefined && typeof Worker === 'undefined';

function builtin<T>(name: string): T {
  return nodeProcess!.getBuiltinModule!(`node:${name}`) as T;
}

/** Starts a thread as a worker. While it has no pending requests, it does not keep the process alive. */
export function startThread(file: string | URL): Port {
  const { Worker: Threaded } = builtin<Threads>('worker_threads');
  const url = file instanceof URL ? file : /^[a-z]{2,}:/.test(file) ? new URL(file) : builtin<{ pathToFileURL(path: string): URL }>('url').pathToFileURL(file);
  const thread = new Threaded(url, { workerData: { gradloom: true } });
  let open = 0;
  thread.unref();
  const port: Port = {
    onmessage: null, onerror: null, onmessageerror: null,
    postMessage(message: ToWorker, transfer: Transferable[]) {
      thread.postMessage(message, transfer);
      if ('id' in message && open++ === 0) thread.ref();
    },
    terminate() { void thread.terminate(); },
  };
  thread.on('message', (data: FromWorker) => {
    if ('id' in data && !('part' in data) && --open === 0) thread.unref();
    port.onmessage?.({ data } as MessageEvent<FromWorker>);
  });
  thread.on('error', (error: Error) => port.onerror?.({ message: error.message } as ErrorEvent));
  thread.on('messageerror', () => port.onmessageerror?.({} as MessageEvent));
  return port;
}

/**
 * Serves requests on this thread. They mostly wait for the GPU, and a message to another thread would take as
 * long as a small step.
 */
export function serveHere(file: URL): Port {
  const scope: Scope = { postMessage: (data) => queueMicrotask(() => port.onmessage?.({ data } as MessageEvent<FromWorker>)), onmessage: null };
  const serving = (import(/* @vite-ignore */ /* webpackIgnore: true */ file.href) as Promise<typeof import('./worker.js')>).then(
    ({ Server }) => { new Server(scope); },
    (error: Error) => port.onerror?.({ message: error.message } as ErrorEvent),
  );
  const port: Port = {
    onmessage: null, onerror: null,
    postMessage(message, transfer) {
      // Transferred buffers are detached, as with a worker.
      const data = transfer.length > 0 ? structuredClone(message, { transfer }) : message;
      void serving.then(() => scope.onmessage?.({ data } as MessageEvent<ToWorker>));
    },
    terminate() { void serving.then(() => { scope.onmessage = null; }); },
  };
  return port;
}

/** Returns the scope of a thread started by `startThread`, or undefined elsewhere. */
export function threadScope(): Scope | undefined {
  if (!IS_NODE) return undefined;
  const { parentPort, workerData } = builtin<Threads>('worker_threads');
  if (!parentPort || !workerData?.gradloom) return undefined;
  const scope: Scope = { postMessage: (message, transfer) => parentPort.postMessage(message, transfer), onmessage: null };
  parentPort.on('message', (data: ToWorker) => scope.onmessage?.({ data } as MessageEvent<ToWorker>));
  return scope;
}

/** Returns the bytes of a file, or undefined if the source is not a file. */
export async function fileBytes(source: string | URL): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (!IS_NODE || (typeof source === 'string' && /^[a-z]{2,}:/.test(source) && !source.startsWith('file:'))) return undefined;
  if (source instanceof URL && source.protocol !== 'file:') return undefined;
  const path = typeof source === 'string' && source.startsWith('file:') ? new URL(source) : source;
  return builtin<{ readFile(path: string | URL): Promise<Uint8Array<ArrayBuffer>> }>('fs/promises').readFile(path);
}

/**
 * Returns the path of the installed package `webgpu`: beside this package, or in the process's working
 * directory.
 */
function dawnPath(): string | undefined {
  if (!IS_NODE) return undefined;
  const { createRequire } = builtin<{ createRequire(from: string): { resolve(name: string): string } }>('module');
  for (const from of [import.meta.url, `${nodeProcess!.cwd()}/`]) {
    try {
      return createRequire(from).resolve('webgpu');
    } catch {
      // It is not installed here.
    }
  }
  return undefined;
}

let dawn: Promise<GPU | undefined> | undefined;

/** Returns true if there is an interface to GPUs, even if it may not work. */
export function hasGpuInterface(): boolean {
  return Boolean((globalThis.navigator as Navigator | undefined)?.gpu) || dawnPath() !== undefined;
}

/** Returns the interface to GPUs: the browser's, or Dawn's in Node.js. */
export function gpuInterface(): Promise<GPU | undefined> {
  const own = (globalThis.navigator as Navigator | undefined)?.gpu;
  if (own) return Promise.resolve(own);
  dawn ??= (async () => {
    const path = dawnPath();
    if (path === undefined) return undefined;
    const { href } = builtin<{ pathToFileURL(path: string): URL }>('url').pathToFileURL(path);
    const { create, globals } = await import(/* @vite-ignore */ /* webpackIgnore: true */ href) as { create(flags: string[]): GPU; globals: object };
    Object.assign(globalThis, globals);
    return create([]);
  })();
  return dawn;
}
