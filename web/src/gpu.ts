// The GPU for the wasm module: the imports `gpu.*`. In: a device of the browser; kernels, copies and clears
// that the module describes. Out: buffers, pipelines, submissions, and the results of a step to read. Always
// holds: no import blocks; programs share a pipeline for equal sources; dropping a program frees its buffers,
// and its pipelines without other users.

import { fail, GradloomError } from './errors.js';
import { gpuInterface, IS_NODE } from './node.js';
import type { GpuCounters } from './protocol.js';
import type { Core, GpuImports } from './wasm.js';
import { adapterName, isSoftware } from './webgpu.js';

// Constants of the WebGPU specification, since its globals are missing in tests.
const USAGE = { mapRead: 0x1, copySource: 0x4, copyTarget: 0x8, storage: 0x80 } as const;
const COMPUTE = 0x4;
const READ = 0x1;
/** Maximum number of bytes per write or read, a multiple of 4. */
const PIECE = 1 << 26;

/** Limits that are raised to the adapter's maximum. */
const LIMITS = [
  'maxBufferSize', 'maxStorageBufferBindingSize', 'maxStorageBuffersPerShaderStage', 'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupStorageSize', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupSizeY', 'maxComputeWorkgroupSizeZ',
  'maxComputeWorkgroupsPerDimension',
] as const;

/** Features that are used if the adapter supports them. */
const FEATURES: readonly GPUFeatureName[] = ['shader-f16'];

interface Dispatch {
  source: string;
  label: string;
  workgroups: [number, number, number];
  entries: { buffer: GPUBuffer; offset: number; size: number; writable: boolean }[];
  /** Set by `prepare`. */
  pipeline?: GPUComputePipeline;
  group?: GPUBindGroup;
}

interface Program {
  once: Dispatch[];
  dispatches: Dispatch[];
  copies: { buffer: GPUBuffer; offset: number; bytes: number; to: number; late: boolean }[];
  clears: { buffer: GPUBuffer; offset: number; bytes: number }[];
  /**
   * Index of the dispatch before which the copies that are not late run; -1 to run them at the end, as late
   * ones do.
   */
  pause: number;
  stagingBytes: number;
  /** Staging buffers that belong to no ticket. */
  idle: GPUBuffer[];
  /** Encoded commands of the next step. */
  next: { commands: GPUCommandBuffer; staging: GPUBuffer | null } | null;
  /** Keys of the pipelines in use. */
  held: Set<string>;
  ready: boolean;
}

interface Pipeline {
  made: Promise<GPUComputePipeline>;
  layout: GPUBindGroupLayout;
  users: number;
}

interface Ticket {
  program: number;
  staging: GPUBuffer | null;
}

