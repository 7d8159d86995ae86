// The wasm module. In: its bytes, a URL, or a compiled module; the imports that it calls. Out: `Core`, a
// typed wrapper around its exports. Always holds: a failing export throws a `GradloomError` created from its
// JSON; views of the memory are renewed after every call; after a trap the instance is never called again.

import { DTYPES, type Dtype } from './dtype.js';
import { errorOf, fail, withoutRust, type ErrorValue } from './errors.js';
import type { Parts } from './protocol.js';
import { fileBytes } from './node.js';
import { awaitFirst, begin, crewOf, isThreaded, system, type Crew } from './threads.js';

/** The raw exports, documented in `gradloom-web`. */
interface Exports {
  memory: WebAssembly.Memory;
  /** Only in the CPU's module. */
  __indirect_function_table?: WebAssembly.Table;
  /** Only in a threaded module: initialise the first instance, and start the others. */
  _initialize?(): void;
  wasi_thread_start?(thread: number, argument: number): void;
  alloc(len: number): number;
  dealloc(ptr: number, len: number): void;
  /** Only in the CPU's module. */
  threads?(count: number): void;
  output_ptr(): number;
  output_len(): number;
  text(ptr: number, len: number): number;
  blob(ptr: number, len: number): number;
  command(code: number, ptr: number, count: number): number;
  describe(tensor: number): number;
  release(kind: number, id: number): number;
  reset(): void;
  session(seedLow: number, seedHigh: number, device: number, precision: number): number;
  limits(ptr: number, count: number): number;
  train(session: number, trace: number, ptr: number, count: number): number;
  forward(session: number, trace: number): number;
  feed(program: number, input: number, ptr: number, len: number): number;
  step(program: number): number;
  rate(program: number, ptr: number, count: number): number;
  lr(program: number): number;
  ticket(step: number): number;
  deliver(step: number, ptr: number, len: number): number;
  result(step: number): number;
  drop_step(step: number): void;
  store(session: number): number;
  upload(session: number, strict: number, ptr: number, count: number): number;
  described(program: number): number;
  lose(ptr: number, len: number): void;
  fill(session: number, isGiven: number): number;
  reset_session(session: number, parts: number): number;
  attempted(program: number): number;
  count_from(program: number, steps: number): number;
  graph(trace: number): number;
  inspect(program: number, what: number): number;
}

/** The functions of the import module `gpu`. */
export interface GpuImports {
  buffer(bytes: number): number;
  drop_buffer(id: number): void;
  write(buffer: number, offset: number, ptr: number, len: number): void;
  program(): number;
  drop_program(id: number): void;
  dispatch(
    program: number, once: number, sourcePtr: number, sourceLen: number, labelPtr: number, labelLen: number,
    x: number, y: number, z: number, entriesPtr: number, count: number,
  ): void;
  copy(program: number, buffer: number, offset: number, bytes: number, to: number, late: number): void;
  staging(program: number, bytes: number): void;
  pause(program: number, dispatch: number): void;
  clear(program: number, buffer: number, offset: number, bytes: number): void;
  submit(program: number): number;
  drop_ticket(ticket: number): void;
}

/** Kinds of objects that `release` frees. */
export const RELEASE = { trace: 0, program: 1, session: 2 } as const;
/** Devices of a session. */
export const DEVICE = { none: 0, gpu: 1, cpu: 2 } as const;
/** Precisions in the order of their codes. */
export const PRECISIONS = ['f32', 'f16', 'bf16'] as const;

/**
 * The precision of a program, if its GPU supports it; otherwise it is f32. With 'f16', values between kernels
 * are f16; parameters, sums and the optimizer stay f32, and the loss is scaled: see `StepResult.applied`. No
 * WebGPU implementation supports 'bf16' yet. The CPU rounds the operands of products with 'bf16', and refuses
 * 'f16'.
 */
export type Precision = (typeof PRECISIONS)[number];
/** Views that `inspect` returns. */
export const INSPECT = { traced: 0, passes: 1, plan: 2, kernels: 3, counts: 4, unused: 5 } as const;

