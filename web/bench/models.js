// The models on which gradloom and tensorgrad are timed, the same as tensorgrad's samples: a sine fitted by
// an MLP, sums of two digits by a transformer, digits by convolutions. In: the package. Out: the options of
// `compile`, and a batch.

/** A 1-64-64-1 MLP with ReLU, batch 256, Adam. */
export function sine(g) {
  const BATCH = 256;
  class Mlp extends g.Module {
    l1 = new g.Linear(1, 64, { init: g.init.fanIn() });
    l2 = new g.Linear(64, 64, { init: g.init.fanIn() });
    l3 = new g.Linear(64, 1, { init: g.init.fanIn() });
  }
  const forward = (m, { x }) => m.l3.fwd(g.relu(m.l2.fwd(g.relu(m.l1.fwd(x)))));
  const x = Float32Array.from({ length: BATCH }, (_, i) => (i / (BATCH - 1) * 2 - 1) * Math.PI);
  return {
    spec: {
      model: new Mlp(), seed: 1,
      loss: (m, { x, y }) => g.mean(g.square(g.sub(forward(m, { x }), y))),
      inputs: { x: [BATCH, 1], y: [BATCH, 1] },
      optimizer: { kind: 'adam', lr: 0.005 },
    },
    batch: { x, y: x.map(Math.sin) },
  };
}

const VOCABULARY = 12;
const TIME = 8;
// Characters are 0-9, + and =; the sum's digits are the last three of nine characters.
const MASK = Float32Array.from([0, 0, 0, 0, 0, 1, 1, 1]);

/** A transformer of 3 layers of width 64, 4 heads, batch 128, AdamW with a linear schedule and clipping. */
export function addition(g) {
  const [BATCH, WIDTH, HEADS, LAYERS] = [128, 64, 4, 3];
  class Block extends g.Module {
    ln1 = new g.LayerNorm(WIDTH);
    query = new g.Linear(WIDTH, WIDTH, { bias: false });
    key = new g.Linear(WIDTH, WIDTH, { bias: false });
    value = new g.Linear(WIDTH, WIDTH, { bias: false });
    output = new g.Linear(WIDTH, WIDTH, { bias: false });
    ln2 = new g.LayerNorm(WIDTH);
    up = new g.Linear(WIDTH, 4 * WIDTH);
    down = new g.Linear(4 * WIDTH, WIDTH);
    fwd(x) {
      const normal = this.ln1.fwd(x);
      // The order is that of the model in Rust, so that its kernels are the same.
      const [k, v, q] = [this.key, this.value, this.query].map((linear) => g.splitHeads(linear.fwd(normal), HEADS));
      const y = x.add(this.output.fwd(g.mergeHeads(g.attention(q, k, v, { causal: true }))));
      return y.add(this.down.fwd(g.relu(this.up.fwd(this.ln2.fwd(y)))));
    }
  }
  class Transformer extends g.Module {
    tokens = new g.Embedding(VOCABULARY, WIDTH);
    positions = new g.Embedding(TIME + 1, WIDTH);
    blocks = Array.from({ length: LAYERS }, () => new Block());
    norm = new g.LayerNorm(WIDTH);
    fwd(ids) {
      let x = this.tokens.fwd(ids).add(g.narrow(this.positions.W, 0, 0, TIME));
      for (const block of this.blocks) x = block.fwd(x);
      return g.matmul(this.norm.fwd(x), g.swapAxes(this.tokens.W, 0, 1));
    }
  }
  const ids = new Int32Array(BATCH * TIME);
  const targets = new Int32Array(BATCH * TIME);
  for (let row = 0; row < BATCH; row++) {
    const [a, b] = [(row * 37) % 100, (row * 59 + 13) % 100];
    const text = `${String(a).padStart(2, '0')}+${String(b).padStart(2, '0')}=${String(a + b).padStart(3, '0')}`;
    const codes = [...text].map((c) => '0123456789+='.indexOf(c));
    ids.set(codes.slice(0, TIME), row * TIME);
    targets.set(codes.slice(1), row * TIME);
  }
  return {
    spec: {
      model: new Transformer(), seed: 1,
      loss: (m, { ids, targets, mask }) =>
        g.sum(g.crossEntropy(m.fwd(ids), targets, { reduction: 'none' }).mul(mask)).mul(1 / (BATCH * 3)),
      inputs: { ids: { shape: [BATCH, TIME], dtype: 'i32' }, targets: { shape: [BATCH, TIME], dtype: 'i32' }, mask: [TIME] },
      optimizer: { kind: 'adamw', lr: g.lr.linear({ peak: 0.005, final: 0.0005, steps: 1500 }), weightDecay: 0.01, clipGradNorm: 1 },
      memoryBudget: 14_000_000,
    },
    batch: { ids, targets, mask: MASK },
  };
}

/** Two convolutions with pooling and two linear layers on 64 images of 28 x 28, AdamW with clipping. */
export function digits(g) {
  const BATCH = 64;
  class Cnn extends g.Module {
    c1 = new g.Conv2d(1, 16, 3, { padding: 1 });
    c2 = new g.Conv2d(16, 32, 3, { padding: 1 });
    hidden = new g.Linear(1568, 64);
    out = new g.Linear(64, 10);
    fwd(x) {
      const pooled = (conv, x) => g.maxPool2d(g.relu(conv.fwd(x)), 2);
      const features = pooled(this.c2, pooled(this.c1, x));
      return this.out.fwd(g.relu(this.hidden.fwd(g.reshape(features, [BATCH, -1]))));
    }
  }
  // The same numbers as `spread` in benches/peers/torch_layers.py.
  const spread = (i) => Number((BigInt(i) * 2654435769n) % 4294967296n >> 8n) / 2 ** 24;
  return {
    spec: {
      model: new Cnn(), seed: 1, loss: (m, { x, t }) => g.crossEntropy(m.fwd(x), t),
      inputs: { x: [BATCH, 1, 28, 28], t: { shape: [BATCH], dtype: 'i32' } },
      optimizer: { kind: 'adamw', lr: 0.001, clipGradNorm: 1 },
    },
    batch: { x: Float32Array.from({ length: BATCH * 784 }, (_, i) => spread(i)), t: Int32Array.from({ length: BATCH }, (_, i) => i % 10) },
  };
}
