// Runs the TypeScript of the guide, on the CPU's module in a thread; each block checks its own results. Needs
// the modules (npm run wasm).

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as g from '../../.test/src/index.js';

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url));
g.configure({ cpuWasm: join(target, 'web/gradloom-cpu.wasm') });

const folder = new URL('../../.test/guide/', import.meta.url);
const blocks = readdirSync(folder).filter((name) => name.endsWith('.js'));
assert.ok(blocks.length >= 5, `${blocks.length} blocks`);
for (const block of blocks) test(block, () => import(new URL(block, folder)));
