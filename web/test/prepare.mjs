// Compiles src file by file to JavaScript in .test/src, which the tests import, and the blocks of the guide,
// which import that.

import { readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { writeGuide } from './guide.mjs';

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
rmSync(at('../.test'), { recursive: true, force: true });
const files = readdirSync(at('../src'), { recursive: true }).filter((name) => name.endsWith('.ts'));
await build({
  entryPoints: files.map((name) => at(`../src/${name}`)), outdir: at('../.test/src'), format: 'esm', target: 'es2022',
});
const tested = { name: 'tested', setup: (it) => it.onResolve({ filter: /^gradloom$/ }, () => ({ path: '../src/index.js', external: true })) };
await build({
  entryPoints: writeGuide(), outdir: at('../.test/guide'), format: 'esm', target: 'es2022', bundle: true, plugins: [tested],
});