/** A result of a step: the location of its elements in wasm memory. */
export interface Output {
  name: string;
  dtype: Dtype;
  shape: number[];
  at: number;
  bytes: number;
}

/** A tensor of a session's store: in a GPU buffer, or (if `buffer` is null) in wasm memory. */
export interface Stored {
  name: string;
  dtype: Dtype;
  shape: number[];
  kind: 'param' | 'state';
  buffer: number | null;
  at: number;
  bytes: number;
}

/** A source of a wasm module. */
export type WasmSource = string | URL | ArrayBuffer | ArrayBufferView<ArrayBuffer> | WebAssembly.Module;

/** Fetches and compiles a module; bytes are compiled, and modules returned as they are. */
export async function loadModule(source: WasmSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source);
  const file = await fileBytes(source).catch((cause: unknown) => {
    throw fail('network', `could not read ${source}: ${cause instanceof Error ? cause.message : cause}`, 'say where the files are with configure()',
      "in code that Next.js runs on its server: serverExternalPackages: ['gradloom'] in next.config.js");
  });
  if (file) return WebAssembly.compile(file);
  const response = await fetch(source).catch((cause: unknown) => {
    throw fail('network', `could not fetch ${source}: ${cause instanceof Error ? cause.message : cause}`);
  });
  const type = response.headers.get('content-type') ?? '';
  // Servers of single-page sites answer with their page if a file is missing.
  if (!response.ok || type.startsWith('text/html')) {
    throw fail('network', `could not fetch ${source}: ${response.ok ? 'it is a page, not a module' : `status ${response.status}`}`,
      'serve the .wasm files and worker.js beside the script, or say where they are with configure()',
      "with Vite 7 or older: optimizeDeps: { exclude: ['gradloom'] }");
  }
  // Streaming compilation requires the right content type, which plain file servers do not always send.
  if (type.startsWith('application/wasm') && WebAssembly.compileStreaming) {
    return WebAssembly.compileStreaming(response);
  }
  return WebAssembly.compile(await response.arrayBuffer());
}

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder();

/**
 * Creates the import module `loops`: functions that the CPU's module compiles for its programs, in its own
 * table.
 */
function loops(exports: () => Exports): WebAssembly.ModuleImports {
  const free: number[] = [];
  const made = (ptr: number, len: number) => {
    const { memory } = exports();
    // A copy, since a module cannot be compiled from shared memory.
    const module = new WebAssembly.Module(new Uint8Array(memory.buffer, ptr >>> 0, len).slice());
    return new WebAssembly.Instance(module, { host: { memory } }).exports.loop;
  };
  return {
    compile: (ptr: number, len: number) => {
      const table = exports().__indirect_function_table!;
      try {
        const loop = made(ptr, len);
        const at = free.pop() ?? table.grow(1);
        table.set(at, loop);
        return at;
      } catch {
        return 0; // Loops that cannot be compiled are interpreted.
      }
    },
    // Places a function in another thread's table, under the index that `compile` returned in the first.
    place: (ptr: number, len: number, at: number) => {
      const table = exports().__indirect_function_table!;
      if (table.length <= at) table.grow(at + 1 - table.length);
      table.set(at, made(ptr, len));
    },
    release: (at: number) => {
      exports().__indirect_function_table!.set(at, null);
      free.push(at);
    },
  };
}

/** An instance of the module. */
export class Core {
  readonly #exports: Exports;
  #panic = '';
  #dead = '';
  /** A block of wasm memory for arguments passed by pointer. */
  #scratch = 0;
  #scratchBytes = 0;
  #numbers = new Float64Array(256);

  private constructor(instance: WebAssembly.Instance) {
    this.#exports = instance.exports as unknown as Exports;
  }

