// Builds the wasm modules. In: crates/gradloom-web. Out: target/web/gradloom.wasm,
// target/web/gradloom-cpu.wasm, its variants gradloom-cpu-relaxed.wasm (vectors with fused multiply-adds) and
// gradloom-cpu-threads.wasm (these, and threads), and src/generated: ops.ts, the op table, which the crate's build script reads
// from the Rust methods of `Tensor`, and training.ts, the schedules, initial values and optimizers, which it
// reads from their Rust types. Tells if something large has come in from std.
// Options: --without-cpu.

import { execFileSync, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync, existsSync } from 'node:fs';
import { once } from 'node:events';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(root, 'target');
const TRIPLE = 'wasm32-unknown-unknown';
// Has threads, and imports of WASI that src/threads.ts gives.
const THREADED = 'wasm32-wasip1-threads';

// Names in std of what takes kilobytes, and what does without.
const LARGE = {
  flt2dec: 'print floats by `gradloom_core::decimal::Decimal`',
  is_printable: 'write quotes around a text instead of `{:?}`, and do not cut it by `[a..b]`',
  StrSearcher: 'look for single characters, or among bytes',
  u128_div_rem: 'divide numbers of 64 bits',
};

/** Builds the crate and gives what cargo says of it: the module, and the build script's folder. */
async function cargo(targetDir, features, flags, triple = TRIPLE) {
  const args = ['build', '--profile', 'web', '-p', 'gradloom-web', '--target', triple, '--target-dir', targetDir,
    '--message-format', 'json-render-diagnostics', ...features];
  // Panics name source files: what they are called on the machine that builds does not belong into the
  // module, and makes it larger.
  const home = process.env.CARGO_HOME ?? join(homedir(), '.cargo');
  const std = join(execFileSync('rustc', ['--print', 'sysroot'], { cwd: root, encoding: 'utf8' }).trim(), 'lib/rustlib/src/rust/library');
  const crates = ['core', 'codegen', 'device', 'cpu', 'webgpu', 'runtime', 'web'].map((name) => [`crates/gradloom-${name}/src`, name]);
  const remap = [[root, ''], ...crates, [join(home, 'registry/src'), 'crates'], [targetDir, 'target'], [std, 'std']]
    .map(([from, to]) => `--remap-path-prefix=${from}=${to}`);
  const env = { ...process.env, RUSTFLAGS: [process.env.RUSTFLAGS ?? '', ...remap, ...flags].join(' ').trim() };
  const child = spawn('cargo', args, { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] });
  const [stdout, [status]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  // Cargo has said why.
  if (status !== 0) throw new Error('cargo could not build a module');
  const messages = stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  const mine = messages.filter(({ package_id: id }) => id?.includes('gradloom-web'));
  const artifacts = mine.filter(({ reason }) => reason === 'compiler-artifact').flatMap(({ filenames }) => filenames);
  return {
    wasm: artifacts.find((name) => name.endsWith('.wasm')),
    tables: mine.find(({ reason }) => reason === 'build-script-executed').out_dir,
  };
}

const folder = join(target, 'web');
mkdirSync(folder, { recursive: true });
mkdirSync(at('src/generated'), { recursive: true });

async function gpuModule() {
  const gpu = await cargo(target, [], []);
  copyFileSync(gpu.wasm, join(folder, 'gradloom.wasm'));
  const names = readFileSync(gpu.wasm, 'latin1');
  for (const [part, instead] of Object.entries(LARGE)) {
    if (names.includes(part)) console.warn(`the module has std's \`${part}\`, which is large: ${instead}`);
  }
  // Left alone if it is the same, so that nothing is built again for it.
  for (const name of ['ops.ts', 'training.ts']) {
    const [contents, table] = [readFileSync(join(gpu.tables, name), 'utf8'), at(`src/generated/${name}`)];
    if (!existsSync(table) || readFileSync(table, 'utf8') !== contents) writeFileSync(table, contents);
  }
}

// Each module is optimized as a whole, on one core, so the builds run at the same time.
const builds = [gpuModule()];
if (!process.argv.includes('--without-cpu')) {
  // The crates with kernels: optimized for size, their loops over registers are not even unrolled.
  const fast = ['cpu', 'device'].flatMap((name) => ['--config', `profile.web.package.gradloom-${name}.opt-level=3`]);
  // Its programs' loops become functions in its table.
  const table = ['--export-table', '--growable-table'].flatMap((flag) => ['-C', `link-arg=${flag}`]);
  const [vectors, relaxed] = ['+simd128', '+simd128,+relaxed-simd'].map((features) => ['-C', `target-feature=${features}`]);
  // Engines run vectors in the order of the code. LLVM's own order has more of them alive in a product's loop than there
  // are registers, which takes twice the time.
  const order = ['-C', 'llvm-args=-pre-RA-sched=source'];
  // As `PAGES` in src/threads.ts.
  const memory = ['--initial-memory=16777216', '--max-memory=4294967296'].flatMap((flag) => ['-C', `link-arg=${flag}`]);
  for (const [name, triple, ...flags] of [['cpu', TRIPLE, ...vectors], ['cpu-relaxed', TRIPLE, ...relaxed], ['cpu-threads', THREADED, ...relaxed, ...memory]]) {
    const options = ['--no-default-features', '--features', 'cpu', ...fast];
    const cpu = cargo(join(target, `web-${name}`), options, [...flags, ...order, ...table], triple);
    builds.push(cpu.then(({ wasm }) => copyFileSync(wasm, join(folder, `gradloom-${name}.wasm`))));
  }
}
// Waits for all, so that none goes on after an error.
if ((await Promise.allSettled(builds)).some(({ status }) => status === 'rejected')) process.exit(1);
