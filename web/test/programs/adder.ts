// A causal transformer learns sums of one-digit numbers, written as tokens: a + b = cc.
import {
  add, arange, capture, compile, crossEntropy, embedding, LayerNorm, Linear, lr, matmul, mergeHeads, Module, mul, narrow, relu, rope,
  softmaxCausal, splitHeads, swapAxes, argmax, Embedding, type CompiledTraining, type Tensor,
} from 'gradloom'

const VOCAB = 12, D = 32, HEADS = 4, T = 6, B = 32
const PLUS = 10, EQUALS = 11

class Attention extends Module {
  q = new Linear(D, D, { bias: false })
  k = new Linear(D, D, { bias: false })
  v = new Linear(D, D, { bias: false })
  o = new Linear(D, D)
  fwd(x: Tensor, name: string): Tensor {
    const [q, k] = rope(splitHeads(this.q.fwd(x), HEADS), splitHeads(this.k.fwd(x), HEADS))
    const scores = mul(matmul(q, swapAxes(k, -1, -2)), 1 / Math.sqrt(D / HEADS))
    const weights = capture(name, softmaxCausal(scores, -1))
    return this.o.fwd(mergeHeads(matmul(weights, splitHeads(this.v.fwd(x), HEADS))))
  }
}

class Layer extends Module {
  ln1 = new LayerNorm(D)
  attn = new Attention()
  ln2 = new LayerNorm(D)
  up = new Linear(D, 2 * D)
  down = new Linear(2 * D, D)
  fwd(x: Tensor, name: string): Tensor {
    const h = add(x, this.attn.fwd(this.ln1.fwd(x), name))
    return add(h, this.down.fwd(relu(this.up.fwd(this.ln2.fwd(h)))))
  }
}

class Transformer extends Module {
  tokens = new Embedding(VOCAB, D)
  positions = new Embedding(T, D)
  layers = [new Layer()]
  norm = new LayerNorm(D, { decay: false })
  head = new Linear(D, VOCAB)
}

function logits(m: Transformer, tokens: Tensor): Tensor {
  let h = add(m.tokens.fwd(tokens), embedding(m.positions.W, arange(T)))
  m.layers.forEach((layer, i) => { h = layer.fwd(h, `attn.${i}`) })
  return m.head.fwd(m.norm.fwd(h))
}

// Only the two digits of the sum are predicted.
function lossFn(m: Transformer, { tokens, targets }: { tokens: Tensor; targets: Tensor }): Tensor {
  return crossEntropy(narrow(logits(m, tokens), 1, 3, 2), targets)
}

const inputs = {
  tokens: { shape: [B, T], dtype: 'i32' },
  targets: { shape: [B, 2], dtype: 'i32' },
} as const

let state = 12345
const random = (n: number) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % 4096 % n

function batch() {
  const tokens = new Int32Array(B * T), targets = new Int32Array(B * 2)
  for (let i = 0; i < B; i++) {
    const [a, b] = [random(10), random(10)]
    const sum = a + b
    tokens.set([a, PLUS, b, EQUALS, Math.floor(sum / 10), sum % 10], i * T)
    targets.set([Math.floor(sum / 10), sum % 10], i * 2)
  }
  return { tokens, targets }
}

async function learn(train: CompiledTraining<Transformer>, steps: number): Promise<number> {
  let last = NaN
  for (let step = 0; step < steps; step++) {
    const r = await train.step(batch())
    if (r.kind === 'failed') throw r.error
    if (r.kind === 'completed') last = r.loss
  }
  return last
}

export async function run(steps = 140) {
  const train: CompiledTraining<Transformer> = await compile({
    model: new Transformer(), loss: lossFn, inputs, seed: 3,
    optimizer: {
      kind: 'adamw', lr: lr.linear({ peak: 0.005, final: 0.001, steps }), weightDecay: 0.01, beta1: 0.9, beta2: 0.98,
      clipGradNorm: 1, decayFilter: (name) => name.endsWith('.W'),
    },
  })
  const loss = await learn(train, steps)
  const infer = await train.attach({
    forward: (m: Transformer, { tokens }: { tokens: Tensor }) => argmax(narrow(logits(m, tokens), 1, 3, 2), -1),
    inputs: { tokens: { shape: [B, T], dtype: 'i32' } }, output: 'i32',
  })
  const { tokens, targets } = batch()
  const r = await infer.run({ tokens })
  train.destroy()
  if (r.kind !== 'completed') throw new Error(r.kind)
  const right = targets.filter((digit, i) => digit === r.output[i]).length / targets.length
  const heads = r.captures.perHead('attn.0')
  return { loss, right, names: r.captures.names(), shape: r.captures.shape('attn.0'), heads: heads.length, first: [...heads[0]!.slice(0, T)] }
}
