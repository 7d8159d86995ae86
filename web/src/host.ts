// Devices and workers. In: files of the package, and the requested device. Out: the wasm module (compiled
// once), the instance that traces on the caller's thread, and running workers. Always holds: a worker that
// failed to start is terminated; the choice of a device is reported.

import { fail, GradloomError } from './errors.js';
import { checkOptions } from './options.js';
import { Client, type Port } from './protocol.js';
import { IS_NODE, serveHere, startThread } from './node.js';
import { Team, threadsHere } from './threads.js';
import { bestDevice, isWebGPUAvailable } from './webgpu.js';
import { Core, loadModule, type WasmSource } from './wasm.js';

/** Locations of the package's files, if they are not beside the script. */
export interface Files {
  /** gradloom.wasm. If only `cpuWasm` is given, `trace` and `traceForward` list no kernels. */
  wasm?: WasmSource;
  /** gradloom-cpu.wasm, or its variant gradloom-cpu-relaxed.wasm. */
  cpuWasm?: WasmSource;
  /** worker.js, or a function that starts the worker. */
  worker?: string | URL | (() => Port);
}

/** The requested device. */
export type Device = 'auto' | 'webgpu' | 'cpu';

let files: Files = {};
const modules = new Map<'webgpu' | 'cpu', Promise<WebAssembly.Module>>();
const tracing = new Map<string, Promise<Core>>();

/** Sets the locations of the package's files. Call it before compiling anything. */
export function configure(where: Files): void {
  checkOptions('configure', where, { wasm: 'any', cpuWasm: 'any', worker: 'any' });
  files = { ...files, ...where };
  modules.clear();
  tracing.clear();
}

/** A minimal module with `f32x4.relaxed_madd`, to test for support. */
const RELAXED = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 8, 1, 96, 3, 123, 123, 123, 1, 123, 3, 2, 1, 0, 10, 13, 1, 11, 0, 32, 0, 32, 1, 32, 2, 253, 133, 2, 11);

/** Returns the number of threads for the CPU's module, or 1 if that module is not threaded. */
const cpuThreads = () => (files.cpuWasm === undefined && WebAssembly.validate(RELAXED) ? threadsHere() : 1);

/** Loads the fastest of the CPU's modules that this browser supports. */
function cpuModule(): Promise<WebAssembly.Module> {
  // Bundlers require exactly this form.
  if (files.cpuWasm !== undefined) return loadModule(files.cpuWasm);
  if (cpuThreads() > 1) return loadModule(new URL('./gradloom-cpu-threads.wasm', import.meta.url));
  if (WebAssembly.validate(RELAXED)) return loadModule(new URL('./gradloom-cpu-relaxed.wasm', import.meta.url));
  return loadModule(new URL('./gradloom-cpu.wasm', import.meta.url));
}

/** Returns the module for a device, compiled once. */
export function moduleFor(device: 'webgpu' | 'cpu'): Promise<WebAssembly.Module> {
  let module = modules.get(device);
  if (!module) {
    // Bundlers require exactly this form.
    module = device === 'cpu' ? cpuModule() : loadModule(files.wasm ?? new URL('./gradloom.wasm', import.meta.url));
    modules.set(device, module);
    module.catch(() => modules.delete(device));
  }
  return module;
}

/** Returns the instance that traces on this thread. */
export const tracingCore = (device: Device = 'auto'): Promise<Core> => coreOf(firstChoice(device));

/**
 * Returns the instance that describes programs for WebGPU, or for the CPU if only its module is configured.
 */
export const showingCore = (): Promise<Core> => coreOf(files.cpuWasm !== undefined && files.wasm === undefined ? 'cpu' : 'webgpu');

async function coreOf(device: 'webgpu' | 'cpu'): Promise<Core> {
  let started = tracing.get(device);
  if (!started) {
    started = moduleFor(device).then((module) => Core.create(module));
    tracing.set(device, started);
    started.catch(() => tracing.delete(device));
  }
  const core = await started;
  if (!core.dead) return core;
  // After a trap, the next trace gets a new instance.
  if (tracing.get(device) === started) tracing.delete(device);
  return coreOf(device);
}

