// The page's client and the worker's server, connected by a channel, with a fake instance and a fake GPU.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeCore } from './fake-core.mjs';
import { errorOf, fail } from '../../.test/src/errors.js';
import { serveHere } from '../../.test/src/node.js';
import { Client } from '../../.test/src/protocol.js';
import { Server } from '../../.test/src/worker.js';

const tick = () => new Promise((resolve) => setTimeout(resolve, 2));

/** An instance whose steps return their inputs and the learning rate. */
class StepCore extends FakeCore {
  next = 0; fed = []; steps = []; released = []; rateNow = 1;
  limits() {}
  session() { return this.next++; }
  train() { return this.next++; }
  forward() { return this.next++; }
  described(program) { return program; }
  lose(why) { this.lost = why; }
  feed(program, input, data) {
    if (data.length !== 1) throw errorOf({ kind: 'feed', message: 'wrong length' });
    this.fed[input] = data[0];
  }
  step() { this.steps.push([this.fed[0], this.rateNow]); return this.steps.length - 1; }
  ticket(step) { return this.gpu ? step : -1; }
  deliver() {}
  result(step) {
    this.memory = new Float32Array(this.steps[step]);
    return [{ name: 'loss', dtype: 'f32', shape: [], at: 0, bytes: 4 }, { name: 'lr', dtype: 'f32', shape: [], at: 4, bytes: 4 }];
  }
  bytes(at, bytes) { return new Uint8Array(this.memory.buffer, at, bytes); }
  dropStep() {}
  rate(program, [, , rate]) { this.rateNow = rate; }
  lr() { return this.rateNow; }
  upload(session, strict, tensors) { this.uploaded = tensors; }
  fill(session, isGiven) { this.filled = isGiven; }
  store() { return [{ name: 'w', dtype: 'f32', shape: [3], kind: 'param', buffer: 7, at: 256, bytes: 12 }]; }
  release(what, id) { this.released.push([what, id]); }
  attempted() { return this.steps.length; }
  inspect(program, what) { return what === 'unused' ? '[]' : 'text'; }
}

/** A GPU whose results arrive when the test decides. */
class FakeGpu {
  name = 'pretended'; waiting = []; lostError = null; most = 0; prepared = [];
  lost = new Promise((resolve) => { this.lose = (error) => { this.lostError = error; this.waiting.forEach(({ reject }) => reject(error)); resolve(error); }; });
  limits() { return []; }
  imports() { return {}; }
  async guarded(calls) { return calls(); }
  async prepare(id) { this.prepared.push(id); await tick(); if (this.broken) throw fail('device', 'the kernel `k` did not compile'); }
  read(ticket, use) {
    return new Promise((resolve, reject) => {
      this.waiting.push({ ticket, reject, resolve: () => { use(new Uint8Array()); resolve(); } });
      this.most = Math.max(this.most, this.waiting.length);
    });
  }
  finish() { this.waiting.shift().resolve(); }
  async done() {}
  counters() { return { liveBuffers: 0 }; }
  upload(list) { this.uploaded = list; }
  destroy() { this.destroyed = true; }
}

async function pair({ gpu = null, core = new StepCore() } = {}) {
  core.gpu = gpu;
  const { port1, port2 } = new MessageChannel();
  const port = { postMessage: (m, t) => port1.postMessage(m, t), terminate: () => { port.ended = true; port1.close(); }, onmessage: null, onerror: null };
  port1.onmessage = (event) => port.onmessage?.(event);
  const scope = { postMessage: (m, t) => port2.postMessage(m, t), onmessage: null };
  const server = new Server(scope, { device: async () => gpu, core: async () => core });
  port2.onmessage = (event) => scope.onmessage(event);
  const client = new Client(port);
  await client.ask('start', { device: gpu ? 'webgpu' : 'cpu', portable: false });
  await client.ask('load', { module: null });
  const log = { commands: new Float64Array([0, 0]), texts: [], blobs: [] };
  const { session, program } = await client.ask('compile', { log, seed: 1, optimizer: [0] });
  const step = (value, read = true, began) => client.ask('step', { program, inputs: [new Float32Array([value])], read }, [], new Error(), began);
  return { client, server, port, core, gpu, session, program, step, log };
}
const values = (reply) => reply.outputs.map(({ data }) => data[0]);

