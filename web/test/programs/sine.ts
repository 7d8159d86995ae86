// A small network learns a sine: a typical first program.
import { compile, Linear, mean, Module, relu, square, sub, type Tensor } from 'gradloom'

const B = 128

class MLP extends Module {
  l1 = new Linear(1, 32)
  l2 = new Linear(32, 32)
  l3 = new Linear(32, 1)
  constructor() { super() }
}

function predict(m: MLP, x: Tensor): Tensor {
  return m.l3.fwd(relu(m.l2.fwd(relu(m.l1.fwd(x)))))
}

function lossFn(m: MLP, { x, y }: { x: Tensor; y: Tensor }): Tensor {
  return mean(square(sub(predict(m, x), y)))
}

export async function run(steps = 600) {
  const train = await compile({
    model: new MLP(), loss: lossFn, seed: 1, optimizer: { kind: 'adam', lr: 0.005 },
    inputs: { x: [B, 1], y: [B, 1] },
  })
  const x = Float32Array.from({ length: B }, (_, i) => ((i + 0.5) / B * 2 - 1) * Math.PI)
  const y = x.map(Math.sin)
  const losses: number[] = []
  for (let step = 0; step < steps; step++) {
    const r = await train.step({ x, y })
    if (r.kind !== 'completed') throw r.kind === 'failed' ? r.error : new Error(r.kind)
    losses.push(r.loss)
  }
  const infer = await train.attach({ forward: (m, { x }) => predict(m, x), inputs: { x: [null, 1] } })
  const at = await infer.run({ x: new Float32Array([-1, 0.5, 2]) })
  train.destroy()
  return { losses, at: at.kind === 'completed' ? [...at.output] : [] }
}
