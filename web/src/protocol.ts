// Messages between the page and the worker. In: requests with ids. Out: one reply for each, or the end of the
// worker for all of them. Always holds: whatever happens (an error in the worker, a lost device, `close`),
// every request settles exactly once; errors keep their kind and have the stack of the user's call.

import type { Data, Dtype, Stored } from './dtype.js';
import { turns } from './turn.js';
import { errorValue, fail, type GradloomError, rebuild, type ErrorValue } from './errors.js';
import type { LogValue } from './log.js';
import type { Crew, ThreadMessage } from './threads.js';
import type { INSPECT, Precision } from './wasm.js';

/** A tensor in a message; `data` is transferred. */
export interface Sent {
  name: string;
  dtype: Dtype;
  shape: number[];
  data: Data;
}

/** Result of a step or run. */
export type StepReply =
  | { kind: 'completed'; outputs: Sent[] }
  | { kind: 'queued' }
  | { kind: 'aborted' };

/** Numbers of existing objects, for tests. */
export interface GpuCounters {
  liveBuffers: number;
  liveBytes: number;
  livePrograms: number;
  livePipelines: number;
  liveTickets: number;
  submits: number;
}

/** Numbers of existing objects in a worker. */
export interface Counters extends GpuCounters {
  sessions: number;
  programs: number;
  wasmBytes: number;
}

/** A compiled program. */
export interface Compiled {
  session: number;
  program: number;
  /** Parameters that the loss does not depend on. */
  unused: string[];
}

/** Progress of a training program: the part of a checkpoint that is not tensors. */
export interface Position {
  /** Number of attempted steps, which determines the schedule and the random numbers of a step. */
  attempted: number;
  /** Schedule set by the user, as numbers; null for that of the optimizer. */
  schedule: number[] | null;
}

/** Requests with their arguments and answers. */
export interface Requests {
  /** Requests the device; the first request. */
  start: { ask: { device: 'webgpu' | 'cpu'; portable: boolean }; answer: { device: string } };
  /** Creates the instance. */
  load: { ask: { module: WebAssembly.Module; crew?: Crew | undefined }; answer: null };
  /**
   * Creates a session on the log's model and, with an optimizer, compiles the training program of its trace.
   * Without an optimizer, `program` is -1.
   */
  compile: { ask: { log: LogValue; seed: number; precision: Precision; optimizer: number[] | null }; answer: Compiled };
  /** Compiles a forward program that shares a session's parameters. */
  attach: { ask: { session: number; log: LogValue }; answer: Compiled };
  step: { ask: { program: number; inputs: Stored[]; read: boolean }; answer: StepReply };
  /**
   * Runs a forward program on these inputs, or on part `part` of `parts` of the inputs of a program's last
   * step.
   */
  run: { ask: { program: number; inputs: Stored[]; of?: { program: number; part: number; parts: number } }; answer: StepReply };
  /**
   * Uploads tensors. With `strict`, every parameter must be given; with `finite`, no element may be NaN. With
   * `at`, every parameter and state must be given, and the program continues from that position.
   */
  upload: {
    ask: {
      session: number; strict: boolean; finite: boolean;
      /** Names, dtypes, and numbers of elements; the elements follow in pieces. */
      tensors: [string, Dtype, number][];
      at?: Position & { program: number; types: string[] };
    };
    answer: null;
  };
  /**
   * Downloads the parameters, with `states` also the states, and with a training program its number of
   * attempted steps.
   */
  download: { ask: { session: number; states: boolean; program?: number }; answer: { tensors: Sent[]; attempted: number } };
  reset: { ask: { session: number } & Parts; answer: null };
  /**
   * Sets a schedule, preceded by whether it starts at the next step. Returns the number of steps before that.
   */
  rate: { ask: { program: number; schedule: number[] }; answer: number };
  lr: { ask: { program: number }; answer: number };
  inspect: { ask: { program: number; what: keyof typeof INSPECT }; answer: string };
  /** Drops a program. */
  release: { ask: { program: number }; answer: null };
  /** Drops a session; its steps that have not started are aborted. */
  drop: { ask: { session: number }; answer: null };
  counters: { ask: Record<never, never>; answer: Counters };
  /** Drops everything; the last request. */
  destroy: { ask: Record<never, never>; answer: Counters };
}

/** Parts to be reset: parameters, the model's states, and the state of the optimizer. */
export interface Parts {
  params: boolean;
  states: boolean;
  optimizer: boolean;
}

/** Names of requests. */
export type Kind = keyof Requests;

/** A request as posted. */
export type Request = { [K in Kind]: { id: number; kind: K } & Requests[K]['ask'] }[Kind];

/** A piece of a tensor in an upload: its elements from the index `at` on, or null if no more will arrive. */
export interface Piece {
  kind: 'piece';
  of: number;
  tensor: number;
  at: number;
  data: Data | null;
}

/** Messages of the page: requests, pieces of uploads, and cancellations. */
export type ToWorker = Request | Piece | ThreadMessage | { kind: 'cancel'; of: number };

/** Maximum number of elements in a piece. */
const PIECE = 1 << 20;

/** Messages of the worker: tensors of a download one by one, replies, and events. */
export type FromWorker =
  | { id: number; part: Sent }
  | { id: number; ok: true; value: unknown }
  | { id: number; ok: false; error: ErrorValue }
  | { event: 'lost'; error: ErrorValue }
  | { event: 'waits' };