test('steps that are not awaited happen in order, each with its own rate', async () => {
  const { client, step, program } = await pair();
  const replies = [];
  for (let i = 1; i <= 6; i++) {
    replies.push(step(i));
    void client.ask('rate', { program, schedule: [1, 0, i + 1] });
  }
  assert.deepEqual((await Promise.all(replies)).map(values), [[1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6]]);
  await client.close();
});

test('at most four steps are submitted and unread', async () => {
  const gpu = new FakeGpu();
  const { client, core, step } = await pair({ gpu });
  const replies = Array.from({ length: 10 }, (_, i) => step(i));
  await tick();
  assert.equal(core.steps.length, 4);
  for (let i = 0; i < 10; i++) { gpu.finish(); await tick(); }
  assert.deepEqual((await Promise.all(replies)).map((reply) => values(reply)[0]), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(gpu.most, 4);
  await client.close();
});

test('a step that was not begun is cancelled; one that was is not', async () => {
  const gpu = new FakeGpu();
  const { client, core, step } = await pair({ gpu });
  const ids = [];
  const replies = Array.from({ length: 6 }, (_, i) => step(i, true, (id) => ids.push(id)));
  await tick();
  client.cancel(ids[0]);
  client.cancel(ids[5]);
  await tick();
  for (let i = 0; i < 5; i++) { gpu.finish(); await tick(); }
  const kinds = (await Promise.all(replies)).map(({ kind }) => kind);
  assert.deepEqual(kinds, [...Array(5).fill('completed'), 'aborted']);
  assert.equal(core.steps.length, 5);
  await client.close();
});

test('an error keeps its kind, and has the stack of the call', async () => {
  const { client, program } = await pair();
  const site = new Error();
  const error = await client.ask('step', { program, inputs: [new Float32Array(2)], read: true }, [], site).catch((e) => e);
  assert.deepEqual([error.kind, error.message], ['feed', 'wrong length']);
  assert.match(error.stack, /protocol\.test\.mjs/);
  await client.close();
});

test('a lost device rejects everything pending, and everything after', async () => {
  const gpu = new FakeGpu();
  const { client, core, step } = await pair({ gpu });
  const replies = Array.from({ length: 6 }, (_, i) => step(i));
  await tick();
  gpu.lose(fail('lost', 'gone'));
  const kinds = (await Promise.allSettled(replies)).map(({ reason }) => reason.kind);
  assert.deepEqual(kinds, Array(6).fill('lost'));
  assert.equal((await client.lost).kind, 'lost');
  await assert.rejects(step(1), { kind: 'lost' });
  assert.match(core.lost, /gone/);
  assert.equal(client.pending, 0);
  await client.close();
});

test('close settles everything, and the worker drops what it has', async () => {
  const gpu = new FakeGpu();
  const { client, core, port, step } = await pair({ gpu });
  const replies = Array.from({ length: 6 }, (_, i) => step(i));
  await tick();
  const closed = client.close();
  const kinds = (await Promise.allSettled(replies)).map(({ reason }) => reason.kind);
  assert.deepEqual(kinds, Array(6).fill('aborted'));
  while (gpu.waiting.length > 0) { gpu.finish(); await tick(); }
  const counters = await closed;
  assert.deepEqual([counters.sessions, counters.programs, gpu.destroyed, port.ended], [0, 0, true, true]);
  assert.deepEqual(core.released.map(([what]) => what), ['program', 'session']);
  await assert.rejects(step(1), { kind: 'destroyed' });
  assert.equal(await client.close(), null);
});

test('a worker that does not answer is ended all the same', async () => {
  const { client, port, step } = await pair({ gpu: new FakeGpu() });
  void step(1).catch(() => undefined);
  await tick();
  assert.equal(await client.close(5), null);
  assert.equal(port.ended, true);
});

test('a worker that dies settles everything', async () => {
  const { client, port, step } = await pair({ gpu: new FakeGpu() });
  const reply = step(1);
  port.onerror({ message: 'boom' });
  await assert.rejects(reply, (error) => error.kind === 'internal' && /boom/.test(error.message));
  await assert.rejects(step(2), { kind: 'internal' });
  assert.equal(client.pending, 0);
});

test('a dropped session aborts what was not begun, and goes with its programs', async () => {
  const gpu = new FakeGpu();
  const { client, core, session, step, log } = await pair({ gpu });
  const attached = await client.ask('attach', { session, log });
  const replies = Array.from({ length: 6 }, (_, i) => step(i));
  await tick();
  const dropped = client.ask('drop', { session });
  await tick();
  for (let i = 0; i < 4; i++) { gpu.finish(); await tick(); }
  await dropped;
  const kinds = (await Promise.all(replies)).map(({ kind }) => kind);
  assert.deepEqual(kinds, [...Array(4).fill('completed'), 'aborted', 'aborted']);
  assert.equal(core.released.filter(([what]) => what === 'program').length, 2);
  assert.equal((await client.ask('run', { program: attached.program, inputs: [] })).kind, 'aborted');
  await assert.rejects(client.ask('download', { session, states: false }), { kind: 'aborted' });
  await client.close();
});

test('a device that comes late, or is there after a trap, is destroyed', async () => {
  const serve = (makers) => {
    const scope = { postMessage() {}, onmessage: null };
    new Server(scope, makers);
    return (message) => scope.onmessage({ data: message });
  };
  const late = new FakeGpu();
  let there;
  const ask = serve({ device: () => new Promise((resolve) => { there = resolve; }), core: async () => new StepCore() });
  ask({ id: 1, kind: 'start', device: 'webgpu', portable: false });
  ask({ id: 2, kind: 'destroy' });
  await tick();
  assert.equal(late.destroyed, undefined);
  there(late);
  await tick();
  assert.equal(late.destroyed, true);

  const [gpu, core] = [new FakeGpu(), new StepCore()];
  const say = serve({ device: async () => gpu, core: async () => core });
  say({ id: 1, kind: 'start', device: 'webgpu', portable: false });
  say({ id: 2, kind: 'load', module: null });
  await tick();
  say({ id: 3, kind: 'compile', log: [], seed: 0, precision: 'f32', optimizer: null });
  await tick();
  core.dead = true;
  core.release = () => { throw new Error('released after a trap'); };
  say({ id: 4, kind: 'destroy' });
  await tick();
  assert.equal(gpu.destroyed, true);
});

test('what serves in the same thread is asked in order, takes what is handed over, and ends', async () => {
  const server = new URL(`data:text/javascript,${encodeURIComponent(`export class Server {
    constructor(scope) {
      scope.onmessage = ({ data }) => { globalThis.heard.push(data); scope.postMessage({ id: data.id, ok: true, value: data.kind }, []); };
    }
  }`)}`);
  globalThis.heard = [];
  const client = new Client(serveHere(server));
  const given = new Float32Array([1, 2]);
  const answers = [client.ask('start', {}), client.ask('step', { inputs: [given] }, [given.buffer])];
  assert.equal(given.length, 0);
  assert.deepEqual(await Promise.all(answers), ['start', 'step']);
  assert.deepEqual([...globalThis.heard[1].inputs[0]], [1, 2]);
  await client.close();
  assert.deepEqual(globalThis.heard.map(({ kind }) => kind), ['start', 'step', 'destroy']);

  const none = new Client(serveHere(new URL('data:text/javascript,throw new Error("no server")')));
  await assert.rejects(none.ask('start', {}), /no server/);
  delete globalThis.heard;
});

test('a program whose kernels do not compile leaves nothing', async () => {
  const gpu = new FakeGpu();
  const { client, core, session, log, step } = await pair({ gpu });
  gpu.broken = true;
  await assert.rejects(client.ask('attach', { session, log }), { kind: 'device' });
  await assert.rejects(client.ask('compile', { log, seed: 1, optimizer: [0] }), { kind: 'device' });
  assert.deepEqual(core.released.map(([what]) => what), ['program', 'program', 'session']);
  const reply = step(3);
  await tick();
  gpu.finish();
  assert.equal((await reply).kind, 'completed');
  await client.close();
});

test('uploads wait for the steps before them', async () => {
  const gpu = new FakeGpu();
  const { client, core, session, step } = await pair({ gpu });
  const replies = Array.from({ length: 5 }, (_, i) => step(i));
  const uploaded = client.upload({ session, strict: true, finite: true }, [{ name: 'w', dtype: 'f32', data: Float32Array.of(1, 2, 3) }], new Error());
  await tick();
  assert.equal(gpu.uploaded, undefined);
  for (let i = 0; i < 5; i++) { gpu.finish(); await tick(); }
  await uploaded;
  assert.equal(core.filled, true, 'initial values are not made where all are given');
  assert.deepEqual(gpu.uploaded, [{ buffer: 7, at: 256, data: Float32Array.of(1, 2, 3) }]);
  assert.equal(core.steps.length, 5);
  await Promise.all(replies);
  await client.close();
});
