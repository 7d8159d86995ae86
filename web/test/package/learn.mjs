// Observes a page of an installed package. In: its URL. Out: the losses that it reports, and every URL that
// it requested.

import assert from 'node:assert/strict';
import { open } from '../browser/chromium.mjs';

/** Opens a page that trains and stores its result in `globalThis.done`. */
export async function learn(origin, path, options) {
  const browser = await open('about:blank', options);
  try {
    const { page } = browser;
    const [asked, errors] = [[], []];
    // On the context, to include workers' requests.
    page.context().on('request', (request) => asked.push(request.url()));
    page.on('pageerror', (error) => errors.push(String(error)));
    await page.goto(`${origin}${path}`);
    await page.waitForFunction(() => 'done' in globalThis, undefined, { timeout: 60_000 }).catch((thrown) => {
      throw new Error(`the page did not finish: ${[...errors, ...asked].join('\n')}`, { cause: thrown });
    });
    return { ...await page.evaluate(() => globalThis.done), asked, errors };
  } finally {
    await browser.close();
  }
}

/** Asserts the expected result of every page of the tests. */
export function assertLearnt(seen, origin) {
  assert.equal(seen.error, undefined);
  assert.deepEqual(seen.errors, []);
  assert.equal(seen.losses.length, 20);
  assert.ok(seen.losses[19] < 0.5 * seen.losses[0], `${seen.losses}`);
  assert.ok(seen.losses.slice(1, 12).every((loss, i) => loss < seen.losses[i]), `${seen.losses}`);
  assert.deepEqual(seen.asked.filter((url) => new URL(url).origin !== origin), []);
}

/**
 * Returns the names of the wasm modules among the URLs, such as `gradloom-cpu-relaxed`. A bundler may have
 * put a hash into a name.
 */
export const modules = ({ asked }) => asked.map((url) => /\/(gradloom(?:-cpu(?:-relaxed|-threads)?)?)(?:-[\w-]{8})?\.wasm/.exec(url)?.[1]).filter(Boolean);
