// The TypeScript of the guide. In: docs/guide/src. Out: a file for each block in .test/guide, which `npm run
// check` checks and test/unit/guide.test.mjs runs.

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const PAGES = at('../../docs/guide/src');
const FOLDER = at('../.test/guide');

/** Writes the blocks, each named after its page and line, and returns the files' paths. */
export function writeGuide() {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  return readdirSync(PAGES, { recursive: true }).filter((page) => page.endsWith('.md')).flatMap((page) => {
    const text = readFileSync(join(PAGES, page), 'utf8');
    return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(({ 1: code, index }) => {
      const line = text.slice(0, index).split('\n').length;
      const file = join(FOLDER, `${page.replace(/\W/g, '-').replace(/-md$/, '')}-${line}.ts`);
      // The export makes it a module, even without imports.
      writeFileSync(file, `${code}export {}\n`);
      return file;
    });
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) console.log(`${writeGuide().length} blocks of the guide`);
