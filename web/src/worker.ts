// The worker. In: requests of the page (protocol.ts). Out: a reply for each. Always holds: requests of a
// session are served in the order of arrival, each step with its own scalars; at most `IN_FLIGHT` submitted
// steps are not known to be complete; a request that was cancelled before it started is answered with
// 'aborted'; after a lost device, every answer is an error of kind 'lost'.

import { dataOf, storageOf, store, typeOf, type Data, type Dtype, type Stored } from './dtype.js';
import { errorValue, fail, type GradloomError } from './errors.js';
import { Gpu, requestDevice } from './gpu.js';
import { replay } from './log.js';
import { threadScope } from './node.js';
import type { Compiled, Counters, FromWorker, Request, Requests, Sent, StepReply, ToWorker } from './protocol.js';
import { serveThread, threadsOf, type Crew, type ThreadMessage } from './threads.js';
import { turn } from './turn.js';
import { Core, type Stored as Kept } from './wasm.js';

/** Maximum number of submitted steps that are not known to be complete. */
const IN_FLIGHT = 4;

/** The interface of the worker's global scope; tests provide another. */
export interface Scope {
  postMessage(message: FromWorker, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
}

interface Session {
  id: number;
  /** Requests so far, in order. */
  chain: Promise<unknown>;
  /** Submitted steps that are not known to be complete, oldest first. */
  flying: Promise<unknown>[];
  programs: Set<number>;
  /** Programs that are being compiled. */
  making: Set<Promise<unknown>>;
  dropped: boolean;
}

/** Constructors of the objects that the server depends on; tests provide others. */
export interface Makers {
  device(portable: boolean): Promise<Gpu>;
  core(module: WebAssembly.Module, gpu: Gpu | null, crew?: Crew): Promise<Core>;
}

const MAKERS: Makers = {
  device: async (portable) => {
    const { adapter, device } = await requestDevice(portable);
    return new Gpu(adapter, device);
  },
  core: (module, gpu, crew) => Core.create(module, gpu ? (core) => gpu.imports(core) : undefined, crew),
};

/** The elements of an upload, which arrive in pieces. */
class Arrival {
  /** Elements in their stored form. */
  readonly tensors: readonly (readonly [string, Stored])[];
  /** Resolves when all elements have arrived. */
  readonly done: Promise<void>;
  readonly #dtypes: readonly Dtype[];
  readonly #checked: boolean;
  #left: number;
  #resolve: () => void = () => undefined;
  #reject: (error: GradloomError) => void = () => undefined;

