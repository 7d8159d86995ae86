// The MLP for the comparison with jax-js, for a page. In: the library and the number of steps. Out:
// milliseconds from import to the first finished step, of a step, and some losses.

const SIZES = [784, 512, 512, 10];
const BATCH = 256;
const LR = { sgd: 0.05, adam: 0.001 };

// Pseudorandom numbers from 0 to 1 (splitmix32).
const numbers = (seed) => () => {
  seed = (seed + 0x9e3779b9) | 0;
  let z = Math.imul(seed ^ (seed >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return ((z ^ (z >>> 15)) >>> 0) / 2 ** 32;
};
const floats = (length, next) => Float32Array.from({ length }, next);

/** Returns weights and biases, and batches of ten kinds of noisy pictures. */
function data() {
  const next = numbers(1);
  const weights = SIZES.slice(1).map((outs, i) => {
    const bound = Math.sqrt(6 / SIZES[i]);
    return { w: floats(SIZES[i] * outs, () => (2 * next() - 1) * bound), b: new Float32Array(outs) };
  });
  const kinds = Array.from({ length: 10 }, () => floats(784, next));
  const batches = Array.from({ length: 8 }, () => {
    const t = Int32Array.from({ length: BATCH }, () => Math.floor(10 * next()));
    return { x: floats(BATCH * 784, () => next()).map((noise, i) => 0.5 * (noise + kinds[t[Math.floor(i / 784)]][i % 784])), t };
  });
  return { weights, batches };
}

const LIBRARIES = {
  async gradloom({ adam, cpuWasm }, { weights }) {
    const g = await import('/dist/index.js');
    if (cpuWasm) g.configure({ cpuWasm: new URL(cpuWasm, location.href) });
    class Mlp extends g.Module {
      layers = weights.map(({ w }, i) => new g.Linear(SIZES[i], SIZES[i + 1], { init: { kind: 'literal', data: w } }));
      fwd(x) {
        return this.layers.reduce((x, layer, i) => layer.fwd(i > 0 ? g.relu(x) : x), x);
      }
    }
    const train = await g.compile({
      model: new Mlp(), device: 'cpu', seed: 1, inputs: { x: [BATCH, 784], t: { shape: [BATCH], dtype: 'i32' } },
      loss: (m, { x, t }) => g.crossEntropy(m.fwd(x), t),
      optimizer: adam ? { kind: 'adam', lr: LR.adam } : { kind: 'sgd', lr: LR.sgd },
    });
    return async (batch) => {
      const result = await train.step(batch);
      if (result.kind !== 'completed') throw result.error;
      return result.loss;
    };
  },

  async jax({ adam, jax: address }, { weights }) {
    const { defaultDevice, init, jit, nn, numpy: np, tree, valueAndGrad } = await import(address);
    await init('wasm');
    defaultDevice('wasm');
    let params = weights.map(({ w, b }, i) => ({ w: np.array(w).reshape([SIZES[i], SIZES[i + 1]]), b: np.array(b) }));
    const loss = (params, x, t) => {
      const logits = params.reduce((x, { w, b }, i) => np.matmul(i > 0 ? nn.relu(x) : x, w).add(b), x);
      return nn.logSoftmax(logits).mul(nn.oneHot(t, 10)).sum().mul(-1 / BATCH);
    };
    let [step, state] = [0, null];
    let train;
    if (adam) {
      state = { m: tree.map((p) => np.zeros(p.shape), params), v: tree.map((p) => np.zeros(p.shape), params) };
      train = jit((params, { m, v }, x, t, scales) => {
        const [value, grads] = valueAndGrad(loss)(tree.ref(params), x, t);
        const [byM, byV] = [scales.ref.slice(0), scales.slice(1)];
        const newM = tree.map((m, g) => m.mul(0.9).add(g.mul(0.1)), m, tree.ref(grads));
        const newV = tree.map((v, g) => v.mul(0.999).add(g.ref.mul(g).mul(0.001)), v, grads);
        const next = tree.map((p, m, v) => p.sub(m.mul(byM.ref).mul(LR.adam).div(np.sqrt(v.mul(byV.ref)).add(1e-8))), params, tree.ref(newM), tree.ref(newV));
        byM.dispose();
        byV.dispose();
        return [value, next, { m: newM, v: newV }];
      });
    } else {
      train = jit((params, x, t) => {
        const [value, grads] = valueAndGrad(loss)(tree.ref(params), x, t);
        return [value, tree.map((p, g) => p.sub(g.mul(LR.sgd)), params, grads)];
      });
    }
    return async (batch) => {
      const [x, t] = [np.array(batch.x).reshape([BATCH, 784]), np.array(batch.t)];
      let value;
      step++;
      if (adam) [value, params, state] = train(params, state, x, t, np.array(Float32Array.of(1 / (1 - 0.9 ** step), 1 / (1 - 0.999 ** step))));
      else [value, params] = train(params, x, t);
      return (await value.data())[0];
    };
  },
};

/** Trains the model with a library and returns the times and losses. */
export async function run(library, spec) {
  const given = data();
  const began = performance.now();
  const step = await LIBRARIES[library](spec, given);
  const losses = [await step(given.batches[0])];
  const first = performance.now() - began;
  const times = [];
  for (let i = 1; i <= spec.steps; i++) {
    const start = performance.now();
    losses.push(await step(given.batches[i % given.batches.length]));
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return { first, step: times[Math.floor(times.length / 2)], least: times[0], losses: losses.filter((_, i) => i % 10 === 0) };
}
