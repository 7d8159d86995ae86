// A convolutional network distinguishes horizontal, vertical and diagonal stripes.
import { compile, Conv2d, crossEntropy, Linear, maxPool2d, Module, relu, reshape, type Tensor } from 'gradloom'

const B = 24, N = 12

class Cnn extends Module {
  c1 = new Conv2d(1, 6, 3, { padding: 1 })
  c2 = new Conv2d(6, 8, [3, 3], { stride: [1, 1], padding: [1, 1], bias: false })
  out = new Linear(8 * 3 * 3, 3)
  fwd(x: Tensor): Tensor {
    const a = maxPool2d(relu(this.c1.fwd(x)), 2)
    const b = maxPool2d(relu(this.c2.fwd(a)), [2, 2], { stride: 2, padding: 0 })
    return this.out.fwd(reshape(b, [-1, 8 * 3 * 3]))
  }
}

function batch(seed: number) {
  const image = new Float32Array(B * N * N), label = new Int32Array(B)
  for (let i = 0; i < B; i++) {
    const kind = label[i] = i % 3
    const phase = (i * 7 + seed * 3) % 4
    for (let r = 0; r < N; r++) {
      for (let c = 0; c < N; c++) {
        const along = kind === 0 ? r : kind === 1 ? c : r + c
        image[(i * N + r) * N + c] = ((along + phase) % 4 < 2 ? 1 : 0) + 0.3 * Math.sin(37 * (i + r * c + seed))
      }
    }
  }
  return { image, label }
}

export async function run(steps = 80) {
  const train = await compile({
    model: new Cnn(),
    loss: (m: Cnn, { image, label }: { image: Tensor; label: Tensor }) => crossEntropy(m.fwd(image), label),
    inputs: { image: [B, 1, N, N], label: { shape: [B], dtype: 'i32' } },
    optimizer: { kind: 'sgd', lr: { kind: 'staircase', peak: 0.1, every: 40, gamma: 0.5 }, momentum: 0.9, nesterov: true, weightDecay: 1e-4 },
    seed: 2,
  })
  let [first, last] = [NaN, NaN]
  for (let step = 0; step < steps; step++) {
    const r = await train.step(batch(step))
    if (r.kind !== 'completed') throw r.kind === 'failed' ? r.error : new Error(r.kind)
    if (step === 0) first = r.loss
    last = r.loss
  }
  const infer = await train.attach({ forward: (m, { image }) => m.fwd(image), inputs: { image: [B, 1, N, N] } })
  const { image, label } = batch(1000)
  const r = await infer.run({ image })
  train.destroy()
  if (r.kind !== 'completed') throw new Error(r.kind)
  const right = label.filter((kind, i) => kind === [0, 1, 2].reduce((a, b) => (r.output[i * 3 + b]! > r.output[i * 3 + a]! ? b : a))).length
  return { first, last, right: right / B }
}