  constructor({ tensors, finite }: Requests['upload']['ask']) {
    this.tensors = tensors.map(([name, dtype, length]) => [name, new (storageOf(dtype))(length)]);
    this.#dtypes = tensors.map(([, dtype]) => dtype);
    this.#left = tensors.reduce((sum, [, , length]) => sum + length, 0);
    this.#checked = finite;
    this.done = new Promise((resolve, reject) => { [this.#resolve, this.#reject] = [resolve, reject]; });
    // Nothing may await the promise yet.
    this.done.catch(() => undefined);
    if (this.#left === 0) this.#resolve();
  }

  /** Stores elements of a tensor, from an index on; null means that no more will arrive. */
  take(tensor: number, at: number, data: Data | null): void {
    if (!data) return this.#reject(fail('store', `the elements of '${this.tensors[tensor]![0]}' are gone`, 'keep the arrays until uploadParams(..) is done'));
    const [name, all] = this.tensors[tensor]!;
    const wrong = this.#checked ? data.findIndex((value: number | bigint) => value !== value) : -1;
    if (wrong >= 0) this.#reject(fail('store', `'${name}' is NaN at element ${at + wrong}`, 'parameters are numbers: look at where they come from'));
    store(this.#dtypes[tensor]!, data, all, at);
    this.#left -= data.length;
    if (this.#left === 0) this.#resolve();
  }
}

/**
 * Returns the GPU locations of tensors with their elements. Throws if any does not fit, before anything is
 * written.
 */
function placesOf(kept: readonly Kept[], strict: boolean, tensors: readonly (readonly [string, Stored])[]): { buffer: number; at: number; data: Stored }[] {
  const given = new Set(tensors.map(([name]) => name));
  const missing = strict ? kept.filter(({ kind, name }) => kind === 'param' && !given.has(name)) : [];
  if (missing.length > 0) throw fail('store', `\`${missing[0]!.name}\` is missing`, 'upload all of them, or say that some are enough');
  const known = new Map(kept.map((entry) => [entry.name, entry]));
  return tensors.map(([name, data]) => {
    const entry = known.get(name);
    if (!entry) throw fail('store', `there is no parameter or state called \`${name}\``);
    if (data.byteLength !== entry.bytes) throw fail('store', `\`${name}\` (${typeOf(entry)}) takes ${entry.bytes} bytes, got ${data.byteLength}`);
    return { buffer: entry.buffer ?? -1, at: entry.at, data };
  });
}

/** Serves the requests of a scope. */
export class Server {
  readonly #scope: Scope;
  readonly #makers: Makers;
  #device: Promise<Gpu | null> | null = null;
  #gpu: Gpu | null = null;
  #core: Core | null = null;
  #crew: Crew | undefined;
  readonly #sessions = new Map<number, Session>();
  readonly #owners = new Map<number, Session>();
  /** Inputs of the last step of each training program. */
  readonly #last = new Map<number, Stored[]>();
  /** Ids of requests that have not been answered. */
  readonly #open = new Set<number>();
  readonly #cancelled = new Set<number>();
  /** Unfinished uploads. */
  readonly #arrivals = new Map<number, Arrival>();

  constructor(scope: Scope, makers: Makers = MAKERS) {
    this.#scope = scope;
    this.#makers = makers;
    scope.onmessage = ({ data }) => this.#receive(data);
  }

  #receive(message: ToWorker): void {
    if (message.kind === 'piece') {
      this.#arrivals.get(message.of)?.take(message.tensor, message.at, message.data);
      return;
    }
    if (message.kind === 'thread') {
      // Uncaught exceptions are reported to the page.
      this.#join(message).catch((thrown: unknown) => { setTimeout(() => { throw thrown; }); });
      return;
    }
    if (message.kind === 'cancel') {
      if (this.#open.has(message.of)) this.#cancelled.add(message.of);
      return;
    }
    const { id } = message;
    this.#open.add(id);
    const transfer: Transferable[] = [];
    this.#serve(message, transfer).then(
      (value) => this.#reply({ id, ok: true, value }, transfer),
      (thrown: unknown) => this.#reply({ id, ok: false, error: errorValue(this.#gpu?.lostError ?? thrown) }, []),
    );
  }

  /** Becomes a thread of another worker's module; this worker then serves no requests. */
  async #join({ module, crew, number }: ThreadMessage): Promise<never> {
    const core = await Core.create(module, undefined, crew, true);
    return serveThread(crew, number, (thread, argument) => core.runThread(thread, argument), () => this.#scope.postMessage({ event: 'waits' }, []));
  }

  #reply(message: Exclude<FromWorker, { event: string } | { part: Sent }>, transfer: Transferable[]): void {
    if (!this.#open.delete(message.id)) return;
    this.#cancelled.delete(message.id);
    this.#scope.postMessage(message, transfer);
  }

  async #serve(request: Request, transfer: Transferable[]): Promise<Requests[Request['kind']]['answer']> {
    switch (request.kind) {
      case 'start': return this.#start(request.device, request.portable);
      case 'load': return this.#load(request.module, request.crew);
      case 'compile': return this.#compile(request);
      case 'attach': return this.#attach(request);
      case 'step': case 'run': return this.#step(request, transfer);
      case 'upload': return this.#arrive(request);
      case 'download': return this.#download(request);
      case 'reset': return this.#inOrder(this.#session(request.session), () => {
        this.#ready().resetSession(request.session, request);
        return null;
      });
      case 'rate': return this.#inOrder(this.#owner(request.program), () => {
        this.#ready().rate(request.program, request.schedule);
        return this.#ready().attempted(request.program);
      });
      case 'lr': return this.#inOrder(this.#owner(request.program), () => this.#ready().lr(request.program));
      case 'inspect': this.#owner(request.program); return this.#ready().inspect(request.program, request.what);
      case 'release': return this.#release(request.program);
      case 'drop': return this.#drop(request.session);
      case 'counters': return this.#counters();
      case 'destroy': return this.#destroy();
    }
  }

