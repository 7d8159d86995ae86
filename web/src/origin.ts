// Locations in the user's code. In: a stack. Out: the first frame outside of this package. Always holds:
// finding it never throws, and an unknown location is null. The package's own code is recognised by its URL,
// found once from a stack captured here; if a bundler has merged it with the user's code, by the names of its
// functions at run time.

import type { Origin } from './errors.js';

/** A frame of a stack. */
export interface Frame extends Origin {
  /** The function's name as reported by the browser, or an empty string. */
  name: string;
}

const CHROME = /^\s*at (?:async )?(?:(.*?) \()?((?:[a-z-]+:)?[^()\s]*?[^()]*?):(\d+):(\d+)\)?$/;
const OTHERS = /^(.*?)@(.*?)(?: line \d+ > [^:]*)?:(\d+):(\d+)$/;

/** Returns the frames of a stack in the format of Chrome and Node.js, Firefox, or Safari. */
export function parseStack(stack: string): Frame[] {
  const frames: Frame[] = [];
  for (const line of stack.split('\n')) {
    const match = CHROME.exec(line) ?? OTHERS.exec(line);
    if (!match) continue;
    const name = (match[1] ?? '').replace(/ \[as .*\]$/, '').replace(/^new /, '');
    frames.push({ name, file: match[2]!, line: Number(match[3]), column: Number(match[4]) });
  }
  return frames;
}

/** Returns a URL without the suffix that a development server appends. */
function plain(file: string): string {
  return file.replace(/[?#].*$/, '');
}

/** Returns the URL of this file, or of its folder if the package is not bundled. */
function ownPlace(): string {
  const file = plain(parseStack(new Error().stack ?? '')[0]?.file ?? '');
  return /\/origin\.[jt]s$/.test(file) ? file.replace(/[^/]*$/, '') : file;
}

const OWN = ownPlace();
/** True if this package is in separate files, not in the user's bundle. */
const SEPARATE = OWN.endsWith('/') || /\/(index|gradloom)\.m?js$/.test(OWN);
const ownNames = new Set<string>();

/** Registers functions, and the methods of classes, that users call. */
export function own(things: Iterable<unknown>): void {
  for (const thing of things) {
    if (typeof thing !== 'function') continue;
    const methods = Object.getOwnPropertyNames((thing.prototype as object | undefined) ?? {}).filter((key) => key !== 'constructor');
    ownNames.add(thing.name);
    for (const key of methods) ownNames.add(`${thing.name}.${key}`);
  }
}

/** Criteria that separate this package's frames from the user's. */
export interface Telling {
  /** True if this package is in separate files. */
  separate: boolean;
  /** Returns true if a file belongs to this package. */
  file(file: string): boolean;
  /** Returns true if users call a function with this name. */
  name(name: string): boolean;
}

const TELLING: Telling = {
  separate: SEPARATE,
  file: (file) => OWN !== '' && (OWN.endsWith('/') ? plain(file).startsWith(OWN) : plain(file) === OWN),
  name: (name) => ownNames.has(name) || /^(Tensor|Param)\./.test(name),
};

/** Returns true for a frame of the engine itself, which has no source. */
function isNative(file: string): boolean {
  return file === '' || file === 'native' || file.startsWith('node:') || file === '<anonymous>' || file === '[native code]';
}

/** Returns the user's location in a list of frames, innermost first. */
export function userFrame(frames: readonly Frame[], telling: Telling = TELLING): Origin | null {
  const inside = frames.filter(({ file }) => !isNative(file));
  let at = telling.separate ? inside.findIndex(({ file }) => !telling.file(file)) : -1;
  if (at < 0) {
    // A single file contains everything: the user's frame is the caller of the outermost registered function.
    at = inside.findLastIndex(({ name }) => name !== '' && telling.name(name)) + 1;
    if (at === 0) return null;
  }
  const found = inside[at];
  return found ? { file: found.file, line: found.line, column: found.column } : null;
}

/** Returns the location of the user's call. */
export function here(): Origin | null {
  const limited = Error as { stackTraceLimit?: number };
  const before = limited.stackTraceLimit;
  // Nested layers are deeper than the ten frames that V8 records by default.
  if (before !== undefined) limited.stackTraceLimit = 40;
  const { stack } = new Error();
  if (before !== undefined) limited.stackTraceLimit = before;
  return userFrame(parseStack(stack ?? ''));
}

/** Returns lines that show a location: its file and, if the file can be fetched, the line with a caret. */
export async function excerpt(origin: Origin): Promise<string> {
  const head = `  --> ${origin.file}:${origin.line}:${origin.column}`;
  if (!/^https?:/.test(origin.file)) return head;
  try {
    // The file was loaded recently, so it is in the cache.
    const response = await fetch(origin.file, { cache: 'force-cache' });
    if (!response.ok) return head;
    const line = (await response.text()).split('\n')[origin.line - 1];
    if (line === undefined) return head;
    // Only the part around the column of a long line is shown, as in minified files.
    const from = Math.max(0, origin.column - 1 - 60);
    const part = line.slice(from, from + 120).replaceAll('\t', ' ');
    const gutter = ' '.repeat(String(origin.line).length);
    const caret = ' '.repeat(Math.max(0, origin.column - 1 - from));
    return `${head}\n${gutter} |\n${origin.line} | ${part}\n${gutter} | ${caret}^`;
  } catch {
    return head;
  }
}