/** The interface of a worker that a client requires. */
export interface Port {
  postMessage(message: ToWorker, transfer: Transferable[]): void;
  terminate(): void;
  onmessage: ((event: MessageEvent<FromWorker>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  onmessageerror?: ((event: MessageEvent) => void) | null;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: GradloomError): void;
  site: Error;
  /** Tensors that arrived before the reply. */
  parts: Sent[];
}

/** The page's end of the connection. */
export class Client {
  readonly #port: Port;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #over: GradloomError | null = null;
  #lost: GradloomError | null = null;
  #onLost: (error: GradloomError) => void = () => undefined;
  /** Resolves with the error if the device is lost or the worker fails. */
  readonly lost: Promise<GradloomError>;

  constructor(port: Port) {
    this.#port = port;
    this.lost = new Promise((resolve) => { this.#onLost = resolve; });
    port.onmessage = ({ data }) => this.#receive(data);
    port.onerror = (event) => {
      event.preventDefault?.();
      this.#die(fail('internal', `the worker failed: ${event.message || 'it could not be started'}`,
        'worker.js must be served beside the script; from another origin, with the header Access-Control-Allow-Origin'));
    };
    port.onmessageerror = () => this.#die(fail('internal', 'a message of the worker could not be read'));
  }

  /** Number of pending requests. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** Returns the error of a lost device or a failed worker. */
  get lostError(): GradloomError | null {
    return this.#lost;
  }

  /**
   * Sends a request and returns its answer. `site` is an Error created in the user's call; `began` is called
   * with the request's id.
   */
  ask<K extends Kind>(
    kind: K, what: Requests[K]['ask'], transfer: Transferable[] = [], site: Error = new Error(), began?: (id: number) => void,
  ): Promise<Requests[K]['answer']> {
    const refused = this.#over ?? this.#lost;
    if (refused) return Promise.reject(rebuild(errorValue(refused), site));
    const id = this.#nextId++;
    const answer = new Promise<Requests[K]['answer']>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject, site, parts: [] });
    });
    try {
      this.#port.postMessage({ id, kind, ...what } as unknown as Request, transfer);
    } catch (thrown) {
      this.#waiting.delete(id);
      return Promise.reject(fail('internal', `the request \`${kind}\` could not be posted: ${String(thrown)}`));
    }
    began?.(id);
    return answer;
  }

  /**
   * Uploads copies of arrays. Small arrays are copied immediately. The rest of a large one is copied when the
   * thread has time, but before any later request is served.
   */
  upload(what: Omit<Requests['upload']['ask'], 'tensors'>, tensors: readonly { name: string; dtype: Dtype; data: Data }[], site: Error): Promise<null> {
    let id: number | undefined;
    const shapes = tensors.map(({ name, dtype, data }): [string, Dtype, number] => [name, dtype, data.length]);
    const answer = this.ask('upload', { ...what, tensors: shapes }, [], site, (given) => { id = given; });
    if (id !== undefined) void this.#send(id, tensors.map(({ data }) => data));
    return answer;
  }

  async #send(of: number, arrays: readonly Data[]): Promise<void> {
    const pause = turns();
    const lengths = arrays.map(({ length }) => length);
    for (const [tensor, array] of arrays.entries()) {
      for (let at = 0; at < lengths[tensor]!; at += PIECE) {
        const turned = pause();
        if (turned) await turned;
        if (!this.#waiting.has(of) || this.#over) return;
        // The array is empty if it was transferred meanwhile.
        const data = array.length === lengths[tensor] ? array.slice(at, at + PIECE) : null;
        this.#port.postMessage({ kind: 'piece', of, tensor, at, data }, data ? [data.buffer] : []);
        if (!data) return;
      }
    }
  }

  /** Cancels a request: if it has not started, it is answered with 'aborted'. */
  cancel(id: number): void {
    if (this.#waiting.has(id) && !this.#over) this.#port.postMessage({ kind: 'cancel', of: id }, []);
  }

  #receive(message: FromWorker): void {
    if ('event' in message) {
      if (message.event === 'waits') return;
      this.#lose(rebuild(message.error));
      return;
    }
    const waiting = this.#waiting.get(message.id);
    if (!waiting) return;
    if ('part' in message) {
      waiting.parts.push(message.part);
      return;
    }
    this.#waiting.delete(message.id);
    if (message.ok) waiting.resolve(waiting.parts.length > 0 ? { ...message.value as object, tensors: waiting.parts } : message.value);
    else waiting.reject(rebuild(message.error, waiting.site));
  }

  /** Rejects all pending requests, since the device is lost. */
  #lose(error: GradloomError): void {
    if (this.#lost || this.#over) return;
    this.#lost = error;
    this.#settle(error);
    this.#onLost(error);
  }

  #die(error: GradloomError): void {
    this.#lose(error);
    this.#port.terminate();
  }

  #settle(error: GradloomError): void {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    const value = errorValue(error);
    for (const { reject, site } of all) reject(rebuild(value, site));
  }

  /**
   * Ends the connection: all pending requests are rejected with 'aborted' immediately; then the worker drops
   * everything and ends.
   */
  async close(patience = 2000): Promise<Counters | null> {
    if (this.#over) return null;
    const alive = !this.#lost;
    this.#settle(fail('aborted', 'it was destroyed'));
    const bye = alive ? this.ask('destroy', {}).catch(() => null) : Promise.resolve(null);
    this.#over = fail('destroyed', 'it was destroyed before', 'compile again to go on');
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<null>((resolve) => { timer = setTimeout(() => resolve(null), patience); });
    const counters = await Promise.race([bye, late]);
    clearTimeout(timer);
    this.#settle(fail('aborted', 'it was destroyed'));
    this.#port.onmessage = null;
    this.#port.onerror = null;
    this.#port.terminate();
    return counters;
  }
}