  async #start(device: 'webgpu' | 'cpu', portable: boolean): Promise<{ device: string }> {
    this.#device = device === 'cpu' ? Promise.resolve(null) : this.#makers.device(portable);
    const gpu = await this.#device;
    this.#gpu = gpu;
    void gpu?.lost.then((error) => this.#lose(error));
    return { device: gpu ? gpu.name : 'CPU' };
  }

  async #load(module: WebAssembly.Module, crew: Crew | undefined): Promise<null> {
    const gpu = await this.#device;
    const core = await this.#makers.core(module, gpu, crew);
    if (gpu) core.limits(gpu.limits());
    this.#core = core;
    this.#crew = crew;
    return null;
  }

  /** Answers all open requests with the error, and notifies the page. */
  #lose(error: GradloomError): void {
    const value = errorValue(error);
    if (this.#core && !this.#core.dead) this.#core.lose(error.message);
    for (const id of [...this.#open]) this.#reply({ id, ok: false, error: value }, []);
    this.#scope.postMessage({ event: 'lost', error: value }, []);
  }

  #ready(): Core {
    if (!this.#core) throw fail('internal', 'the worker was not loaded');
    if (this.#gpu?.lostError) throw this.#gpu.lostError;
    return this.#core;
  }

  #session(id: number): Session {
    const session = this.#sessions.get(id);
    if (!session || session.dropped) throw fail('aborted', 'the model was replaced');
    return session;
  }

  #owner(program: number): Session {
    const session = this.#owners.get(program);
    if (!session || session.dropped) throw fail('aborted', 'the program is gone');
    return session;
  }

  /** Runs a job after all earlier requests of a session. */
  #inOrder<R>(session: Session, job: () => R | Promise<R>): Promise<R> {
    const done = session.chain.then(() => {
      if (session.dropped) throw fail('aborted', 'the model was replaced');
      return job();
    });
    session.chain = done.catch(() => undefined);
    return done;
  }

