// A device that is lost while requests are pending: everything settles with the error, and compiling again
// works. Needs dist/ (npm run build).

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, serve } from './chromium.mjs';

let server, browser;
before(async () => {
  server = await serve();
  browser = await open(server.url);
  await browser.page.evaluate(async () => {
    const [g, mlp] = [await import('/dist/index.js'), await import('/test/browser/mlp.js')];
    Object.assign(globalThis, { g, ...mlp });
    g.configure({ worker: '/test/browser/losing-worker.js' });
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('a lost device settles everything that is pending, and what is asked later; another goes on where it was', { timeout: 60_000 }, async () => {
  const seen = await browser.page.evaluate(async () => {
    const lose = () => new BroadcastChannel('lose').postMessage(null);
    const { spec, forward, batch } = sine(g);
    const train = await g.compile({ ...spec, device: 'webgpu' });
    const infer = await train.attach({ forward, inputs: { x: [null, 1] } });
    for (let i = 0; i < 20; i++) await train.step(batch);
    const kept = await train.downloadParams();
    const before = (await infer.run({ x: new Float32Array([0.5]) })).output[0];

    // There are more steps than can be in flight, so that some have not started, and one of each other
    // request.
    const results = [
      ...Array.from({ length: 40 }, () => train.step(batch)), infer.run({ x: new Float32Array(7) }),
    ];
    const promises = [train.downloadParams(), train.downloadState(), train.uploadParams(kept), train.reset(), train.setLR(0.1), train.inspect()];
    lose();
    const settled = await Promise.all(results.map((result) => result.then(({ kind, error }) => [kind, error?.kind])));
    const rejected = await Promise.allSettled(promises);
    const lost = await train.lost;
    const later = await train.step(batch);
    const laterToo = await train.downloadParams().catch((error) => error.kind);
    const end = await train.destroy();

    const again = await g.compile({ ...spec, device: 'webgpu', seed: 99 });
    await again.uploadParams(kept);
    const other = await again.attach({ forward, inputs: { x: [null, 1] } });
    const same = (await other.run({ x: new Float32Array([0.5]) })).output[0];
    const steps = [];
    for (let i = 0; i < 5; i++) steps.push(await again.step(batch));
    const left = await again.destroy();
    return {
      settled, rejected: rejected.map(({ status, reason }) => (status === 'rejected' ? reason.kind : status)),
      lost: { kind: lost.kind, message: lost.message, help: lost.help }, later: [later.kind, later.error?.kind], laterToo, pending: train.pending, end,
      before, same, kinds: steps.map(({ kind }) => kind), left,
    };
  });

  // Steps completed before the loss stay completed.
  const cut = seen.settled.findIndex(([kind]) => kind !== 'completed');
  assert.ok(cut >= 0 && cut < 40, `${cut} of ${seen.settled.length} were completed`);
  assert.deepEqual(seen.settled.slice(cut), Array(seen.settled.length - cut).fill(['failed', 'lost']));
  // `inspect` waits for no step, and may have been answered.
  assert.deepEqual(seen.rejected.slice(0, -1), Array(5).fill('lost'));
  assert.ok(['lost', 'fulfilled'].includes(seen.rejected.at(-1)), seen.rejected.at(-1));
  assert.equal(seen.lost.kind, 'lost');
  assert.match(seen.lost.message, /the GPU device was lost/);
  assert.match(seen.lost.help.join(), /compile again/);
  assert.deepEqual(seen.later, ['failed', 'lost']);
  assert.equal(seen.laterToo, 'lost');
  assert.equal(seen.pending, 0);

  assert.equal(seen.same, seen.before);
  assert.deepEqual(seen.kinds, Array(5).fill('completed'));
  assert.deepEqual([seen.left.liveBuffers, seen.left.sessions], [0, 0]);

  // The browser reports this with a delay.
  for (let i = 0; i < 20 && browser.page.workers().length > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(browser.page.workers().length, 0);
});