  /**
   * Creates an instance; `gpu` creates the GPU's imports once the instance exists, since they read its
   * memory. An instance of a threaded module runs alone without a crew; with a crew it is the first instance,
   * unless `isOther` is true.
   */
  static async create(module: WebAssembly.Module, gpu?: (core: () => Core) => GpuImports, crew?: Crew, isOther = false): Promise<Core> {
    let core: Core | undefined;
    const self = () => core!;
    const none = new Proxy({}, {
      get: (_, name) => () => { throw fail('internal', `gpu.${String(name)} was called where there is no GPU`); },
    });
    const host = {
      panic: (ptr: number, len: number) => { core!.#panic = core!.string(ptr >>> 0, len); },
      remainder: (x: number, y: number) => x % y,
      // The shortest digits that parse to the same number, or to the same f32.
      decimal: (size: number, single: number, ptr: number, room: number) => {
        let text = size.toExponential();
        if (single) for (let digits = 0; Math.fround(+(text = size.toExponential(digits))) !== size; digits++);
        const bytes = utf8.encode(text).subarray(0, room);
        core!.bytes(ptr >>> 0, room).set(bytes);
        return bytes.length;
      },
    };
    const all = isThreaded(module) ? crew ?? crewOf(1) : undefined;
    if (all && isOther) awaitFirst(all);
    const imports = { host, Math, loops: loops(() => core!.#exports), gpu: gpu ? (gpu(self) as unknown as WebAssembly.ModuleImports) : none, ...(all && system(all)) };
    const instance = await WebAssembly.instantiate(module, imports as unknown as WebAssembly.Imports);
    core = new Core(instance);
    if (!isOther) core.#enter(() => core!.#exports._initialize?.());
    if (all && !isOther) begin(all);
    return core;
  }

  /** True if the instance has trapped. */
  get dead(): boolean {
    return this.#dead !== '';
  }

  /** Size of the wasm memory in bytes. */
  get memoryBytes(): number {
    return this.#exports.memory.buffer.byteLength;
  }

  // Memory.

  /** Returns bytes of the memory, valid until the next call. */
  bytes(ptr: number, len: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#exports.memory.buffer as ArrayBuffer, ptr, len);
  }

  /** Returns a string in the memory. */
  string(ptr: number, len: number): string {
    // A copy, since strings cannot be decoded from shared memory.
    return fromUtf8.decode(this.bytes(ptr, len).slice());
  }

  /** Returns a copy of words in the memory. */
  words(ptr: number, count: number): Uint32Array {
    return new Uint32Array((this.#exports.memory.buffer as ArrayBuffer).slice(ptr, ptr + 4 * count));
  }

  /** Copies bytes to where an export can read them; valid until the next `place`. */
  place(data: ArrayBufferView): number {
    return this.#place(data.byteLength, (to) => to.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)));
  }

  #place(bytes: number, fill: (to: Uint8Array) => void): number {
    if (bytes > this.#scratchBytes) {
      if (this.#scratchBytes > 0) this.#exports.dealloc(this.#scratch, this.#scratchBytes);
      this.#scratchBytes = 0;
      const want = Math.max(4096, bytes);
      this.#scratch = this.#alloc(want);
      this.#scratchBytes = want;
    }
    fill(this.bytes(this.#scratch, bytes));
    return this.#scratch;
  }

  /** Allocates memory; addresses are unsigned 32-bit numbers. */
  #alloc(bytes: number): number {
    const at = this.#enter(() => this.#exports.alloc(bytes)) >>> 0;
    if (at === 0) throw fail('device', `no memory for ${bytes} bytes in the WebAssembly module, which has 4 GiB at most`, 'a smaller batch or model needs less');
    return at;
  }

  #placeNumbers(numbers: ArrayLike<number>): number {
    if (numbers.length > this.#numbers.length) this.#numbers = new Float64Array(2 * numbers.length);
    this.#numbers.set(numbers);
    return this.place(this.#numbers.subarray(0, numbers.length));
  }

  // Calls.

  #enter<R>(call: () => R): R {
    if (this.#dead) throw fail('internal', `the compiler stopped before: ${this.#dead}`);
    try {
      return call();
    } catch (thrown) {
      // Any exception that passes through the module, even one thrown by an import, leaves it in an
      // inconsistent state.
      this.#dead = this.#panic || (thrown instanceof Error ? thrown.message : String(thrown));
      if (thrown instanceof WebAssembly.RuntimeError) {
        throw fail('internal', `the compiler stopped: ${this.#dead}`,
          'this is a defect of gradloom; please report it with the model that caused it');
      }
      throw thrown;
    }
  }

  #check(call: () => number): number {
    const result = this.#enter(call);
    if (result >= 0) return result;
    throw this.error();
  }

  /** Returns the error of the last call. */
  error(): Error {
    const text = this.output();
    try {
      return errorOf(withoutRust(JSON.parse(text) as ErrorValue));
    } catch {
      return fail('internal', `an error that cannot be read: ${text}`);
    }
  }

  /** Returns the output of the last call as a string. */
  output(): string {
    return this.string(this.#exports.output_ptr() >>> 0, this.#exports.output_len());
  }

  #json<T>(): T {
    return JSON.parse(this.output()) as T;
  }

  // Tracing.

  /** Interns a text and returns its id. */
  text(text: string): number {
    const bytes = utf8.encode(text);
    const ptr = this.place(bytes);
    return this.#check(() => this.#exports.text(ptr, bytes.length));
  }

  /** Stores f32 elements and returns their id. */
  blob(values: Float32Array): number {
    const ptr = this.place(values);
    return this.#check(() => this.#exports.blob(ptr, values.byteLength));
  }

  /** Executes a command. */
  command(code: number, args: ArrayLike<number>): number {
    const ptr = this.#placeNumbers(args);
    return this.#check(() => this.#exports.command(code, ptr, args.length));
  }

  /** Returns the type of a tensor. */
  describe(tensor: number): { dtype: Dtype; shape: number[] } {
    const rank = this.#check(() => this.#exports.describe(tensor));
    const [dtype, ...shape] = this.words(this.#exports.output_ptr() >>> 0, rank + 1);
    return { dtype: DTYPES[dtype!]!, shape };
  }

  /** Frees a trace, a program or a session. */
  release(what: keyof typeof RELEASE, id: number): void {
    this.#check(() => this.#exports.release(RELEASE[what], id) ?? 0);
  }

  /** Drops texts, blobs, the model and traces. */
  reset(): void {
    this.#enter(() => this.#exports.reset());
  }

  // Sessions and programs.

  /** Sets the number of threads of programs, including this one. Must precede the first session. */
  threads(count: number): void {
    this.#enter(() => this.#exports.threads?.(count));
  }

  /** Runs another thread of the module until it ends. */
  runThread(thread: number, argument: number): void {
    this.#enter(() => this.#exports.wasi_thread_start!(thread, argument));
  }

  /** Sets the limits of the GPU, before `session`. */
  limits(numbers: ArrayLike<number>): void {
    const ptr = this.#placeNumbers(numbers);
    this.#check(() => this.#exports.limits(ptr, numbers.length) ?? 0);
  }

  /** Opens a session on the current model. */
  session(seed: number, device: keyof typeof DEVICE, precision: Precision = 'f32'): number {
    const low = seed >>> 0;
    const high = Math.floor(seed / 2 ** 32) >>> 0;
    const code = PRECISIONS.indexOf(precision);
    if (code < 0) throw fail('trace', `there is no precision '${String(precision)}'`, `use one of ${PRECISIONS.join(', ')}`);
    return this.#check(() => this.#exports.session(low, high, DEVICE[device], code));
  }

  /** Compiles a training program, with the optimizer as numbers. */
  train(session: number, trace: number, optimizer: ArrayLike<number>): number {
    const ptr = this.#placeNumbers(optimizer);
    return this.#check(() => this.#exports.train(session, trace, ptr, optimizer.length));
  }

  /** Compiles a forward program. */
  forward(session: number, trace: number): number {
    return this.#check(() => this.#exports.forward(session, trace));
  }

  /** Sets the elements of an input. */
  feed(program: number, input: number, data: ArrayBufferView): void {
    const ptr = this.place(data);
    this.#check(() => this.#exports.feed(program, input, ptr, data.byteLength));
  }

  /** Queues a training step, or a forward run. */
  step(program: number): number {
    return this.#check(() => this.#exports.step(program));
  }

  /** Returns the number of attempted steps. */
  attempted(program: number): number {
    return this.#enter(() => this.#exports.attempted(program));
  }

  /** Sets the number of attempted steps, and returns to the schedule of the program. */
  countFrom(program: number, steps: number): void {
    this.#check(() => this.#exports.count_from(program, steps));
  }

  /** Returns a trace as JSON. */
  graph(trace: number): string {
    this.#check(() => this.#exports.graph(trace));
    return this.output();
  }

  /** Sets a new schedule: whether it starts at the next step, and its numbers. */
  rate(program: number, schedule: ArrayLike<number>): void {
    const ptr = this.#placeNumbers(schedule);
    this.#check(() => this.#exports.rate(program, ptr, schedule.length));
  }

  /** Returns the learning rate of the next step. */
  lr(program: number): number {
    return this.#enter(() => this.#exports.lr(program));
  }

  /** Returns the number of a program in the `gpu` imports. */
  described(program: number): number {
    return this.#enter(() => this.#exports.described(program));
  }

  /** Reports that the device is lost. */
  lose(why: string): void {
    const bytes = utf8.encode(why);
    const ptr = this.place(bytes);
    this.#enter(() => this.#exports.lose(ptr, bytes.length));
  }

  /** Returns the ticket to wait for before `result`, or -1 if there is none. */
  ticket(step: number): number {
    return this.#enter(() => this.#exports.ticket(step));
  }

  /** Passes the bytes of a ticket's staging buffer to the module. */
  deliver(step: number, data: ArrayBufferView): void {
    const ptr = this.place(data);
    this.#check(() => this.#exports.deliver(step, ptr, data.byteLength) ?? 0);
  }

  /** Returns the results of a step. */
  result(step: number): Output[] {
    this.#check(() => this.#exports.result(step));
    return this.#json();
  }

  /** Drops a step. */
  dropStep(step: number): void {
    this.#enter(() => this.#exports.drop_step(step));
  }

  /** Returns the tensors of a session's store and their locations. */
  store(session: number): Stored[] {
    this.#check(() => this.#exports.store(session));
    return this.#json();
  }

  /** Overwrites tensors of the store in wasm memory: all of them, or none. */
  upload(session: number, strict: boolean, tensors: readonly (readonly [string, ArrayBufferView])[]): void {
    const names = tensors.map(([name]) => this.text(name));
    // The elements come one after another, each aligned to 16 bytes, then the table.
    const starts: number[] = [];
    let bytes = 0;
    for (const [, data] of tensors) {
      starts.push(bytes);
      bytes += Math.ceil(data.byteLength / 16) * 16;
    }
    const table = bytes;
    const total = table + 12 * tensors.length;
    if (total === 0) {
      this.#check(() => this.#exports.upload(session, strict ? 1 : 0, 0, 0));
      return;
    }
    const ptr = this.#alloc(total);
    try {
      const memory = this.bytes(ptr, total);
      const rows = new DataView(memory.buffer, ptr + table, 12 * tensors.length);
      tensors.forEach(([, data], i) => {
        memory.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), starts[i]!);
        rows.setUint32(12 * i, names[i]!, true);
        rows.setUint32(12 * i + 4, ptr + starts[i]!, true);
        rows.setUint32(12 * i + 8, data.byteLength, true);
      });
      this.#check(() => this.#exports.upload(session, strict ? 1 : 0, ptr + table, tensors.length));
    } finally {
      this.#exports.dealloc(ptr, total);
    }
  }

  /** Computes initial values that were deferred, unless all parameters will be set. */
  fill(session: number, isGiven: boolean): void {
    this.#check(() => this.#exports.fill(session, isGiven ? 1 : 0));
  }

  /** Resets these parts to their initial values. */
  resetSession(session: number, { params, states, optimizer }: Parts): void {
    this.#check(() => this.#exports.reset_session(session, (params ? 1 : 0) + (states ? 2 : 0) + (optimizer ? 4 : 0)));
  }

  /** Returns a text about a program. */
  inspect(program: number, what: keyof typeof INSPECT): string {
    this.#check(() => this.#exports.inspect(program, INSPECT[what]));
    return this.output();
  }
}

