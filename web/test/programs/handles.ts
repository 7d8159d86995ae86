// One training that uses every method of its handle.
import {
  argmax, compile, crossEntropy, init, lr, Linear, Module, relu, singleFlight, type CompiledForward, type CompiledTraining, type LR, type Tensor,
} from 'gradloom'

const B = 32

class Net extends Module {
  l1: Linear
  l2: Linear
  constructor(width = 8) {
    super()
    this.l1 = new Linear(2, width, { init: init.kaiming() })
    this.l2 = new Linear(width, 2, { init: init.kaiming({ gain: 1 }) })
  }
  fwd(x: Tensor): Tensor {
    return this.l2.fwd(relu(this.l1.fwd(x)))
  }
}

const inputs = { x: [B, 2], label: { shape: [B], dtype: 'i32' } } as const
const data = () => {
  const x = Float32Array.from({ length: 2 * B }, (_, i) => Math.sin(12.9898 * (i + 1)) * 1.5)
  return { x, label: Int32Array.from({ length: B }, (_, i) => (x[2 * i]! * x[2 * i + 1]! > 0 ? 1 : 0)) }
}

class App {
  train: CompiledTraining<Net> | null = null
  infer: CompiledForward<Net, { x: readonly [null, 2] }, 'i32'> | null = null
  async start(rate: LR) {
    const train = await compile({
      model: new Net(), loss: (m: Net, { x, label }: { x: Tensor; label: Tensor }) => crossEntropy(m.fwd(x), label),
      inputs, optimizer: { kind: 'adam', lr: rate }, seed: 11,
    })
    this.train = train
    this.infer = await train.attach({ forward: (m: Net, { x }: { x: Tensor }) => argmax(m.fwd(x), -1), inputs: { x: [null, 2] } as const, output: 'i32', maxCachedShapes: 2 })
  }
  async steps(count: number): Promise<number> {
    let last = NaN
    for (let i = 0; i < count; i++) {
      const r = await this.train!.step(data())
      if (r.kind === 'failed') throw r.error
      if (r.kind === 'completed') last = r.loss
    }
    return last
  }
  async right(): Promise<number> {
    const { x, label } = data()
    const r = await this.infer!.run({ x })
    if (r.kind !== 'completed') throw new Error(r.kind)
    return label.filter((kind, i) => kind === r.output[i]).length / B
  }
}

export async function run() {
  const app = new App()
  await app.start(lr.multiStep({ peak: 0.03, milestones: [200], gamma: 0.5 }))
  const train = app.train!
  const initial = await train.downloadParams()
  const [first, learnt] = [await app.steps(1), await app.steps(299)]
  const right = await app.right()
  const trained = await train.downloadParams()
  // After a reset, the initial values and the first loss are the same.
  await train.reset()
  const again = await train.downloadParams()
  const firstAgain = await app.steps(1)
  // With the trained parameters uploaded, the optimizer reset and a rate of 0, nothing changes.
  await train.uploadParams(trained)
  await train.reset({ params: false, optimizer: true })
  await train.setLR(0)
  const still = await app.steps(3)
  const unmoved = await train.downloadParams()
  // The model is replaced by a wider one; the attached function follows.
  await train.replaceModel(new Net(16), { seed: 12, optimizer: { kind: 'adam', lr: 0.03 } })
  const wide = (await train.downloadParams())['l1.W']!.length
  const replaced = await app.steps(300)
  const rightAgain = await app.right()
  const latest = singleFlight((n: number) => app.infer!.run({ x: new Float32Array(2 * n) }))
  const flights = (await Promise.all([latest(1), latest(2), latest(3)])).map(({ kind }) => kind)
  const partial = await train.uploadParams({ 'l1.W': new Float32Array(32) }).then(() => '', (error: Error) => error.message)
  const pending = train.step(data())
  train.destroy()
  const same = (a: Record<string, Float32Array>, b: Record<string, Float32Array>) =>
    Object.keys(a).length === 4 && Object.entries(a).every(([name, values]) => values.every((value, i) => value === b[name]![i]))
  return {
    first, learnt, right, reset: same(initial, again), moved: !same(initial, trained), firstAgain, still, unmoved: same(trained, unmoved), wide, replaced, rightAgain,
    flights, partial, pending: (await pending).kind, names: Object.keys(trained), seed: train.seed,
  }
}
