// The user's place. In: a stack. Out: the first frame that is not this package's. What always holds: finding it never throws, and
// an unknown place is null. Our own code is known by its address, found once from a stack taken here; where a bundler has put
// the user's code into the same file, by the names that our functions have at run time.

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
const ownNames = new Set<string>();

/** Says that these functions and classes are ours. */
export function own(things: Iterable<unknown>): void {
  for (const thing of things) {
    if (typeof thing !== 'function') continue;
    ownNames.add(thing.name);
    const prototype = thing.prototype as object | undefined;
    if (!prototype) continue;
    for (const key of Object.getOwnPropertyNames(prototype)) {
      ownNames.add(`${thing.name}.${key}`);
    }
  }
}

function isOwnFile(file: string): boolean {
  return OWN !== '' && (OWN.endsWith('/') ? plain(file).startsWith(OWN) : plain(file) === OWN);
}

function isOwnName(name: string): boolean {
  return name === '' ? false : ownNames.has(name) || /^(Tensor|Param)\./.test(name);
}

/** Frames of the machine itself, which are nobody's. */
function isNative(file: string): boolean {
  return file === '' || file === 'native' || file.startsWith('node:') || file === '<anonymous>';
}

/** The user's place in a list of frames: `isOwn` tells our files, `named` our functions. */
export function userFrame(
  frames: readonly Frame[], isOwn: (file: string) => boolean = isOwnFile, named: (name: string) => boolean = isOwnName,
): Origin | null {
  let started = false;
  for (const frame of frames) {
    if (isNative(frame.file)) continue;
    if (isOwn(frame.file)) {
      started = true;
      continue;
    }
    return place(frame);
  }
  if (!started) return null;
  // All of it is one file: a bundle with us in it. The first frames are ours for certain.
  const index = frames.findIndex((frame, i) => i > 0 && !named(frame.name) && !isNative(frame.file));
  return index < 0 ? null : place(frames[index]!);
}

function place({ file, line, column }: Frame): Origin {
  return { file, line, column };
}

/** Where the user called us. */
export function here(): Origin | null {
  return userFrame(parseStack(new Error().stack ?? ''));
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
