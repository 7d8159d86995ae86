// Builds dist/, and samples/dist. In: src, and the wasm modules that wasm.mjs leaves in target/web (or the folder
// given by --wasm); samples. Out: index.js and worker.js, minified; types; the modules after wasm-opt; the sizes of all,
// checked against the budget. The licenses of the repository are copied beside dist/, where npm packs them.
// Options: --wasm FOLDER, --without-wasm (face and types only), --no-opt (skips wasm-opt, for quick turns).

import { execFile, execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { withPlaces } from './order.mjs';

// Bytes, after gzip -9, of what a visitor loads: the scripts, and one of the modules; with WebGPU, and on the CPU.
const BUDGETS = { webgpu: 700_000, cpu: 700_000 };
// What gzip likes best: LLVM has made the code small already, and further rewriting makes it irregular.
const LEVELS = ['--optimize-level=2', '--shrink-level=2'];
// Functions for vectors stay functions of their own: an engine takes a tenth of a second or more to make one fast in which
// all of them are, and the first steps wait for it.
const APART = '--no-inline=*4simd4Simd9vectorize3run*';
const SHRINK = [APART, '-O1', '--rse', '--vacuum', ...LEVELS, '--optimize-instructions', '--reorder-locals', '--vacuum',
  '--duplicate-function-elimination',
  '--strip-debug', '--strip-producers', '--strip-target-features'];
// Of the functions, by the places that order.mjs gives as names.
const ORDER = [...LEVELS, '--reorder-functions-by-name', '--strip-debug'];
const FEATURES = ['bulk-memory', 'mutable-globals', 'nontrapping-float-to-int', 'sign-ext', 'simd', 'multivalue', 'reference-types'];
// The modules, and what each has beside these.
const MODULES = { gradloom: [], 'gradloom-cpu': [], 'gradloom-cpu-relaxed': ['relaxed-simd'], 'gradloom-cpu-threads': ['relaxed-simd', 'threads'] };
const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const args = process.argv.slice(2);
const option = (name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);
const wasm = option('--wasm') ?? join(process.env.CARGO_TARGET_DIR ?? at('../target'), 'web');
const node = (...words) => execFileSync(process.execPath, words, { cwd: at('.'), stdio: 'inherit' });
const wasmOpt = async (features, passes, from, to) => {
  const enabled = [...FEATURES, ...features].map((name) => `--enable-${name}`);
  const words = ['node_modules/binaryen/bin/wasm-opt', ...enabled, ...passes, from, '-o', to];
  const { stderr } = await promisify(execFile)(process.execPath, words, { cwd: at('.') });
  process.stderr.write(stderr);
};

node('generate.mjs');
rmSync(at('dist'), { recursive: true, force: true });
mkdirSync(at('dist'));
for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) copyFileSync(at(`../${name}`), at(name));
node('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json');
await build({
  entryPoints: [at('src/index.ts'), at('src/worker.ts')], outdir: at('dist'),
  bundle: true, minify: true, format: 'esm', target: 'es2022', legalComments: 'none', logLevel: 'warning',
});
// Imports of Node.js, of addresses known at run time, which bundlers are to leave alone: the comments that say so are lost
// when the code is made small.
for (const name of ['index.js', 'worker.js']) {
  const code = readFileSync(at(`dist/${name}`), 'utf8');
  writeFileSync(at(`dist/${name}`), code.replace(/\bimport\((?=[A-Za-z_$])/g, 'import(/*webpackIgnore:true*//*@vite-ignore*/'));
}
node('samples/build.mjs');

if (!args.includes('--without-wasm')) {
  // At the same time: wasm-opt, as the package of npm has it, runs on one core.
  await Promise.all(Object.entries(MODULES).map(async ([module, features]) => {
    const name = `${module}.wasm`;
    const from = join(wasm, name);
    if (!existsSync(from)) {
      console.error(`${name} is missing: run \`npm run wasm\` first, or give --wasm FOLDER or --without-wasm`);
      process.exit(1);
    }
    if (args.includes('--no-opt')) {
      copyFileSync(from, at(`dist/${name}`));
    } else {
      const to = at(`dist/${name}`);
      await wasmOpt(features, SHRINK, from, to);
      writeFileSync(to, withPlaces(readFileSync(to)));
      await wasmOpt(features, ORDER, to, to);
    }
  }));
}

const size = (name) => {
  const path = at(`dist/${name}`);
  if (!existsSync(path)) return 0;
  const bytes = readFileSync(path);
  const packed = gzipSync(bytes, { level: 9 }).length;
  console.log(`${name.padEnd(25)} ${String(bytes.length).padStart(9)} bytes ${String(packed).padStart(9)} gzip`);
  return packed;
};
const scripts = size('index.js') + size('worker.js');
const [webgpu, ...cpu] = Object.keys(MODULES).map((name) => scripts + size(`${name}.wasm`));
for (const [device, loaded] of [['webgpu', webgpu], ['cpu', Math.max(...cpu)]]) {
  console.log(`${`loaded for ${device}, at most`.padEnd(41)} ${String(loaded).padStart(9)} gzip, of ${BUDGETS[device]}`);
  if (loaded <= BUDGETS[device]) continue;
  console.error('the package is over its budget');
  process.exitCode = 1;
}