/** Requests an adapter and a device. Throws an error of the kind 'unsupported' if there is none. */
export async function requestDevice(portable: boolean): Promise<{ adapter: GPUAdapter; device: GPUDevice }> {
  const gpu = await gpuInterface();
  if (!gpu) throw fail('unsupported', IS_NODE ? 'Node.js has no WebGPU of its own' : 'this browser has no WebGPU here (no navigator.gpu)', ...(IS_NODE ? ['npm install webgpu'] : []));
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' }) ?? await gpu.requestAdapter();
  if (!adapter) throw fail('unsupported', 'WebGPU has no adapter: the browser does not use this GPU');
  const requiredLimits: Record<string, number> = {};
  if (!portable) for (const name of LIMITS) requiredLimits[name] = adapter.limits[name];
  const requiredFeatures = FEATURES.filter((name) => !portable && adapter.features.has(name));
  try {
    return { adapter, device: await adapter.requestDevice({ requiredLimits, requiredFeatures, label: 'gradloom' }) };
  } catch (thrown) {
    throw fail('unsupported', `WebGPU gave no device: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
  }
}

/** A device, with its buffers, pipelines and programs. */
export class Gpu {
  readonly device: GPUDevice;
  readonly adapter: GPUAdapter;
  readonly #buffers = new Map<number, GPUBuffer>();
  readonly #programs = new Map<number, Program>();
  readonly #tickets = new Map<number, Ticket>();
  readonly #pipelines = new Map<string, Pipeline>();
  readonly #layouts = new Map<string, { group: GPUBindGroupLayout; pipeline: GPUPipelineLayout }>();
  #nextId = 0;
  #live = 0;
  #liveBytes = 0;
  #submits = 0;
  #fault: GradloomError | null = null;
  #lost: GradloomError | null = null;
  #destroyed = false;
  /** Resolves with the error when the device is lost, but never after `destroy`. */
  readonly lost: Promise<GradloomError>;

  constructor(adapter: GPUAdapter, device: GPUDevice) {
    this.adapter = adapter;
    this.device = device;
    device.addEventListener('uncapturederror', (event) => {
      event.preventDefault();
      this.#fault ??= describe((event as GPUUncapturedErrorEvent).error);
    });
    this.lost = new Promise((resolve) => {
      void device.lost.then((info) => {
        if (this.#destroyed) return;
        this.#lost = fail('lost', `the GPU device was lost: ${info.message || info.reason || 'no reason given'}`,
          'compile again, and upload the parameters that were kept');
        resolve(this.#lost);
      });
    });
  }

  /** Returns the error of a lost device. */
  get lostError(): GradloomError | null {
    return this.#lost;
  }

  /** Returns the name of the device. */
  get name(): string {
    return adapterName(this.adapter.info) || 'WebGPU';
  }

  /** Returns the arguments of the `limits` export. */
  limits(): number[] {
    const { limits } = this.device;
    const software = isSoftware(this.adapter);
    return [
      limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupStorageSize,
      limits.maxStorageBuffersPerShaderStage, limits.maxStorageBufferBindingSize,
      limits.maxComputeWorkgroupsPerDimension, limits.maxBufferSize, software ? 1 : 0, /swiftshader/i.test(this.name) ? 1 : 0,
      this.device.features.has('shader-f16') ? 1 : 0,
    ];
  }

  /** Returns the number of existing objects. */
  counters(): GpuCounters {
    return {
      liveBuffers: this.#live, liveBytes: this.#liveBytes, livePrograms: this.#programs.size,
      livePipelines: this.#pipelines.size, liveTickets: this.#tickets.size, submits: this.#submits,
    };
  }

  /** Returns the imports of an instance. */
  imports(core: () => Core): GpuImports {
    return {
      buffer: (bytes) => {
        const id = this.#nextId++;
        const usage = USAGE.storage | USAGE.copySource | USAGE.copyTarget;
        this.#buffers.set(id, this.#make(bytes >>> 0, usage, `store ${id}`));
        return id;
      },
      drop_buffer: (id) => {
        const buffer = this.#buffers.get(id);
        if (buffer) this.#unmake(buffer);
        this.#buffers.delete(id);
      },
      write: (buffer, offset, ptr, len) => {
        this.upload([{ buffer, at: offset >>> 0, data: core().bytes(ptr >>> 0, len >>> 0) }]);
      },
      program: () => {
        const id = this.#nextId++;
        this.#programs.set(id, {
          once: [], dispatches: [], copies: [], clears: [], pause: -1, stagingBytes: 0, idle: [], next: null, held: new Set(), ready: false,
        });
        return id;
      },
      drop_program: (id) => this.#dropProgram(id),
      dispatch: (program, once, sourcePtr, sourceLen, labelPtr, labelLen, x, y, z, entriesPtr, count) => {
        const words = core().words(entriesPtr >>> 0, 4 * count);
        const entries: Dispatch['entries'] = [];
        for (let i = 0; i < 4 * count; i += 4) {
          entries.push({
            buffer: this.#buffer(words[i]!), offset: words[i + 1]!, size: words[i + 2]!, writable: words[i + 3] !== 0,
          });
        }
        const { once: first, dispatches } = this.#program(program);
        (once ? first : dispatches).push({
          source: core().string(sourcePtr >>> 0, sourceLen), label: core().string(labelPtr >>> 0, labelLen),
          workgroups: [x, y, z], entries,
        });
      },
      copy: (program, buffer, offset, bytes, to, late) => {
        this.#program(program).copies.push({
          buffer: this.#buffer(buffer), offset: offset >>> 0, bytes: bytes >>> 0, to: to >>> 0, late: late !== 0,
        });
      },
      staging: (program, bytes) => { this.#program(program).stagingBytes = bytes >>> 0; },
      pause: (program, dispatch) => { this.#program(program).pause = dispatch; },
      clear: (program, buffer, offset, bytes) => {
        this.#program(program).clears.push({ buffer: this.#buffer(buffer), offset: offset >>> 0, bytes: bytes >>> 0 });
      },
      submit: (program) => this.#submit(program),
      drop_ticket: (id) => this.#dropTicket(id),
    };
  }

  #buffer(id: number): GPUBuffer {
    const buffer = this.#buffers.get(id);
    if (!buffer) throw fail('internal', `there is no GPU buffer ${id}`);
    return buffer;
  }

  #program(id: number): Program {
    const program = this.#programs.get(id);
    if (!program) throw fail('internal', `there is no GPU program ${id}`);
    return program;
  }

  #make(size: number, usage: number, label: string): GPUBuffer {
    const buffer = this.device.createBuffer({ size: Math.max(4, Math.ceil(size / 4) * 4), usage, label });
    this.#live++;
    this.#liveBytes += buffer.size;
    return buffer;
  }

  #unmake(buffer: GPUBuffer): void {
    this.#live--;
    this.#liveBytes -= buffer.size;
    buffer.destroy();
  }

  /** Runs calls that create buffers; rejects if the device refuses any of them. */
  async guarded<R>(calls: () => R): Promise<R> {
    this.device.pushErrorScope('out-of-memory');
    this.device.pushErrorScope('validation');
    let result: R;
    let errors: (GPUError | null)[];
    try {
      result = calls();
    } finally {
      // Both scopes are popped before anything else can push one.
      errors = [];
      const popped = [this.device.popErrorScope(), this.device.popErrorScope()];
      for (const scope of popped) scope.then((error) => errors.push(error), () => undefined);
      await Promise.allSettled(popped);
    }
    // A resource that had no memory causes further errors wherever it is used, so errors of memory come
    // first.
    const first = errors.find((error) => error && isMemory(error)) ?? errors.find(Boolean);
    if (first) throw describe(first);
    return result;
  }

  /** Creates a program's pipelines and bind groups, and runs its one-time dispatches. */
  async prepare(id: number): Promise<void> {
    const program = this.#program(id);
    const all = [...program.once, ...program.dispatches];
    const used = all.map((dispatch) => this.#pipeline(program, dispatch));
    const made = await Promise.allSettled(used.map(({ made }) => made));
    if (this.#lost) throw this.#lost;
    if (!this.#programs.has(id)) throw fail('aborted', 'the program was dropped while it was compiled');
    made.forEach((result, i) => {
      if (result.status === 'rejected') throw result.reason;
      all[i]!.pipeline = result.value;
    });
    await this.guarded(() => {
      all.forEach((dispatch, i) => {
        dispatch.group = this.device.createBindGroup({
          label: dispatch.label,
          layout: used[i]!.layout,
          entries: dispatch.entries.map(({ buffer, offset, size }, binding) => ({
            binding, resource: { buffer, offset, size },
          })),
        });
      });
      if (program.once.length > 0) {
        const encoder = this.device.createCommandEncoder({ label: 'once' });
        this.#pass(encoder, program.once, 0, program.once.length);
        this.device.queue.submit([encoder.finish()]);
        program.once = [];
      }
    });
    program.ready = true;
  }

  #layout(entries: Dispatch['entries']): { key: string; group: GPUBindGroupLayout; pipeline: GPUPipelineLayout } {
    const key = entries.map(({ writable }) => (writable ? 'w' : 'r')).join('');
    let layout = this.#layouts.get(key);
    if (!layout) {
      const group = this.device.createBindGroupLayout({
        label: key,
        entries: entries.map(({ writable }, binding) => ({
          binding, visibility: COMPUTE, buffer: { type: writable ? 'storage' : 'read-only-storage' },
        })),
      });
      layout = { group, pipeline: this.device.createPipelineLayout({ bindGroupLayouts: [group] }) };
      this.#layouts.set(key, layout);
    }
    return { key, ...layout };
  }

  #pipeline(program: Program, dispatch: Dispatch): Pipeline {
    const layout = this.#layout(dispatch.entries);
    const key = `${layout.key}\n${dispatch.source}`;
    let pipeline = this.#pipelines.get(key);
    if (!pipeline) {
      pipeline = { made: this.#compile(dispatch, layout.pipeline), layout: layout.group, users: 0 };
      this.#pipelines.set(key, pipeline);
      // A failed pipeline is not reused.
      pipeline.made.catch(() => this.#pipelines.delete(key));
    }
    if (!program.held.has(key)) {
      program.held.add(key);
      pipeline.users++;
    }
    return pipeline;
  }

  async #compile({ source, label }: Dispatch, layout: GPUPipelineLayout): Promise<GPUComputePipeline> {
    // The pipeline's own error describes the problem with the module. This scope only prevents a second
    // report.
    this.device.pushErrorScope('validation');
    const module = this.device.createShaderModule({ code: source, label });
    const scope = this.device.popErrorScope();
    try {
      const [made] = await Promise.all([
        this.device.createComputePipelineAsync({ label, layout, compute: { module } }), scope,
      ]);
      return made;
    } catch (thrown) {
      await scope.catch(() => undefined);
      const info = await module.getCompilationInfo().catch(() => null);
      const notes = (info?.messages ?? []).filter(({ type }) => type === 'error')
        .map(({ message, lineNum, linePos }) => `${lineNum}:${linePos}: ${message}`);
      throw new GradloomError({
        kind: 'device', notes,
        message: `the kernel \`${label}\` did not compile: ${thrown instanceof Error ? thrown.message : String(thrown)}`,
      });
    }
  }

  #pass(encoder: GPUCommandEncoder, dispatches: readonly Dispatch[], from: number, to: number): void {
    const pass = encoder.beginComputePass();
    let last: GPUComputePipeline | undefined;
    for (let i = from; i < to; i++) {
      const { pipeline, group, workgroups } = dispatches[i]!;
      if (pipeline !== last) pass.setPipeline(pipeline!);
      last = pipeline;
      pass.setBindGroup(0, group!);
      pass.dispatchWorkgroups(workgroups[0], workgroups[1], workgroups[2]);
    }
    pass.end();
  }

  /**
   * Encodes the commands of a step. They are always the same, but a command buffer can be submitted only
   * once.
   */
  #encode(program: Program): NonNullable<Program['next']> {
    const staging = program.stagingBytes === 0 ? null
      : program.idle.pop() ?? this.#make(program.stagingBytes, USAGE.mapRead | USAGE.copyTarget, 'staging');
    const encoder = this.device.createCommandEncoder();
    for (const { buffer, offset, bytes } of program.clears) {
      if (bytes > 0) encoder.clearBuffer(buffer, offset, bytes);
    }
    const all = program.dispatches;
    const pause = program.pause < 0 ? all.length : Math.min(program.pause, all.length);
    const copy = (wanted: boolean) => {
      if (!staging) return;
      for (const { buffer, offset, bytes, to, late } of program.copies) {
        if (late === wanted && bytes > 0) encoder.copyBufferToBuffer(buffer, offset, staging, to, bytes);
      }
    };
    this.#pass(encoder, all, 0, pause);
    copy(false);
    if (pause < all.length) this.#pass(encoder, all, pause, all.length);
    copy(true);
    return { commands: encoder.finish(), staging };
  }

  #submit(id: number): number {
    const program = this.#program(id);
    if (!program.ready) throw fail('internal', 'a program was run before its pipelines were made');
    const { commands, staging } = program.next ?? this.#encode(program);
    program.next = null;
    this.device.queue.submit([commands]);
    this.#submits++;
    const ticket = this.#nextId++;
    this.#tickets.set(ticket, { program: id, staging });
    return ticket;
  }

  /** Drops a ticket, and recycles its staging buffer. */
  #dropTicket(id: number): void {
    const ticket = this.#tickets.get(id);
    if (!ticket) return;
    this.#tickets.delete(id);
    if (!ticket.staging) return;
    const program = this.#programs.get(ticket.program);
    if (program && ticket.staging.mapState === 'unmapped') program.idle.push(ticket.staging);
    else this.#unmake(ticket.staging);
  }

  /** Waits for a ticket and passes the results of its step to `use`; they are valid only during the call. */
  async read(id: number, use: (bytes: Uint8Array) => void): Promise<void> {
    const ticket = this.#tickets.get(id);
    if (!ticket) throw fail('internal', `there is no ticket ${id}`);
    const { staging } = ticket;
    if (staging) {
      try {
        const mapped = staging.mapAsync(READ);
        // The next step's commands are encoded while the device works.
        const program = this.#programs.get(ticket.program);
        if (program && !this.#lost) program.next ??= this.#encode(program);
        await mapped;
      } catch (thrown) {
        const ours = this.#destroyed || !this.#programs.has(ticket.program);
        const error = this.#fault ?? fail(ours ? 'aborted' : 'device',
          `the results could not be read: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
        throw ours ? error : await this.#lostOr(error);
      }
      try {
        if (!this.#fault) use(new Uint8Array(staging.getMappedRange()));
      } finally {
        staging.unmap();
      }
    } else {
      await this.done();
    }
    this.#dropTicket(id);
    if (this.#lost) throw this.#lost;
    const fault = this.#fault;
    this.#fault = null;
    if (fault) throw fault;
  }

  /**
   * Returns the reason for a failed mapping: a lost device rejects its mappings first, and reports the loss
   * shortly after.
   */
  #lostOr(error: GradloomError): Promise<GradloomError> {
    return Promise.race([this.lost, new Promise<GradloomError>((resolve) => setTimeout(() => resolve(error), 100))]);
  }

  /** Resolves when all submitted work is done. */
  async done(): Promise<void> {
    await this.device.queue.onSubmittedWorkDone();
    if (this.#lost) throw this.#lost;
  }

  /** Writes tensors before any later submission, without copying them to wasm memory. */
  upload(list: readonly { buffer: number; at: number; data: ArrayBufferView }[]): void {
    for (const { buffer, at, data } of list) {
      const bytes = new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
      const [to, whole] = [this.#buffer(buffer), bytes.length - bytes.length % 4];
      for (let start = 0; start < whole; start += PIECE) {
        this.device.queue.writeBuffer(to, at + start, bytes, start, Math.min(PIECE, whole - start));
      }
      // Writes are in words; the bytes after an entry, up to its alignment, are padding.
      const rest = new Uint8Array(4);
      rest.set(bytes.subarray(whole));
      if (whole < bytes.length) this.device.queue.writeBuffer(to, at + whole, rest);
    }
  }

  /** Copies ranges of buffers after all work submitted so far. */
  async ranges(list: readonly { buffer: number; at: number; bytes: number }[]): Promise<ArrayBuffer[]> {
    const words = (bytes: number) => Math.ceil(bytes / 4) * 4;
    const most = Math.min(PIECE, this.device.limits.maxBufferSize);
    // Pieces of ranges share staging buffers, whose size is limited.
    const groups: { bytes: number; pieces: { of: number; start: number; bytes: number; to: number }[] }[] = [];
    list.forEach(({ bytes: all }, of) => {
      for (let start = 0; start < all; start += most) {
        const bytes = Math.min(most, all - start);
        let group = groups.at(-1);
        if (!group || group.bytes + words(bytes) > most) groups.push(group = { bytes: 0, pieces: [] });
        group.pieces.push({ of, start, bytes, to: group.bytes });
        group.bytes += words(bytes);
      }
    });
    const stagings: GPUBuffer[] = [];
    try {
      // A single submission copies all ranges, so they belong to the same step.
      const encoder = this.device.createCommandEncoder({ label: 'download' });
      for (const { bytes: size, pieces } of groups) {
        const staging = this.#make(size, USAGE.mapRead | USAGE.copyTarget, 'download');
        stagings.push(staging);
        for (const { of, start, bytes, to } of pieces) {
          encoder.copyBufferToBuffer(this.#buffer(list[of]!.buffer), list[of]!.at + start, staging, to, words(bytes));
        }
      }
      this.device.queue.submit([encoder.finish()]);
      const out = list.map(({ bytes }) => new ArrayBuffer(bytes));
      for (const [i, { pieces }] of groups.entries()) {
        const staging = stagings[i]!;
        await staging.mapAsync(READ).catch(async (thrown: unknown) => {
          throw await this.#lostOr(fail('device', `the parameters could not be read: ${String(thrown)}`));
        });
        const mapped = staging.getMappedRange();
        for (const { of, start, bytes, to } of pieces) new Uint8Array(out[of]!, start, bytes).set(new Uint8Array(mapped, to, bytes));
        staging.unmap();
      }
      return out;
    } finally {
      for (const staging of stagings) this.#unmake(staging);
    }
  }

  #dropProgram(id: number): void {
    const program = this.#programs.get(id);
    if (!program) return;
    this.#programs.delete(id);
    for (const buffer of program.idle) this.#unmake(buffer);
    if (program.next?.staging) this.#unmake(program.next.staging);
    for (const [ticket, { program: owner }] of this.#tickets) if (owner === id) this.#dropTicket(ticket);
    for (const key of program.held) {
      const pipeline = this.#pipelines.get(key);
      if (pipeline && --pipeline.users === 0) this.#pipelines.delete(key);
    }
  }

  /** Destroys all objects and the device. */
  destroy(): void {
    this.#destroyed = true;
    for (const id of [...this.#programs.keys()]) this.#dropProgram(id);
    for (const buffer of this.#buffers.values()) this.#unmake(buffer);
    this.#buffers.clear();
    this.#layouts.clear();
    this.device.destroy();
  }
}

/** Returns true if a device ran out of memory. */
function isMemory(error: GPUError): boolean {
  return typeof GPUOutOfMemoryError !== 'undefined' && error instanceof GPUOutOfMemoryError;
}

/** Returns the error for an error of the device. */
function describe(error: GPUError): GradloomError {
  return isMemory(error)
    ? fail('device', `the GPU has not enough memory: ${error.message}`, 'a smaller batch needs less')
    : fail('device', `the GPU refused: ${error.message}`);
}