  /** Creates a program with its pipelines; leaves nothing behind if that fails. */
  async #prepared(describe: (core: Core) => number): Promise<number> {
    const core = this.#ready();
    const gpu = this.#gpu;
    if (!gpu) return describe(core);
    let program = -1;
    try {
      await gpu.guarded(() => { program = describe(core); });
      const kernels = program < 0 ? -1 : core.described(program);
      if (kernels >= 0) await gpu.prepare(kernels);
    } catch (thrown) {
      if (program >= 0) core.release('program', program);
      throw thrown;
    }
    return program;
  }

  async #compile({ log, seed, precision, optimizer }: Requests['compile']['ask']): Promise<Compiled> {
    const core = this.#ready();
    let id = -1;
    try {
      const program = await this.#prepared(() => {
        const trace = replay(core, log);
        if (this.#crew) core.threads(threadsOf(this.#crew));
        id = core.session(seed, this.#gpu ? 'gpu' : 'cpu', precision);
        return optimizer ? core.train(id, trace, optimizer) : -1;
      });
      const session: Session = {
        id, chain: Promise.resolve(), flying: [], programs: new Set(), making: new Set(), dropped: false,
      };
      this.#sessions.set(id, session);
      if (program >= 0) {
        session.programs.add(program);
        this.#owners.set(program, session);
      }
      return { session: id, program, unused: program < 0 ? [] : JSON.parse(core.inspect(program, 'unused')) as string[] };
    } catch (thrown) {
      if (id >= 0) core.release('session', id);
      throw thrown;
    }
  }

  async #attach({ session: id, log }: Requests['attach']['ask']): Promise<Compiled> {
    const core = this.#ready();
    const session = this.#session(id);
    const making = this.#prepared(() => core.forward(id, replay(core, log))).then((program) => {
      session.programs.add(program);
      return program;
    });
    // Dropping the session waits for this, and drops the program with it.
    session.making.add(making);
    let program: number;
    try {
      program = await making;
    } finally {
      session.making.delete(making);
    }
    if (session.dropped) throw fail('aborted', 'the model was replaced');
    this.#owners.set(program, session);
    return { session: id, program, unused: [] };
  }

  async #step(
    request: Extract<Request, { kind: 'step' | 'run' }>, transfer: Transferable[],
  ): Promise<StepReply> {
    const session = this.#owners.get(request.program);
    if (!session) return { kind: 'aborted' };
    const read = request.kind === 'run' || request.read;
    // The inner promise is for reading the results, which the next request does not wait for.
    const queued = session.chain.then(async (): Promise<{ reply: Promise<StepReply> }> => {
      const gone = () =>
        session.dropped || this.#cancelled.has(request.id) || !this.#owners.has(request.program);
      if (!this.#gpu) await turn();
      while (session.flying.length >= IN_FLIGHT && !gone()) await session.flying[0];
      if (gone()) return { reply: Promise.resolve({ kind: 'aborted' }) };
      const core = this.#ready();
      if (request.kind === 'step') this.#last.set(request.program, request.inputs);
      const inputs = request.kind === 'run' && request.of ? this.#part(request.of) : request.inputs;
      inputs.forEach((data, i) => core.feed(request.program, i, data));
      const step = core.step(request.program);
      const reply = this.#finish(step, read, transfer);
      const flight: Promise<unknown> = (read ? reply : this.#gpu?.done() ?? Promise.resolve())
        .catch(() => undefined)
        .then(() => { session.flying.splice(session.flying.indexOf(flight), 1); });
      session.flying.push(flight);
      // Nothing may await the promise yet.
      reply.catch(() => undefined);
      return { reply };
    });
    session.chain = queued.catch(() => undefined);
    return (await queued).reply;
  }

  /**
   * Returns a part of the inputs of a program's last step, cut along their first axes; scalars are not cut.
   */
  #part({ program, part, parts }: NonNullable<Requests['run']['ask']['of']>): Stored[] {
    const inputs = this.#last.get(program);
    if (!inputs) throw fail('feed', 'no step was made whose gradients could be had', 'give inputs: downloadParamGrads({ .. })');
    return inputs.map((data) => {
      const length = data.length / parts;
      return data.length > 1 ? data.subarray(part * length, (part + 1) * length) as Stored : data;
    });
  }

  /** Returns the results of a submitted step. */
  async #finish(step: number, read: boolean, transfer: Transferable[]): Promise<StepReply> {
    const core = this.#ready();
    try {
      if (!read && this.#gpu) return { kind: 'queued' };
      const ticket = core.ticket(step);
      if (ticket >= 0) await this.#gpu!.read(ticket, (bytes) => core.deliver(step, bytes));
      const outputs = core.result(step);
      if (!read) return { kind: 'queued' };
      return { kind: 'completed', outputs: outputs.map((output) => this.#sent(core, output, transfer)) };
    } finally {
      core.dropStep(step);
    }
  }

  #sent(core: Core, { name, dtype, shape, at, bytes }: Omit<Sent, 'data'> & { at: number; bytes: number }, transfer: Transferable[]): Sent {
    const memory = core.bytes(at, bytes);
    const data = dataOf(dtype, memory.buffer, memory.byteOffset, bytes);
    transfer.push(data.buffer);
    return { name, dtype, shape, data };
  }

  /** Waits for the elements of an upload, in the session's order. */
  async #arrive(request: Extract<Request, { kind: 'upload' }>): Promise<null> {
    const session = this.#session(request.session);
    const arrival = new Arrival(request);
    this.#arrivals.set(request.id, arrival);
    try {
      return await this.#inOrder(session, async () => {
        await arrival.done;
        return this.#upload(request, arrival.tensors);
      });
    } finally {
      this.#arrivals.delete(request.id);
    }
  }

  #upload({ session, strict, at }: Requests['upload']['ask'], tensors: readonly (readonly [string, Stored])[]): null {
    const core = this.#ready();
    if (at) {
      const given = new Set(tensors.map(([name]) => name));
      const missing = core.store(session).filter(({ name }) => !given.has(name)).map(({ name }) => name);
      if (missing.length > 0) {
        throw fail('store', `the state lacks ${missing.length} tensors: ${missing.slice(0, 6).join(', ')}${missing.length > 6 ? ', ..' : ''}`,
          'it must be of the same model and optimizer; uploadParams(..) takes parameters alone');
      }
      const types = new Map(core.store(session).map((kept) => [kept.name, typeOf(kept)]));
      tensors.forEach(([name], i) => {
        const [is, wanted] = [at.types[i]!, types.get(name) ?? at.types[i]!];
        if (is !== wanted) throw fail('store', `'${name}' of the state is ${is}; here it is ${wanted}`, 'it must be of the same model and optimizer');
      });
    }
    if (this.#gpu) {
      const places = placesOf(core.store(session), strict, tensors);
      core.fill(session, strict);
      this.#gpu.upload(places);
    } else core.upload(session, strict, tensors);
    if (at) {
      core.countFrom(at.program, at.attempted);
      if (at.schedule) core.rate(at.program, [0, ...at.schedule]);
    }
    return null;
  }

  async #download({ id: request, session: id, states, program }: Extract<Request, { kind: 'download' }>): Promise<Requests['download']['answer']> {
    const session = this.#session(id);
    // Each tensor has its own message, so that none blocks the page for long.
    const send = (part: Sent) => {
      if (this.#open.has(request)) this.#scope.postMessage({ id: request, part }, [part.data.buffer]);
    };
    const copied = await this.#inOrder(session, () => {
      const core = this.#ready();
      core.fill(id, false);
      const wanted = core.store(id).filter(({ kind }) => states || kind === 'param');
      const attempted = program === undefined ? 0 : core.attempted(program);
      const gpu = this.#gpu;
      if (!gpu) {
        for (const tensor of wanted) send(this.#sent(core, tensor, []));
        return { done: Promise.resolve(), attempted };
      }
      // The copies are submitted here, in order; only reading them is deferred.
      const done = gpu.ranges(wanted.map(({ buffer, at, bytes }) => ({ buffer: buffer ?? -1, at, bytes }))).then((buffers) => {
        wanted.forEach(({ name, dtype, shape }, i) => send({ name, dtype, shape, data: dataOf(dtype, buffers[i]!, 0, buffers[i]!.byteLength) }));
      });
      done.catch(() => undefined);
      return { done, attempted };
    });
    await copied.done;
    return { tensors: [], attempted: copied.attempted };
  }

  async #release(program: number): Promise<null> {
    const session = this.#owners.get(program);
    if (!session) return null;
    // Runs that were requested before are completed first.
    await session.chain;
    this.#owners.delete(program);
    this.#last.delete(program);
    await Promise.all(session.flying);
    // The session and its programs may have been dropped meanwhile.
    if (session.programs.delete(program) && !session.dropped) this.#ready().release('program', program);
    return null;
  }

  async #drop(id: number): Promise<null> {
    const session = this.#sessions.get(id);
    if (!session) return null;
    session.dropped = true;
    this.#sessions.delete(id);
    await this.#idle(session);
    const core = this.#ready();
    for (const program of session.programs) {
      this.#owners.delete(program);
      this.#last.delete(program);
    }
    // After a trap, nothing can be released.
    if (core.dead) return null;
    for (const program of session.programs) core.release('program', program);
    core.release('session', id);
    return null;
  }

  /** Waits until a session has no unfinished requests. */
  async #idle(session: Session): Promise<void> {
    await session.chain;
    await Promise.all(session.flying);
    await Promise.allSettled(session.making);
  }

  #counters(): Counters {
    const none = { liveBuffers: 0, liveBytes: 0, livePrograms: 0, livePipelines: 0, liveTickets: 0, submits: 0 };
    return {
      ...(this.#gpu?.counters() ?? none),
      sessions: this.#sessions.size, programs: this.#owners.size, wasmBytes: this.#core?.memoryBytes ?? 0,
    };
  }

  async #destroy(): Promise<Counters> {
    try {
      await Promise.all([...this.#sessions.keys()].map((id) => this.#drop(id)));
      return this.#counters();
    } finally {
      // A device that is still being requested is destroyed, too.
      (await this.#device?.catch(() => null))?.destroy();
    }
  }
}

// Serves requests in a worker or a thread of Node.js. Does nothing in tests, which import this file
// elsewhere.
const scope = globalThis as unknown as Scope & { WorkerGlobalScope?: unknown };
const thread = threadScope();
if (scope.WorkerGlobalScope !== undefined) new Server(scope);
else if (thread) new Server(thread);
