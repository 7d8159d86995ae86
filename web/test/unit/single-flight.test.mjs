// Only the newest call runs, and every call settles.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { singleFlight } from '../../.test/src/single-flight.js';

const later = () => new Promise((resolve) => setTimeout(resolve, 1));

test('a displaced call is aborted, the newest completes', async () => {
  const begun = [];
  const f = singleFlight(async (n) => { begun.push(n); await later(); return n * 10; });
  const results = await Promise.all([f(1), f(2), f(3)]);
  assert.deepEqual(results, [{ kind: 'completed', value: 10 }, { kind: 'aborted' }, { kind: 'completed', value: 30 }]);
  assert.deepEqual(begun, [1, 3]);
});

test('a call that waits behind one that fails still settles', async () => {
  const f = singleFlight(async (n) => { await later(); if (n === 1) throw new Error('no'); return n; });
  const [first, second] = await Promise.allSettled([f(1), f(2)]);
  assert.equal(first.reason.message, 'no');
  assert.deepEqual(second.value, { kind: 'completed', value: 2 });
  assert.deepEqual(await f(3), { kind: 'completed', value: 3 });
});

test('a function that throws at once rejects, and does not block', async () => {
  const f = singleFlight((n) => { if (n === 1) throw new Error('at once'); return Promise.resolve(n); });
  await assert.rejects(f(1), /at once/);
  assert.equal((await f(2)).value, 2);
});
