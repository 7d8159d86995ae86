// Serves this folder on this machine, for the demo. In: a port (8080, or the first argument; 0 takes a free
// one). Out: the address, printed. Only files inside the folder are given out, and nothing is kept by the
// browser, so that a reload shows an edit.

import { createServer } from 'node:http';
import { readFile, stat } from 'node:fs/promises';
import { extname, join, normalize, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('.', import.meta.url));
const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8', '.ts': 'text/plain; charset=utf-8', '.wasm': 'application/wasm', '.json': 'application/json', '.svg': 'image/svg+xml', '.png': 'image/png',
};

const server = createServer(async (request, response) => {
  try {
    const { pathname } = new URL(request.url, 'http://localhost');
    const path = normalize(join(ROOT, decodeURIComponent(pathname)));
    if (!path.startsWith(ROOT.endsWith(sep) ? ROOT : ROOT + sep)) throw new Error('outside');
    const folder = (await stat(path)).isDirectory();
    if (folder && !pathname.endsWith('/')) {
      // Relative addresses in the page need the slash.
      response.writeHead(301, { location: `${pathname}/` }).end();
      return;
    }
    const file = folder ? join(path, 'index.html') : path;
    const body = await readFile(file);
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'cache-control': 'no-store' });
    response.end(body);
  } catch {
    response.writeHead(404, { 'content-type': 'text/plain' }).end('not found\n');
  }
});

server.on('error', (error) => {
  console.error(error.code === 'EADDRINUSE' ? 'this port is taken: node serve.mjs 8081' : error.message);
  process.exit(1);
});
// The loopback address: WebGPU needs a secure context, and that it is.
server.listen(Number(process.argv[2] ?? 8080), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/demo/`);
});
