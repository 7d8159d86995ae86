// Errors. In: what the wasm module writes as JSON, or what the face itself finds. Out: a `GradloomError`
// whose `kind` says what went wrong and whose `message` is enough to act on. They cross the worker boundary
// as plain values (`ErrorValue`) and are rebuilt on the other side; nothing of ours is ever thrown as another
// class.

/** Where the user's code was, as far as a stack tells. */
export interface Origin {
  file: string;
  line: number;
  column: number;
}

/**
 * What kind of error it is. The first group comes out of the compiler, the second out of the browser's side.
 */
export type ErrorKind =
  | 'trace' | 'missing-gradient' | 'feed' | 'store' | 'plan' | 'device' | 'trap' | 'not-finite' | 'lost' | 'internal'
  | 'unsupported' | 'aborted' | 'destroyed' | 'network' | 'format'
  | (string & {});

/** An error as a value, as it is posted between threads. */
export interface ErrorValue {
  kind: ErrorKind;
  message: string;
  notes?: string[];
  help?: string[];
  op?: string;
  origin?: Origin | null;
  rendered?: string;
}

/** Every error that this package throws or returns. */
export class GradloomError extends Error {
  /** What kind of error it is. */
  readonly kind: ErrorKind;
  /** Further facts. */
  readonly notes: readonly string[];
  /** What can be done about it. */
  readonly help: readonly string[];
  /** The op that was being traced, or an empty string. */
  readonly op: string;
  /** The user's line that the error is about. */
  readonly origin: Origin | null;
  /** Everything above in one text, with the source line where it could be read. */
  rendered: string;

  constructor(value: ErrorValue, options?: ErrorOptions) {
    super(text(value), options);
    this.name = 'GradloomError';
    this.kind = value.kind;
    this.notes = value.notes ?? [];
    this.help = value.help ?? [];
    this.op = value.op ?? '';
    this.origin = value.origin ?? null;
    this.rendered = value.rendered || this.message;
  }
}

/**
 * An error found while a model is traced: shapes or dtypes that do not agree, a tensor used outside of its
 * trace.
 */
export class ShapeError extends GradloomError {
  constructor(value: ErrorValue, options?: ErrorOptions) {
    super(value, options);
    this.name = 'ShapeError';
  }
}

function text(value: ErrorValue): string {
  const lines = [value.message];
  for (const note of value.notes ?? []) lines.push(`note: ${note}`);
  for (const help of value.help ?? []) lines.push(`help: ${help}`);
  return lines.join('\n');
}

/** Methods of tensors, once there are any: a worker has none. */
const methods = new Set<string>();

/** Says which methods tensors have, so that remedies name no others. */
export function knowMethods(names: Iterable<string>): void {
  for (const name of names) methods.add(name);
}

/** A text of the Rust library with its code as a script has it. */
function inScript(text: string): string {
  return text
    .replace(/\bDType::(\w+)/g, (_, name: string) => `'${name.toLowerCase()}'`)
    .replace(/\bf(?:32|64)::(?:NEG_)?INFINITY\b/g, (name) => (name.includes('NEG') ? '-Infinity' : 'Infinity'))
    .replace(/\.([a-z]\w*_\w*)\(/g, (_, name: string) => `.${name.replace(/_([a-z0-9])/g, (__, letter: string) => letter.toUpperCase())}(`);
}

/** Whether a remedy names what a script has not: paths, types and methods of the Rust library. */
function isRust(line: string): boolean {
  const called = [...line.matchAll(/(?<![\w)\]])\.([a-z]\w*)\(/g)].map(([, name]) => name!);
  return /::|\b(?:usize|isize|f64|Vec|Option|unwrap)\b|\b(?:Some|Ok)\(|&mut\b|\|[a-z, ]+\|/.test(line)
    || (methods.size > 0 && called.some((name) => !methods.has(name)));
}

/** An error of the module as a script understands it, without remedies that it has not. */
export function withoutRust(value: ErrorValue): ErrorValue {
  const lines = (text: string) => text.split('\n').map(inScript).filter((line) => !(/^\s*(= )?help: /.test(line) && isRust(line))).join('\n');
  return {
    ...value, message: inScript(value.message),
    ...(value.notes && { notes: value.notes.map(inScript) }),
    ...(value.help && { help: value.help.map(inScript).filter((line) => !isRust(line)) }),
    ...(value.rendered !== undefined && { rendered: lines(value.rendered) }),
  };
}

/** The error that a value describes. */
export function errorOf(value: ErrorValue, options?: ErrorOptions): GradloomError {
  return value.kind === 'trace' ? new ShapeError(value, options) : new GradloomError(value, options);
}

/** An error of the given kind, with lines of help. */
export function fail(kind: ErrorKind, message: string, ...help: string[]): GradloomError {
  return errorOf({ kind, message, help });
}

/** Anything that was thrown, as a value that can be posted. */
export function errorValue(thrown: unknown): ErrorValue {
  if (thrown instanceof GradloomError) {
    // `message` is notes and help too; they are told apart again on the other side.
    const message = thrown.message.split('\nnote: ')[0]!.split('\nhelp: ')[0]!;
    const { kind, op, origin, rendered } = thrown;
    return { kind, message, notes: [...thrown.notes], help: [...thrown.help], op, origin, rendered };
  }
  if (thrown instanceof Error) {
    return { kind: 'internal', message: `${thrown.name}: ${thrown.message}`, notes: thrown.stack ? [thrown.stack] : [] };
  }
  return { kind: 'internal', message: String(thrown) };
}

/**
 * The error that a value describes, with the stack of the call that asked for it: `site` is an Error made
 * there.
 */
export function rebuild(value: ErrorValue, site?: Error): GradloomError {
  const error = errorOf(withoutRust(value));
  const frames = site?.stack;
  if (frames !== undefined) {
    // V8 begins a stack with "Error\n", the others do not.
    const body = frames.startsWith('Error') ? frames.slice(frames.indexOf('\n') + 1) : frames;
    error.stack = `${error.name}: ${error.message}\n${body}`;
  }
  return error;
}
