// Models, logs and traces with an instance that only counts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeCore } from './fake-core.mjs';
import { errorOf } from '../../.test/src/errors.js';
import { replay } from '../../.test/src/log.js';
import { Module, walk } from '../../.test/src/module.js';
import { init } from '../../.test/src/init.js';
import { Linear } from '../../.test/src/nn.js';
import * as ops from '../../.test/src/ops.js';
import { traceFunction } from '../../.test/src/tracing.js';

const inputs = [{ name: 'x', dtype: 'f32', shape: [2, 3] }];
const traced = (model, run, core = new FakeCore()) => ({ core, ...traceFunction(core, { model, inputs, run, training: false }) });

class Net extends Module {
  a = new Linear(3, 3);
  list = [new Linear(3, 1, { bias: false }), { deep: new Linear(1, 1) }];
  number = 3;
  nothing = null;
  table = new Float32Array(2);
}

test('names are paths; what is no module or parameter is left alone', () => {
  assert.deepEqual(walk(new Net()).params.map(({ name }) => name), ['a.W', 'a.b', 'list.0.W', 'list.1.deep.W', 'list.1.deep.b']);
});

test('the same module in two places ties', () => {
  const net = new Net();
  net.again = net.a;
  net.list[0].W = net.a.W;
  const { core, params, aliases } = traced(net, (m) => m.again.W);
  assert.deepEqual(params.map(({ name }) => name), ['a.W', 'a.b', 'list.1.deep.W', 'list.1.deep.b']);
  assert.deepEqual(aliases, [['list.0.W', 'a.W'], ['again.W', 'a.W'], ['again.b', 'a.b']]);
  assert.equal(core.commands.filter(([code]) => code === 2).length, 3);
});

test('a model that contains itself is an error with the path', () => {
  const net = new Net();
  net.list.push({ up: net.list });
  assert.throws(() => walk(net), /'list\.2\.up' is 'list' again/);
});

test('tracing changes nothing in the model', () => {
  const net = new Net();
  const before = JSON.stringify(net);
  const keys = Object.keys(net.a);
  traced(net, (m) => m.a.W);
  assert.equal(JSON.stringify(net), before);
  assert.deepEqual(Object.keys(net.a), keys);
});

test('parameters say their initial values and decay', () => {
  class P extends Module {
    r = this.param([4, 2], { init: init.kaiming() });
    z = this.param([2], { init: init.zeros() });
    l = this.param([2], { init: init.literal(new Float32Array([1, 2])), decay: false, frozen: true, dtype: 'f16' });
  }
  const { core } = traced(new P(), (m) => m.r);
  const params = core.commands.filter(([code]) => code === 1);
  assert.deepEqual(params[0].slice(2), [1, 0, 7, Math.SQRT2, 0, -1, 0, 4, 2]);
  assert.deepEqual(params[1].slice(2), [0, 0, 0, 0, 0, -1, 0, 2]);
  assert.deepEqual(params[2].slice(2), [0, 1, 6, 0, 0, 0, 4, 2]);
  assert.throws(() => new (class extends Module { p = this.param([3], { init: init.literal(new Float32Array(2)) }); })(), /2 initial values for \[3\]/);
  assert.throws(() => new (class extends Module { p = this.param([0]); })(), /whole numbers above 0/);
});

test('a log replays to the same commands', () => {
  const { core, log } = traced(new Net(), (m, { x }) => ops.capture('h', ops.mean(m.a.fwd(x))));
  const other = new FakeCore();
  assert.equal(replay(other, structuredClone(log)), 0);
  assert.deepEqual(other.commands, core.commands);
  assert.deepEqual(other.texts, core.texts);
});

test('ops carry the line of the user', () => {
  const { core } = traced(new Net(), (m, { x }) => ops.mean(m.a.fwd(x)));
  const origins = core.commands.filter(([code]) => code === 6);
  assert.ok(origins.length >= 1);
  for (const [, file, line] of origins) {
    assert.match(core.texts[file], /tracing\.test\.mjs$/);
    assert.ok(line > 0);
  }
});

test('a tensor of another trace is a clear error', () => {
  let kept;
  traced(new Net(), (m, { x }) => (kept = x));
  assert.throws(() => kept.relu(), /outside of a trace/);
  assert.throws(() => traced(new Net(), (m, { x }) => ops.add(x, kept)), /uses a tensor of another trace/);
  assert.throws(() => traced(new Net(), () => new Net().a.W), /not part of the model/);
  assert.throws(() => traced(new Net(), (m, { x }) => ops.add(ops.capture('a', x), ops.capture('a', x))), /'a' is used twice/);
});

test('errors of the compiler are thrown at the user, and the trace is over', () => {
  const core = new FakeCore();
  core.failing = (code) => (code >= 32 ? errorOf({ kind: 'trace', message: 'no', help: ['do'] }) : null);
  assert.throws(() => traced(new Net(), (m, { x }) => x.relu(), core), (error) => {
    assert.equal(error.name, 'ShapeError');
    assert.match(error.origin.file, /tracing\.test\.mjs$/);
    assert.equal(error.message, 'no\nhelp: do');
    return true;
  });
  core.failing = null;
  assert.throws(() => traced(new Net(), () => { throw new RangeError('mine'); }, core), RangeError);
  assert.throws(() => traced(new Net(), async (m, { x }) => x, core), /async/);
  assert.throws(() => traced(new Net(), () => undefined, core), /returned no tensor/);
  assert.equal(traced(new Net(), (m, { x }) => ops.sum(x), core).trace, 0);
});
