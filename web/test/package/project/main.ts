import { compile, Linear, Module, mean, relu, square, sub, type CompiledTraining, type Tensor } from 'gradloom'

class MLP extends Module {
  l1 = new Linear(1, 64)
  l2 = new Linear(64, 64)
  l3 = new Linear(64, 1)
}

function loss(m: MLP, { x, y }: { x: Tensor; y: Tensor }): Tensor {
  return mean(square(sub(m.l3.fwd(relu(m.l2.fwd(relu(m.l1.fwd(x))))), y)))
}

async function learn() {
  const inputs = { x: [256, 1], y: [256, 1] } as const
  const train: CompiledTraining<MLP, typeof inputs> = await compile({
    model: new MLP(), seed: 1, loss, inputs, optimizer: { kind: 'adam', lr: 0.005 },
  })
  const x = Float32Array.from({ length: 256 }, (_, i) => (i / 255 * 2 - 1) * Math.PI)
  const losses: number[] = []
  for (let step = 0; step < 20; step++) {
    const r = await train.step({ x, y: x.map(Math.sin) })
    if (r.kind !== 'completed') throw r.kind === 'failed' ? r.error : r.kind
    losses.push(r.loss)
  }
  return { losses, device: train.device }
}

learn().catch((error) => ({ losses: [], error: String(error) })).then((done) => Object.assign(globalThis, { done }))
