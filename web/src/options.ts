// Options. In: an object of the user's, and the names that there are. Out: nothing, or an error that names
// what is not among them, where, and what was meant. What always holds: no option is ignored without a word.

import { errorOf } from './errors.js';
import { here } from './origin.js';

/** How many letters to change, add, leave out or swap make one word of the other. */
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

/** The name that was probably meant. */
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

/** Fails if there are options of other names. `instead`: what to write for names of other libraries. */
export function checkOptions(
  where: string, given: unknown, known: readonly string[], instead: Readonly<Record<string, string>> = {},
): void {
  const wrong = (message: string, help: string) => errorOf({ kind: 'trace', message, help: [help], origin: here() });
  const all = known.length > 0 ? `its options are ${known.join(', ')}` : 'it has no options';
  if (given === undefined) return;
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw wrong(`the options of ${where} are ${Array.isArray(given) ? 'an array' : String(given)}, not an object`, all);
  }
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue;
    const meant = nearest(name, known);
    throw wrong(`${where} has no option '${name}'`, instead[name] ?? (meant === undefined ? all : `did you mean '${meant}'? ${all}`));
  }
}
