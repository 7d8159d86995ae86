// Stacks of four engines, and the user's frame in them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { here, parseStack, userFrame } from '../../.test/src/origin.js';

test('Chrome', () => {
  const frames = parseStack(`Error
    at here (http://localhost:1/dist/index.js:1:100)
    at Tensor.relu [as relu] (http://localhost:1/dist/index.js:1:200)
    at new MLP (http://localhost:1/app.js?v=3:7:21)
    at async Promise.all (index 0)
    at http://localhost:1/app.js:9:1
    at Array.map (<anonymous>)`);
  assert.deepEqual(frames.map(({ name, line, column }) => [name, line, column]),
    [['here', 1, 100], ['Tensor.relu', 1, 200], ['MLP', 7, 21], ['', 9, 1]]);
  assert.equal(frames[2].file, 'http://localhost:1/app.js?v=3');
});

test('Firefox and Safari', () => {
  const firefox = parseStack('relu@http://localhost:1/dist/index.js:1:200\nlossFn@http://localhost:1/app.js:7:21\n@http://localhost:1/app.js line 4 > eval:1:1\nasync*f@http://localhost:1/app.js:3:2\n');
  assert.deepEqual(firefox.map(({ name, line }) => [name, line]), [['relu', 1], ['lossFn', 7], ['', 1], ['async*f', 3]]);
  const safari = parseStack('lossFn@http://localhost:1/app.js:7:21\nglobal code@http://localhost:1/app.js:30:4\nmodule code@[native code]');
  assert.deepEqual(safari.map(({ file, line }) => [file, line]), [['http://localhost:1/app.js', 7], ['http://localhost:1/app.js', 30]]);
});

test('node', () => {
  const [frame] = parseStack('Error\n    at file:///home/me/a%20b/app.mjs:3:9');
  assert.deepEqual(frame, { name: '', file: 'file:///home/me/a%20b/app.mjs', line: 3, column: 9 });
});

const frame = (name, file, line) => ({ name, file, line, column: 1 });

test('the first frame that is not ours, where we have files of our own', () => {
  const telling = { separate: true, file: (file) => file === 'ours.js', name: () => false };
  const frames = [frame('here', 'ours.js', 1), frame('relu', 'ours.js', 2), frame('map', '<anonymous>', 0), frame('loss', 'app.js', 7), frame('trace', 'ours.js', 9)];
  assert.deepEqual(userFrame(frames, telling), { file: 'app.js', line: 7, column: 1 });
  assert.equal(userFrame(frames.slice(0, 2), telling), null);
});

test('the caller of our outermost function, where everything is one file', () => {
  const telling = { separate: false, file: () => true, name: (name) => ['a', 'Linear.fwd'].includes(name) };
  const frames = [frame('x', 'all.js', 1), frame('', 'all.js', 1), frame('a', 'all.js', 1), frame('Linear.fwd', 'all.js', 2), frame('q', 'all.js', 50), frame('r', 'all.js', 60)];
  assert.deepEqual(userFrame(frames, telling), { file: 'all.js', line: 50, column: 1 });
  assert.equal(userFrame([frame('z', 'all.js', 1)], telling), null);
});

test('here is this line', () => {
  const limit = Error.stackTraceLimit;
  const origin = here();
  assert.match(origin.file, /origin\.test\.mjs$/);
  assert.equal(Error.stackTraceLimit, limit);
});
