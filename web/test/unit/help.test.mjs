// Errors contain TypeScript, as their readers write it: every text of the Rust library is checked.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as g from '../../.test/src/index.js';
import { withoutRust } from '../../.test/src/errors.js';

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url));
g.configure({ wasm: join(target, 'web/gradloom.wasm'), cpuWasm: join(target, 'web/gradloom-cpu.wasm') });
const crates = fileURLToPath(new URL('../../../crates', import.meta.url));

/** Returns the texts in the sources of a page's module. */
function texts() {
  const all = [];
  for (const crate of ['core', 'codegen', 'runtime', 'web']) {
    const folder = join(crates, `gradloom-${crate}/src`);
    for (const name of readdirSync(folder, { recursive: true })) {
      if (!name.endsWith('.rs')) continue;
      const code = readFileSync(join(folder, name), 'utf8').replace(/^\s*\/\/.*$/gm, '').replace(/'(?:\\.|[^'\\])'/g, '').split('#[cfg(test)]')[0];
      for (const [, text] of code.matchAll(/"((?:[^"\\\n]|\\[^])*)"/g)) all.push([name, text.replace(/\\\n\s*/g, '').replaceAll('\\"', '"')]);
    }
  }
  return all;
}

const RUST = /::|\bDType\b|\b(?:usize|isize|f64|unwrap)\b|\bSome\(|&mut/;
const methods = new Set(Object.getOwnPropertyNames(g.Tensor.prototype));

test('no help speaks Rust', () => {
  let [seen, changed] = [0, 0];
  for (const [file, text] of texts()) {
    // Only whole sentences are checked, with or without code in them.
    if (!/[a-z] [a-z]/.test(text)) continue;
    const rendered = `error: x\n  = help: ${text}\n`;
    const value = withoutRust({ kind: 'trace', message: 'x', notes: [], help: [text], rendered });
    for (const help of value.help) {
      assert.doesNotMatch(help, RUST, file);
      for (const [, name] of help.matchAll(/(?<![\w)\]])\.([a-z]\w*)\(/g)) assert.ok(methods.has(name), `${file}: ${help}`);
    }
    assert.doesNotMatch(value.rendered, RUST, file);
    seen++;
    changed += Number(value.help[0] !== text);
  }
  assert.ok(seen > 500 && changed > 20, `${seen} texts, ${changed} changed`);
});

test('remedies have the names of a script', () => {
  const said = (help) => withoutRust({ kind: 'trace', message: 'x', help: [help] }).help;
  assert.deepEqual(said('convert with .cast(DType::F32)'), ["convert with .cast('f32')"]);
  assert.deepEqual(said('a divisor that is a number cannot be 0; infinity is `f64::INFINITY`'), ['a divisor that is a number cannot be 0; infinity is `Infinity`']);
  assert.deepEqual(said('they do not broadcast; if each is for several, `.broadcast_to([2, 3])` on the first'),
    ['they do not broadcast; if each is for several, `.broadcastTo([2, 3])` on the first']);
  assert.deepEqual(said('give the seed to `Session::new`'), []);
});

class One extends g.Module {
  constructor() {
    super();
    this.w = this.param([2]);
  }
}
const traced = (forward) => g.traceForward({ model: new One(), inputs: { x: [2], i: { shape: [2], dtype: 'i32' } }, forward });

test('a tensor is no number', async () => {
  for (const use of [(x) => x > 0, (x) => x + 1, (x) => 2 * x, (x) => -x, (x) => Math.max(x, 0), (x) => x == 1, (x) => `${x < 3}`]) {
    await assert.rejects(traced((m, { x }) => (use(x) ? x : m.w)), /is used as a number[\s\S]*has no elements/);
  }
  await traced((m, { x }) => {
    assert.match(`${x} ${String(m.w)}`, /^Tensor .*f32\[2\]$/);
    return x;
  });
});

test('what is asked of whole numbers is said in script', async () => {
  await assert.rejects(traced((m, { i }) => g.exp(i)), (error) => {
    assert.doesNotMatch(error.message, RUST);
    assert.match(error.message, /\.cast\('f32'\)/);
    return true;
  });
});

test('rates below 0 and parameters that are NaN are refused', async () => {
  for (const lr of [-1, { kind: 'linear', peak: -0.1, final: 0, steps: 3 }, { kind: 'warmup', peak: 1, steps: 2, after: -2 }]) {
    await assert.rejects(g.trace({ model: new One(), loss: (m) => g.sum(m.w), inputs: {}, optimizer: { kind: 'sgd', lr } }), /below 0/);
  }
});
