// A headless Chromium with WebGPU on SwiftShader, and a server of this folder. In: a function to run in the
// page. Out: its result. The environment variable CHROMIUM selects another browser than Debian's.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TYPES = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.html': 'text/html', '.wasm': 'application/wasm', '.css': 'text/css' };

/** The page at `/`, in which modules import the package by its name. */
const PAGE = '<!doctype html><link rel=icon href="data:,"><title>test</title>'
  + '<script type="importmap">{ "imports": { "gradloom": "/dist/index.js" } }</script>';

/** Headers of a page that is cross-origin isolated, and of its resources. */
export const ISOLATED = { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp' };

/** Serves a folder; returns its URL and a function that stops the server. */
export async function serve(root = ROOT, headers = {}) {
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname));
    try {
      const body = path === '/' ? PAGE : await readFile(join(root, path));
      response.writeHead(200, { 'content-type': path === '/' ? 'text/html' : TYPES[extname(path)] ?? 'application/octet-stream', ...headers });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => new Promise((resolve) => server.close(resolve)) };
}

/**
 * Opens a page of a server in a fresh browser; `gpu: false` disables WebGPU. Its adapter is emulated in
 * software, but reports another name to pages, which then treat it as a GPU's, unless `software` is true.
 */
export async function open(url, { gpu = true, software = false } = {}) {
  const profile = mkdtempSync(join(tmpdir(), 'gradloom-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true,
    args: ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
      '--disable-sync', ...(gpu ? ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'] : [])],
  });
  if (!software) await context.addInitScript(() => {
    const info = Object.getOwnPropertyDescriptor(globalThis.GPUAdapter?.prototype ?? {}, 'info');
    if (!info) return;
    Object.defineProperty(GPUAdapter.prototype, 'info', { ...info, get: () => ({ vendor: 'test', architecture: '', device: '', description: '', isFallbackAdapter: false }) });
  });
  const page = context.pages()[0] ?? await context.newPage();
  page.on('console', (message) => console.log(`[page] ${message.text()}`));
  page.on('pageerror', (error) => console.log(`[page] ${error.stack ?? error}`));
  await page.goto(url);
  return {
    page,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** Opens a server and a page for all tests of a file: `page` and `url`, once they run. */
export function opened() {
  const here = {};
  let server, browser;
  before(async () => {
    server = await serve();
    browser = await open(server.url);
    Object.assign(here, { url: server.url, page: browser.page });
  });
  after(async () => {
    await browser?.close();
    await server?.close();
  });
  return here;
}
