// Features that are not trained, and custom parameters: an image of rings from random Fourier features.
import { compile, concat, cos, init, Linear, matmul, mean, Module, mul, RMSNorm, silu, sin, square, sub, type Tensor } from 'gradloom'

const B = 256, FEATURES = 24

class Rings extends Module {
  frequencies = this.param([2, FEATURES], { init: init.randn({ scale: 3 }), decay: false, frozen: true })
  gain = this.param([1], { init: init.ones() })
  norm = new RMSNorm(2 * FEATURES, { decay: true })
  l1 = new Linear(2 * FEATURES, 32, { decay: false })
  l2 = new Linear(32, 1)
  fixed = new Linear(1, 1, { frozen: true, init: init.ones() })
  fwd(at: Tensor): Tensor {
    const angles = matmul(at, this.frequencies)
    const h = this.norm.fwd(concat([sin(angles), cos(angles)], -1))
    return this.fixed.fwd(mul(this.l2.fwd(silu(this.l1.fwd(h))), this.gain))
  }
}

export async function run(steps = 300) {
  const train = await compile({
    model: new Rings(), loss: (m: Rings, { at, value }: { at: Tensor; value: Tensor }) => mean(square(sub(m.fwd(at), value))),
    inputs: { at: [B, 2], value: [B, 1] }, seed: 4,
    optimizer: { kind: 'adamw', lr: { kind: 'cosineAnnealing', peak: 0.01, final: 0, steps }, weightDecay: 0.01, clipGradNorm: 1 },
  })
  const before = await train.downloadParams()
  const at = Float32Array.from({ length: 2 * B }, (_, i) => (i % 2 === 0 ? (i / 2) % 16 : Math.floor(i / 32)) / 8 - 1)
  const value = Float32Array.from({ length: B }, (_, i) => Math.sin(5 * Math.hypot(at[2 * i]!, at[2 * i + 1]!)))
  const losses: number[] = []
  for (let step = 0; step < steps; step++) {
    const r = await train.step({ at, value })
    if (r.kind !== 'completed') throw r.kind === 'failed' ? r.error : new Error(r.kind)
    losses.push(r.loss)
  }
  const after = await train.downloadParams()
  train.destroy()
  const moved = Object.keys(after).filter((name) => after[name]!.some((value, i) => value !== before[name]![i]))
  return { first: losses[0]!, last: losses.at(-1)!, kept: Object.keys(after).filter((name) => !moved.includes(name)) }
}
