// Errors. In: JSON from the wasm module, or a problem found here. Out: a `GradloomError` whose `kind`
// classifies the problem and whose `message` suffices to act on it. Errors cross the worker boundary as plain
// values (`ErrorValue`) and are rebuilt on the other side; this package throws no other class.

/** A location in the user's code, as found in a stack. */
export interface Origin {
  file: string;
  line: number;
  column: number;
}

/** The kind of an error. The first group is from the compiler, the second from the browser's side. */
export type ErrorKind =
  | 'trace' | 'missing-gradient' | 'feed' | 'store' | 'plan' | 'device' | 'trap' | 'not-finite' | 'lost' | 'internal'
  | 'unsupported' | 'aborted' | 'destroyed' | 'network' | 'format'
  | (string & {});

/** An error as a plain value, as posted between threads. */
export interface ErrorValue {
  kind: ErrorKind;
  message: string;
  notes?: string[];
  help?: string[];
  op?: string;
  origin?: Origin | null;
  rendered?: string;
}

/** The class of all errors that this package throws or returns. */
export class GradloomError extends Error {
  /** Kind of the error. */
  readonly kind: ErrorKind;
  /** Additional facts. */
  readonly notes: readonly string[];
  /** Possible remedies. */
  readonly help: readonly string[];
  /** Op that was being traced, or an empty string. */
  readonly op: string;
  /** The user's line that caused the error. */
  readonly origin: Origin | null;
  /** All of the above as one text, with the source line if it could be read. */
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
 * An error found while a model is traced, such as shapes or dtypes that do not match, or a tensor used
 * outside of its trace.
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

/** Methods of tensors, or empty in a worker, which has no tensors. */
const methods = new Set<string>();

/** Registers the methods of tensors, so that remedies name only existing ones. */
export function knowMethods(names: Iterable<string>): void {
  for (const name of names) methods.add(name);
}

/** Replaces Rust code in a text by its TypeScript form. */
function inScript(text: string): string {
  return text
    .replace(/\bDType::(\w+)/g, (_, name: string) => `'${name.toLowerCase()}'`)
    .replace(/\bf(?:32|64)::(?:NEG_)?INFINITY\b/g, (name) => (name.includes('NEG') ? '-Infinity' : 'Infinity'))
    .replace(/\.([a-z]\w*_\w*)\(/g, (_, name: string) => `.${name.replace(/_([a-z0-9])/g, (__, letter: string) => letter.toUpperCase())}(`);
}

/** Returns true if a remedy mentions paths, types or methods that exist only in Rust. */
function isRust(line: string): boolean {
  const called = [...line.matchAll(/(?<![\w)\]])\.([a-z]\w*)\(/g)].map(([, name]) => name!);
  return /::|\b(?:usize|isize|f64|Vec|Option|unwrap)\b|\b(?:Some|Ok)\(|&mut\b|\|[a-z, ]+\|/.test(line)
    || (methods.size > 0 && called.some((name) => !methods.has(name)));
}

/** Rewrites an error of the module for TypeScript, without remedies that do not apply. */
export function withoutRust(value: ErrorValue): ErrorValue {
  const lines = (text: string) => text.split('\n').map(inScript).filter((line) => !(/^\s*(= )?help: /.test(line) && isRust(line))).join('\n');
  return {
    ...value, message: inScript(value.message),
    ...(value.notes && { notes: value.notes.map(inScript) }),
    ...(value.help && { help: value.help.map(inScript).filter((line) => !isRust(line)) }),
    ...(value.rendered !== undefined && { rendered: lines(value.rendered) }),
  };
}

/** Creates the error that a value describes. */
export function errorOf(value: ErrorValue, options?: ErrorOptions): GradloomError {
  return value.kind === 'trace' ? new ShapeError(value, options) : new GradloomError(value, options);
}

/** Creates an error of a kind, with lines of help. */
export function fail(kind: ErrorKind, message: string, ...help: string[]): GradloomError {
  return errorOf({ kind, message, help });
}

/** Converts anything thrown to a value that can be posted. */
export function errorValue(thrown: unknown): ErrorValue {
  if (thrown instanceof GradloomError) {
    // `message` also contains notes and help, which are separated again on the other side.
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
 * Creates the error that a value describes, with the stack of the user's call, where the Error `site` was
 * created.
 */
export function rebuild(value: ErrorValue, site?: Error): GradloomError {
  const error = errorOf(withoutRust(value));
  const frames = site?.stack;
  if (frames !== undefined) {
    // V8 begins a stack with "Error\n"; other engines do not.
    const body = frames.startsWith('Error') ? frames.slice(frames.indexOf('\n') + 1) : frames;
    error.stack = `${error.name}: ${error.message}\n${body}`;
  }
  return error;
}
