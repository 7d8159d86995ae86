// What the page and the worker say to each other. In: requests with ids. Out: one reply for each, or the end
// of the worker for all of them. What always holds: whatever happens (an error in the worker, a lost device,
// `close`), every request settles once; errors keep their kind and have the stack of the user's call.

import type { Data, Dtype, Stored } from './dtype.js';
import { turns } from './turn.js';
import { errorValue, fail, type GradloomError, rebuild, type ErrorValue } from './errors.js';
import type { LogValue } from './log.js';
import type { Crew, ThreadMessage } from './threads.js';
import type { INSPECT, Precision } from './wasm.js';

/** A tensor that crosses; `data` is transferred. */
export interface Sent {
  name: string;
  dtype: Dtype;
  shape: number[];
  data: Data;
}

/** What a step or run gave. */
export type StepReply =
  | { kind: 'completed'; outputs: Sent[] }
  | { kind: 'queued' }
  | { kind: 'aborted' };

/** What is alive, for tests. */
export interface GpuCounters {
  liveBuffers: number;
  liveBytes: number;
  livePrograms: number;
  livePipelines: number;
  liveTickets: number;
  submits: number;
}

/** What is alive in a worker. */
export interface Counters extends GpuCounters {
  sessions: number;
  programs: number;
  wasmBytes: number;
}

/** A program that was compiled. */
export interface Compiled {
  session: number;
  program: number;
  /** Parameters that the loss does not depend on. */
  unused: string[];
}

/** Where a training program is: what a checkpoint has beside tensors. */
export interface Position {
  /** Steps that were attempted: the schedule follows it, and the random numbers of a step. */
  attempted: number;
  /** The schedule that was set, as numbers; null for that of the optimizer. */
  schedule: number[] | null;
}

/** Requests: what is asked, and what is answered. */
export interface Requests {
  /** Asks for the device; the first request. */
  start: { ask: { device: 'webgpu' | 'cpu'; portable: boolean }; answer: { device: string } };
  /** Makes the instance. */
  load: { ask: { module: WebAssembly.Module; crew?: Crew | undefined }; answer: null };
  /**
   * A session over the log's model, and, with an optimizer, the training program of its trace; without one,
   * `program` is -1.
   */
  compile: { ask: { log: LogValue; seed: number; precision: Precision; optimizer: number[] | null }; answer: Compiled };
  /** A forward program that shares a session's parameters. */
  attach: { ask: { session: number; log: LogValue }; answer: Compiled };
  step: { ask: { program: number; inputs: Stored[]; read: boolean }; answer: StepReply };
  /** Runs a forward program on these inputs, or on part `part` of `parts` of those of a program's last step. */
  run: { ask: { program: number; inputs: Stored[]; of?: { program: number; part: number; parts: number } }; answer: StepReply };
  /**
   * With `strict`, every parameter must be there, and with `finite` no element is NaN; with a program and a position,
   * everything that is kept must be there, and it goes on from there.
   */
  upload: {
    ask: {
      session: number; strict: boolean; finite: boolean;
      /** Names, dtypes, and numbers of elements, which follow in pieces. */
      tensors: [string, Dtype, number][];
      at?: Position & { program: number; types: string[] };
    };
    answer: null;
  };
  /** Parameters; with `states` also what is kept beside them, and, with a training program, its attempted steps. */
  download: { ask: { session: number; states: boolean; program?: number }; answer: { tensors: Sent[]; attempted: number } };
  reset: { ask: { session: number } & Parts; answer: null };
  /** A schedule, behind whether it counts from the next step; gives the number of steps before that. */
  rate: { ask: { program: number; schedule: number[] }; answer: number };
  lr: { ask: { program: number }; answer: number };
  inspect: { ask: { program: number; what: keyof typeof INSPECT }; answer: string };
  /** Drops a program. */
  release: { ask: { program: number }; answer: null };
  /** Drops a session: steps of it that were not begun are aborted. */
  drop: { ask: { session: number }; answer: null };
  counters: { ask: Record<never, never>; answer: Counters };
  /** Drops everything; the last request. */
  destroy: { ask: Record<never, never>; answer: Counters };
}

/** The parts that `reset` sets back: parameters, the model's states, what the optimizer keeps. */
export interface Parts {
  params: boolean;
  states: boolean;
  optimizer: boolean;
}

/** Names of requests. */
export type Kind = keyof Requests;

/** A request as it is posted. */
export type Request = { [K in Kind]: { id: number; kind: K } & Requests[K]['ask'] }[Kind];

/** Elements of a tensor of an upload, from a place on; null if there will be none. */
export interface Piece {
  kind: 'piece';
  of: number;
  tensor: number;
  at: number;
  data: Data | null;
}

/** Everything the page posts: requests, parts of them, and the wish that one need not be done any more. */
export type ToWorker = Request | Piece | ThreadMessage | { kind: 'cancel'; of: number };

/** Elements of a piece. */
const PIECE = 1 << 20;

/** Everything the worker posts: tensors of a download one by one, replies, and what was not asked for. */
export type FromWorker =
  | { id: number; part: Sent }
  | { id: number; ok: true; value: unknown }
  | { id: number; ok: false; error: ErrorValue }
  | { event: 'lost'; error: ErrorValue }
  | { event: 'waits' };

/** What a client needs of a worker. */
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
  /** Tensors that came before the reply. */
  parts: Sent[];
}

/** The page's end. */
export class Client {
  readonly #port: Port;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #over: GradloomError | null = null;
  #lost: GradloomError | null = null;
  #onLost: (error: GradloomError) => void = () => undefined;
  /** Settles with the error if the device is lost or the worker dies. */
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

  /** Requests that are not settled. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** The error of a lost device or a dead worker. */
  get lostError(): GradloomError | null {
    return this.#lost;
  }

  /** Asks. `site` is an Error made where the user called; `began` hears the request's id. */
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
   * Uploads copies of arrays. Small ones are taken at once; of large ones, all but the beginning when the thread has
   * time, and still before whatever is asked next is done.
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
        // Empty, if it was handed over meanwhile.
        const data = array.length === lengths[tensor] ? array.slice(at, at + PIECE) : null;
        this.#port.postMessage({ kind: 'piece', of, tensor, at, data }, data ? [data.buffer] : []);
        if (!data) return;
      }
    }
  }

  /** A request need not be done any more: if it was not begun, it is answered with 'aborted'. */
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

  /** The device is gone: nothing that is pending can be done. */
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
   * Ends it: everything pending is rejected with 'aborted' at once; then the worker drops what it has, and
   * ends.
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
