// An order of a module's functions in which those that share code are near each other: gzip finds what is
// repeated within its window of 32 kB only. In: a module. Out: the module with the functions' places as names,
// for `wasm-opt --reorder-functions-by-name`. The same module gives the same order.

import { gzipSync } from 'node:zlib';

// Bytes of a sequence that is looked for: as much as an instruction or two with their operands.
const SEQUENCE = 6;
// Bytes of code before a function in which its sequences are looked for: gzip looks as far, but finds of it what
// its hash chains still have, so that which of these is best is a matter of luck. All are tried.
const WINDOWS = Array.from({ length: 10 }, (_, i) => 16_000 + 2_000 * i);
// A sequence that more functions have is near everywhere.
const COMMON = 5_000;

const [CUSTOM, IMPORT, CODE] = [0, 2, 10];

/** Reads numbers and names of the binary format, from `at` on. */
class Reader {
  constructor(bytes, at = 0) {
    Object.assign(this, { bytes, at });
  }
  byte() {
    return this.bytes[this.at++];
  }
  number() {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  }
  block() {
    const length = this.number();
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
  list(item) {
    return Array.from({ length: this.number() }, item);
  }
}

function number(value) {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value & 127) | 128);
  return Buffer.from([...bytes, value]);
}

const block = (...parts) => {
  const bytes = Buffer.concat(parts);
  return Buffer.concat([number(bytes.length), bytes]);
};

function sections(module) {
  const reader = new Reader(module, 8);
  const all = [];
  while (reader.at < module.length) all.push({ id: reader.byte(), bytes: reader.block() });
  return all;
}

/** How many of the imports are functions: those have the first indices. */
function importedFunctions(bytes) {
  const reader = new Reader(bytes);
  const kinds = reader.list(() => {
    reader.block();
    reader.block();
    const kind = reader.byte();
    if (kind !== 0 && kind !== 2) throw new Error('the module imports only functions and a memory');
    // The function's type, or whether a maximum follows the memory's minimum.
    if (reader.number() & 1 && kind === 2) reader.number();
    if (kind === 2) reader.number();
    return kind;
  });
  return kinds.filter((kind) => kind === 0).length;
}

/** The sequences of each function that tell it from others, how many it has in all, and who owns each. */
function sequencesOf(functions) {
  const ids = new Map();
  const owners = [];
  const sequences = functions.map((code, index) => {
    const own = new Set();
    for (let at = 0; at + SEQUENCE <= code.length; at++) {
      const text = code.toString('latin1', at, at + SEQUENCE);
      if (!ids.has(text)) ids.set(text, owners.push([]) - 1);
      own.add(ids.get(text));
    }
    for (const id of own) owners[id].push(index);
    return own;
  });
  const telling = sequences.map((own) => [...own].filter((id) => owners[id].length > 1 && owners[id].length <= COMMON));

  return { telling, counts: sequences.map((own) => own.size), owners };
}

/**
 * An order of functions: next to come is always the one whose sequences are, for the largest part, in the
 * window already.
 */
function ordered(functions, { telling, counts, owners }, window) {
  const times = new Uint32Array(owners.length);
  const shared = new Uint32Array(functions.length);
  const enter = (id) => {
    if (times[id]++ === 0) for (const index of owners[id]) shared[index]++;
  };
  const leave = (id) => {
    if (--times[id] === 0) for (const index of owners[id]) shared[index]--;
  };
  const left = new Set(functions.keys());
  const order = [];
  let [first, bytes] = [0, 0];
  while (left.size > 0) {
    let [next, most] = [-1, -1];
    for (const index of left) {
      // So that the smallest functions are no better than those that are all in the window.
      const part = shared[index] / (counts[index] + 1);
      if (part > most) [next, most] = [index, part];
    }
    left.delete(next);
    order.push(next);
    bytes += functions[next].length;
    telling[next].forEach(enter);
    for (; bytes - functions[order[first]].length > window; first++) {
      bytes -= functions[order[first]].length;
      telling[order[first]].forEach(leave);
    }
  }
  return order;
}

/** Places of functions in the order that packs best. */
function places(functions) {
  const sequences = sequencesOf(functions);
  const place = [];
  let least = Infinity;
  for (const window of WINDOWS) {
    const order = ordered(functions, sequences, window);
    const packed = gzipSync(Buffer.concat(order.map((index) => functions[index])), { level: 9 }).length;
    if (packed >= least) continue;
    least = packed;
    order.forEach((index, at) => (place[index] = at));
  }
  return place;
}

/** The module, with a section of names that has the functions' places. */
export function withPlaces(module) {
  const all = sections(module);
  const isNames = ({ id, bytes }) => id === CUSTOM && new Reader(bytes).block().toString() === 'name';
  const imports = all.find(({ id }) => id === IMPORT);
  const imported = imports === undefined ? 0 : importedFunctions(imports.bytes);
  const code = new Reader(all.find(({ id }) => id === CODE).bytes);
  const place = places(code.list(() => code.block()));
  // Names are compared as texts.
  const name = (at) => block(Buffer.from(String(at).padStart(8, '0')));
  const names = Buffer.concat([number(place.length), ...place.flatMap((at, index) => [number(imported + index), name(at)])]);
  const section = Buffer.concat([block(Buffer.from('name')), Buffer.from([1]), block(names)]);
  const kept = [...all.filter((section) => !isNames(section)), { id: CUSTOM, bytes: section }];
  return Buffer.concat([module.subarray(0, 8), ...kept.flatMap(({ id, bytes }) => [Buffer.from([id]), block(bytes)])]);
}
