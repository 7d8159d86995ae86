// The package that npm packs works after installation: in a plain page and with Vite, built and served. Needs
// dist/ (npm run build).

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createServer } from 'vite';
import { serve } from '../browser/chromium.mjs';
import { assertLearnt, learn, modules } from './learn.mjs';
import { install, tool, WEB } from './pack.mjs';

let installed;
before(async () => { installed = await install(); });
after(() => installed?.close());

/** Serves a folder while a page of it trains. */
async function learnFrom(folder, path, options) {
  const server = await serve(folder);
  try {
    return { seen: await learn(server.url, path, options), origin: server.url };
  } finally {
    await server.close();
  }
}

test('it has what it needs, and nothing else', () => {
  const { files } = installed;
  const others = files.filter((name) => !name.startsWith('dist/'));
  assert.deepEqual(others.sort(), ['LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'package.json']);
  const code = files.filter((name) => name.startsWith('dist/') && !name.endsWith('.d.ts'));
  assert.deepEqual(code.sort(), [
    ...['-cpu-relaxed', '-cpu-threads', '-cpu', ''].map((variant) => `dist/gradloom${variant}.wasm`), 'dist/index.js', 'dist/worker.js',
  ]);

  const manifest = JSON.parse(readFileSync(join(installed.package, 'package.json'), 'utf8'));
  assert.equal(manifest.dependencies, undefined);
  const targets = Object.values(manifest.exports).flatMap((to) => (typeof to === 'string' ? to : Object.values(to)));
  for (const target of [manifest.types, ...targets]) assert.ok(existsSync(join(installed.package, target)), target);
  // Bundlers leave imports of unknown URLs alone only if a comment instructs them.
  for (const name of ['index.js', 'worker.js']) {
    const script = readFileSync(join(installed.package, 'dist', name), 'utf8');
    const imports = [...script.matchAll(/\bimport\(([^"'`)][^)]*)\)/g)].map(([, what]) => what);
    assert.ok(imports.length > 0 && imports.every((what) => /webpackIgnore:true/.test(what) && /@vite-ignore/.test(what)), `${name}: ${imports}`);
  }
  // No file contains the build folder.
  for (const name of files) assert.ok(!readFileSync(join(installed.package, name)).includes(WEB), name);
});

test('a plain page imports it by its address', async () => {
  const { seen, origin } = await learnFrom(installed.project, '/plain.html');
  assertLearnt(seen, origin);
  assert.equal(seen.device, 'webgpu');
  // The worker and the module are requested at the same time.
  assert.deepEqual(seen.asked.map((url) => url.slice(origin.length)).sort(), [
    ...['gradloom.wasm', 'index.js', 'worker.js'].map((name) => `/node_modules/gradloom/dist/${name}`), '/plain.html',
  ]);
});

test("a project's TypeScript finds its types", async () => {
  await tool(installed.project, 'typescript/bin/tsc', '--noEmit', '--strict', '--target', 'es2022', '--module', 'esnext',
    '--moduleResolution', 'bundler', '--types', '', '--lib', 'es2023,dom', 'main.ts');
});

test('Vite builds it, without configuration', async () => {
  const { project } = installed;
  await tool(project, 'vite/bin/vite.js', 'build');
  const built = readdirSync(join(project, 'dist'), { recursive: true });
  assert.equal(built.filter((name) => /worker[^/]*\.js$/.test(name)).length, 1, `the worker is there once: ${built}`);
  const { seen, origin } = await learnFrom(join(project, 'dist'), '/index.html');
  assertLearnt(seen, origin);
  assert.equal(seen.device, 'webgpu');
  assert.deepEqual(modules(seen), ['gradloom']);

  const cpu = await learnFrom(join(project, 'dist'), '/index.html', { gpu: false });
  assertLearnt(cpu.seen, cpu.origin);
  assert.equal(cpu.seen.device, 'cpu');
  // The absence of an adapter is known only after requesting it; until then the GPU's module is fetched.
  assert.deepEqual(modules(cpu.seen).at(-1), 'gradloom-cpu-relaxed');
});

test("Vite's development server serves it, without configuration", async () => {
  const server = await createServer({ root: installed.project, server: { host: '127.0.0.1', port: 0 }, logLevel: 'warn' });
  try {
    await server.listen();
    const origin = `http://127.0.0.1:${server.httpServer.address().port}`;
    const seen = await learn(origin, '/index.html');
    assertLearnt(seen, origin);
    assert.equal(seen.device, 'webgpu');
    // Vite bundled it ahead, like all dependencies, and it finds its other files from there.
    assert.ok(seen.asked.some((url) => url.includes('/.vite/deps/gradloom.js')), `${seen.asked}`);
    assert.deepEqual(modules(seen), ['gradloom']);
  } finally {
    await server.close();
  }
});

test('Node.js runs it in a thread', async () => {
  const { stdout } = await tool(installed.project, join(installed.project, 'node.mjs'));
  const seen = JSON.parse(stdout);
  assertLearnt({ ...seen, errors: [], asked: [] }, '');
  assert.equal(seen.device, 'cpu');
  assert.match(seen.refused, /Node\.js has no WebGPU of its own\nhelp: npm install webgpu/);
});

test('Node.js takes the GPU of the package webgpu, or the CPU where it has no adapter', async () => {
  // A fake package in its place, which tests where it is looked up and how its answer is used.
  const folder = join(installed.project, 'node_modules/webgpu');
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'webgpu', version: '0.0.0', type: 'module', main: 'index.js' }));
  writeFileSync(join(folder, 'index.js'), 'export const globals = {}; export const create = () => ({ requestAdapter: async () => null });');
  try {
    writeFileSync(join(installed.project, 'status.mjs'), "import { checkWebGPU } from 'gradloom'; console.log(JSON.stringify(await checkWebGPU()));");
    const status = JSON.parse((await tool(installed.project, join(installed.project, 'status.mjs'))).stdout);
    assert.deepEqual([status.ok, status.reason], [false, 'no-adapter']);
    const seen = JSON.parse((await tool(installed.project, join(installed.project, 'node.mjs'))).stdout);
    assert.equal(seen.device, 'cpu');
    assert.match(seen.refused, /no adapter/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
