// Turns the samples into JavaScript, a file for a file, in samples/dist, where Node.js finds the package by its name and
// a page by an import map. Called by build.mjs.

import { readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
rmSync(at('dist'), { recursive: true, force: true });
const files = readdirSync(at('.'), { recursive: true }).filter((name) => name.endsWith('.ts'));
await build({ entryPoints: files.map((name) => at(name)), outdir: at('dist'), outbase: at('.'), format: 'esm', target: 'es2022', logLevel: 'warning' });