function firstChoice(device: Device): 'webgpu' | 'cpu' {
  if (device !== 'auto') return device;
  // If only the CPU's module was configured, there may be no other (in Node.js).
  if (files.cpuWasm !== undefined && files.wasm === undefined) return 'cpu';
  return isWebGPUAvailable() || (typeof window === 'undefined' && !IS_NODE) ? 'webgpu' : 'cpu';
}

/** A running worker. */
export interface Host {
  client: Client;
  device: 'webgpu' | 'cpu';
  /** Name of the device. */
  name: string;
}

function startWorker(device: 'webgpu' | 'cpu'): Port {
  const { worker } = files;
  if (typeof worker === 'function') return worker();
  if (IS_NODE) {
    // Not in the form that bundlers recognise, or they would add the file a second time.
    const here = import.meta.url;
    if (device === 'webgpu' && worker === undefined) return serveHere(new URL('./worker.js', here));
    return startThread(worker ?? new URL('./worker.js', here));
  }
  if (typeof Worker === 'undefined') throw fail('unsupported', 'there are no workers here', 'trace() and traceForward() need none');
  // Bundlers require exactly this form.
  const start = () => (worker === undefined ? new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }) : new Worker(worker, { type: 'module' }));
  try {
    return start() as unknown as Port;
  } catch (thrown) {
    if (!(thrown instanceof DOMException)) throw thrown;
    return viaBlob(start) as unknown as Port;
  }
}

/**
 * Starts a worker whose file has another origin, such as a package from a CDN, through a worker of this page
 * that imports it. The URL is the one that `start` passes to `Worker`, since a bundler may have changed it.
 */
function viaBlob(start: () => Worker): Worker {
  const Own = globalThis.Worker;
  let blob = '';
  const Through = function (url: string | URL, options: WorkerOptions): Worker {
    const { href } = new URL(url, globalThis.location.href);
    blob = URL.createObjectURL(new Blob([`import ${JSON.stringify(href)};`], { type: 'text/javascript' }));
    return new Own(blob, options);
  };
  globalThis.Worker = Through as unknown as typeof Worker;
  try {
    const made = start();
    // The first reply shows that the worker has read the file.
    made.addEventListener('message', () => URL.revokeObjectURL(blob), { once: true });
    return made;
  } catch (thrown) {
    throw fail('network', `the worker could not be started: ${thrown instanceof Error ? thrown.message : String(thrown)}`,
      "the page's Content-Security-Policy may lack `worker-src blob:`; serve worker.js from the page's origin, or give configure() a function that starts it");
  } finally {
    globalThis.Worker = Own;
  }
}

async function startOn(device: 'webgpu' | 'cpu', portable: boolean): Promise<Host> {
  const start = () => startWorker(device);
  const threads = device === 'cpu' ? cpuThreads() : 1;
  const team = threads > 1 ? new Team(start, threads) : undefined;
  const client = new Client(team ?? start());
  try {
    // The device is requested while the module is fetched.
    const started = client.ask('start', { device, portable });
    const loaded = moduleFor(device).then((module) => {
      if (team) team.module = module;
      return client.ask('load', { module, crew: team?.crew });
    });
    const [{ device: name }] = await Promise.all([started, loaded]);
    return { client, device, name };
  } catch (thrown) {
    void client.close(0);
    throw thrown;
  }
}

/**
 * Returns the device to try first. `auto` is WebGPU, or the CPU if WebGPU is missing or emulated in software,
 * which is slower.
 */
export async function chosen(device: Device): Promise<'webgpu' | 'cpu'> {
  if (device !== 'auto') return device;
  // If only the CPU's module was configured, there may be no other (in Node.js).
  return firstChoice(device) === 'cpu' ? 'cpu' : bestDevice();
}

/** Starts a worker with the device `first`. For `auto`, tries the other one if that fails. */
export async function startHost(device: Device, first: 'webgpu' | 'cpu', portable: boolean): Promise<Host> {
  try {
    return await startOn(first, portable);
  } catch (thrown) {
    const other = thrown instanceof GradloomError && (first === 'webgpu' ? thrown.kind === 'unsupported' : thrown.kind === 'network' && isWebGPUAvailable());
    if (device === 'auto' && other) return startOn(first === 'webgpu' ? 'cpu' : 'webgpu', portable);
    throw thrown;
  }
}
