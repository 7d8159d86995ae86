// Every value that tensorgrad 0.4.6 exports is exported, with its arguments in the same order. Types check
// the names of the arguments (test/types/tensorgrad.ts); this file checks the values at run time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as g from '../../.test/src/index.js';

/** Names of functions, with the number of required arguments. */
const FUNCTIONS = {
  add: 2, sub: 2, mul: 2, div: 2, min: 2, max: 2, less: 2, greater: 2, sqrt: 1, rsqrt: 1, log: 1, exp: 1, relu: 1, neg: 1, abs: 1, tanh: 1,
  sigmoid: 1, erf: 1, sin: 1, cos: 1, silu: 1, softplus: 1, square: 1, stopGradient: 1, clamp: 3, gelu: 1, leakyRelu: 1, where: 3, dropout: 2,
  randn: 1, categorical: 1, mean: 1, sum: 1, argmax: 1, argmin: 1, reshape: 2, permute: 2, swapAxes: 3, narrow: 4, concat: 2, stack: 2,
  split: 3, splitHeads: 2, mergeHeads: 1, rope: 2, matmul: 2, oneHot: 2, arange: 1, zeros: 1, ones: 1, embedding: 2, takeAlongAxis: 3,
  softmax: 1, logSoftmax: 1, softmaxCausal: 1, whereCausal: 2, conv2d: 2, maxPool2d: 2, nearestUpsample2d: 2, capture: 2, crossEntropy: 2,
  nllLoss: 2, getOpInputs: 1, loadSafetensors: 1, singleFlight: 1, checkWebGPU: 0, compile: 1, compileForward: 1, trace: 1, traceForward: 1,
};
const CLASSES = ['Tensor', 'Module', 'Linear', 'Embedding', 'Conv2d', 'LayerNorm', 'RMSNorm', 'ShapeError', 'Captures'];

test('functions', () => {
  for (const [name, needed] of Object.entries(FUNCTIONS)) {
    assert.equal(typeof g[name], 'function', name);
    // The table's functions also declare optional arguments.
    assert.ok(g[name].length >= needed || g[name].length === 0 && needed === 0, `${name} takes ${g[name].length}`);
  }
});

test('classes, schedules, initial values', () => {
  for (const name of CLASSES) assert.match(String(g[name]), /^class/, name);
  assert.deepEqual(['linear', 'cosineAnnealing', 'warmup', 'staircase', 'multiStep'].filter((name) => !(name in g.lr)), []);
  assert.deepEqual(['randn', 'zeros', 'ones', 'kaiming', 'literal'].filter((name) => !(name in g.init)), []);
  assert.deepEqual(g.lr.multiStep({ peak: 1, milestones: [2], gamma: 0.5 }), { kind: 'multiStep', peak: 1, milestones: [2], gamma: 0.5 });
});

test('layers have the fields and the parameters that they had', () => {
  const linear = new g.Linear(2, 3);
  assert.deepEqual([linear.W.shape, linear.b.shape, linear.inDim, linear.outDim, linear.W.dtype], [[2, 3], [3], 2, 3, 'f32']);
  assert.equal(new g.Linear(2, 3, { bias: false }).b, null);
  const embedding = new g.Embedding(5, 4);
  assert.deepEqual([embedding.W.shape, embedding.vocab, embedding.dim], [[5, 4], 5, 4]);
  const conv = new g.Conv2d(4, 6, 3, { groups: 2 });
  assert.deepEqual([conv.W.shape, conv.b.shape], [[6, 2, 3, 3], [6]]);
  const norm = new g.LayerNorm(4, { bias: false });
  assert.deepEqual([norm.g.shape, norm.b, norm.eps], [[4], null, 1e-5]);
  const rms = new g.RMSNorm(4);
  assert.deepEqual([rms.g.shape, rms.eps], [[4], 1e-6]);
  for (const layer of [linear, embedding, conv, norm, rms]) assert.equal(typeof layer.fwd, 'function');
});

test('checkWebGPU has a message in any case', async () => {
  const { ok, message, reason } = await g.checkWebGPU();
  assert.equal(typeof message, 'string');
  assert.ok(message.length > 0);
  assert.equal(ok, reason === undefined);
  assert.ok([undefined, 'no-webgpu', 'no-adapter'].includes(reason));
});
