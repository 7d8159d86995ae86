// The user's place. In: a stack. Out: the first frame that is not this package's. What always holds: finding
// it never throws, and an unknown place is null. Our own code is known by its address, found once from a
// stack taken here; where a bundler has put the user's code into the same file, by the names that our
// functions have at run time.

import type { Origin } from './errors.js';

/** A frame of a stack. */
export interface Frame extends Origin {
  /** The function's name as the browser gives it, or an empty string. */
  name: string;
}

const CHROME = /^\s*at (?:async )?(?:(.*?) \()?((?:[a-z-]+:)?[^()\s]*?[^()]*?):(\d+):(\d+)\)?$/;
const OTHERS = /^(.*?)@(.*?)(?: line \d+ > [^:]*)?:(\d+):(\d+)$/;

/** The frames of a stack in the form of Chrome and node, Firefox, or Safari. */
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

/** An address without what a development server appends. */
function plain(file: string): string {
  return file.replace(/[?#].*$/, '');
}

/** Our own file, or the folder of our files when they are not bundled. */
function ownPlace(): string {
  const file = plain(parseStack(new Error().stack ?? '')[0]?.file ?? '');
  return /\/origin\.[jt]s$/.test(file) ? file.replace(/[^/]*$/, '') : file;
}

const OWN = ownPlace();
/** Whether our code is in files of its own, and not in the user's bundle. */
const SEPARATE = OWN.endsWith('/') || /\/(index|gradloom)\.m?js$/.test(OWN);
const ownNames = new Set<string>();

/** Says that these functions, and the methods of these classes, are what users call. */
export function own(things: Iterable<unknown>): void {
  for (const thing of things) {
    if (typeof thing !== 'function') continue;
    const methods = Object.getOwnPropertyNames((thing.prototype as object | undefined) ?? {}).filter((key) => key !== 'constructor');
    ownNames.add(thing.name);
    for (const key of methods) ownNames.add(`${thing.name}.${key}`);
  }
}

/** How our frames are told from the user's. */
export interface Telling {
  /** Whether our code is in files of its own. */
  separate: boolean;
  /** Whether a file is ours. */
  file(file: string): boolean;
  /** Whether a function of this name is one that users call. */
  name(name: string): boolean;
}

const TELLING: Telling = {
  separate: SEPARATE,
  file: (file) => OWN !== '' && (OWN.endsWith('/') ? plain(file).startsWith(OWN) : plain(file) === OWN),
  name: (name) => ownNames.has(name) || /^(Tensor|Param)\./.test(name),
};

/** Frames of the machine itself, without a source. */
function isNative(file: string): boolean {
  return file === '' || file === 'native' || file.startsWith('node:') || file === '<anonymous>' || file === '[native code]';
}

/** The user's place in a list of frames, innermost first. */
export function userFrame(frames: readonly Frame[], telling: Telling = TELLING): Origin | null {
  const inside = frames.filter(({ file }) => !isNative(file));
  let at = telling.separate ? inside.findIndex(({ file }) => !telling.file(file)) : -1;
  if (at < 0) {
    // One file has it all: the user is who called the outermost function of ours that users call.
    at = inside.findLastIndex(({ name }) => name !== '' && telling.name(name)) + 1;
    if (at === 0) return null;
  }
  const found = inside[at];
  return found ? { file: found.file, line: found.line, column: found.column } : null;
}

/** Where the user called us. */
export function here(): Origin | null {
  const limited = Error as { stackTraceLimit?: number };
  const before = limited.stackTraceLimit;
  // Layers in layers are deeper than the ten frames that V8 gives.
  if (before !== undefined) limited.stackTraceLimit = 40;
  const { stack } = new Error();
  if (before !== undefined) limited.stackTraceLimit = before;
  return userFrame(parseStack(stack ?? ''));
}

/** Lines that show a place: its file and, where the file can be fetched, the line with a caret. */
export async function excerpt(origin: Origin): Promise<string> {
  const head = `  --> ${origin.file}:${origin.line}:${origin.column}`;
  if (!/^https?:/.test(origin.file)) return head;
  try {
    // It was loaded a moment ago: the cache has it.
    const response = await fetch(origin.file, { cache: 'force-cache' });
    if (!response.ok) return head;
    const line = (await response.text()).split('\n')[origin.line - 1];
    if (line === undefined) return head;
    // Of a long line, as minified ones are, only the neighbourhood.
    const from = Math.max(0, origin.column - 1 - 60);
    const part = line.slice(from, from + 120).replaceAll('\t', ' ');
    const gutter = ' '.repeat(String(origin.line).length);
    const caret = ' '.repeat(Math.max(0, origin.column - 1 - from));
    return `${head}\n${gutter} |\n${origin.line} | ${part}\n${gutter} | ${caret}^`;
  } catch {
    return head;
  }
}
