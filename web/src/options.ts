// Options. In: an object from the user, and the known names, each with a rule for its value. Out: nothing, or
// an error that names the wrong option, its place, and the likely intention. Always holds: no option is
// ignored silently, and no number is NaN.

import { errorOf } from './errors.js';
import { here } from './origin.js';

/** Returns the number of letters to change, insert, delete or swap to turn one word into the other. */
function distance(a: string, b: string): number {
  let above: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + same));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) next[j] = Math.min(next[j]!, above[j - 2]! + 1);
    }
    [above, row] = [row, next];
  }
  return row[b.length]!;
}

/** Returns the known name that is most similar to a misspelt one. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  let best: string | undefined;
  let least = Math.max(2, Math.floor(name.length / 2.5)) + 1;
  for (const candidate of known) {
    const [a, b] = [plain(name), plain(candidate)];
    const steps = a.length > 1 && (b.startsWith(a) || a.startsWith(b)) ? 1 : distance(a, b);
    if (steps < least) [best, least] = [candidate, steps];
  }
  return best;
}

/**
 * Rules for the value of an option: `number` is finite, `whole` a whole number from 0 up, `extent` one from 1
 * up, `sizes` a whole number or one for each axis, `flag` true or false, `signal` an AbortSignal, and a list
 * contains the possible strings; `any` is checked elsewhere.
 */
export type Rule = 'number' | 'whole' | 'extent' | 'sizes' | 'flag' | 'function' | 'signal' | 'any' | readonly string[];

/** Rules by the names of the options. */
export type Rules = Readonly<Record<string, Rule>>;

const WORDS = {
  number: 'a finite number', whole: 'a whole number from 0 up', extent: 'a whole number from 1 up',
  sizes: 'a whole number or an array of them, one for each axis', flag: 'true or false',
  function: 'a function', signal: 'an AbortSignal',
} as const;

/** Checks a value against a rule. */
function fits(value: unknown, rule: Exclude<Rule, 'any'>): boolean {
  switch (rule) {
    case 'number': return typeof value === 'number' && Number.isFinite(value);
    case 'whole': return Number.isSafeInteger(value) && (value as number) >= 0;
    case 'extent': return Number.isSafeInteger(value) && (value as number) >= 1;
    case 'sizes': return (Array.isArray(value) ? value : [value]).every((size) => fits(size, 'whole'));
    case 'flag': return typeof value === 'boolean';
    case 'function': return typeof value === 'function';
    case 'signal': return typeof (value as AbortSignal | null)?.addEventListener === 'function';
    default: return typeof value === 'string' && rule.includes(value);
  }
}

/** Formats a value briefly for a message. */
export function shownValue(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`;
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

function wrong(message: string, help: string): Error {
  return errorOf({ kind: 'trace', message, help: [help], origin: here() });
}

/** Throws if a kind is unknown; `what` is the noun for the message. */
export function checkKind(where: string, what: string, kind: unknown, known: readonly string[]): void {
  if (typeof kind === 'string' && known.includes(kind)) return;
  const meant = typeof kind === 'string' ? nearest(kind, known) : undefined;
  throw wrong(`${where}: there is no ${what} ${shownValue(kind)}`, `${meant === undefined ? '' : `did you mean '${meant}'? `}it is one of ${known.join(', ')}`);
}

/**
 * Throws if an option has an unknown name or violates its rule; undefined means that it was not given.
 * `instead` maps names of other libraries to their replacements.
 */
export function checkOptions(where: string, given: unknown, rules: Rules, instead: Readonly<Record<string, string>> = {}): void {
  const known = Object.keys(rules);
  const all = known.length > 0 ? `its options are ${known.join(', ')}` : 'it has no options';
  if (given === undefined) return;
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw wrong(`the options of ${where} are ${shownValue(given)}, not an object`, all);
  }
  for (const [name, value] of Object.entries(given)) {
    const rule = Object.hasOwn(rules, name) ? rules[name]! : undefined;
    if (rule === undefined) {
      const meant = nearest(name, known);
      throw wrong(`${where} has no option '${name}'`, Object.hasOwn(instead, name) ? instead[name]! : meant === undefined ? all : `did you mean '${meant}'? ${all}`);
    }
    if (value === undefined || rule === 'any' || fits(value, rule)) continue;
    const wanted = typeof rule === 'string' ? WORDS[rule] : `one of ${rule.map((text) => `'${text}'`).join(', ')}`;
    throw wrong(`${where}: ${name} is ${shownValue(value)}, not ${wanted}`, all);
  }
}
