// Code that the types allow and forbid: the README's example, and lines that must not compile. Checked by
// `npm run check`, never run.
import {
  Module, compile, Linear, loadSafetensors, saveSafetensors,
  sub, mean, square, relu,
  type Tensor,
} from '../../src/index.js'

const B = 256

class MLP extends Module {
  l1 = new Linear(1, 64)
  l2 = new Linear(64, 64)
  l3 = new Linear(64, 1)
  layers = [new Linear(1, 2)]
  head: Linear | null = null
  named = { a: new Linear(1, 2) }
  n = 3
}

function modelFwd(m: MLP, x: Tensor): Tensor {
  return m.l3.fwd(relu(m.l2.fwd(relu(m.l1.fwd(x)))))
}

function lossFn(m: MLP, { x, y }: { x: Tensor; y: Tensor }): Tensor {
  return mean(square(sub(modelFwd(m, x), y)))
}

const train = await compile({
  model: new MLP(),
  loss: lossFn,
  optimizer: { kind: 'adam', lr: 0.005 },
  inputs: { x: [B, 1], y: [B, 1] },   // shape tuples; dtype defaults to f32
})

for (let step = 0; step < 1000; step++) {
  const x = new Float32Array(256), y = x
  const r = await train.step({ x, y })
  if (r.kind === 'completed' && step % 100 === 0) {
    console.log('step', step, 'loss', r.loss)
  }
}
const p = await train.downloadParams()
const w: Float32Array = p['l1.W']!
const w2: Float32Array = p['layers.0.W']!
const w3: Float32Array = p['named.a.W']!
const q = await train.step({ x: w, y: w2 }, { read: false }); if (q.kind === 'queued') console.log(w3)
// @ts-expect-error wrong name
await train.step({ x: w, z: w2 })
const t2 = await compile({ model: new MLP(), loss: (m, { tokens, y }) => mean(m.l1.fwd(y)).add(tokens.cast('f32').mean()), optimizer: { kind: 'sgd', lr: 1 }, inputs: { tokens: { shape: [B], dtype: 'i32' }, y: [B, 1] } })
await t2.step({ tokens: new Int32Array(2), y: new Float32Array(2) })
// @ts-expect-error wrong type
await t2.step({ tokens: new Float32Array(2), y: new Float32Array(2) })
// @ts-expect-error y is an input, z is not
await compile({ model: new MLP(), loss: (m, { z }) => z, optimizer: { kind: 'sgd', lr: 1 }, inputs: { y: [B, 1] } })
const infer = await train.attach({ forward: modelFwd2, inputs: { x: [null, 1] } })
function modelFwd2(m: MLP, { x }: { x: Tensor }) { return modelFwd(m, x) }
const r = await infer.run({ x: new Float32Array(3) }); if (r.kind === 'completed') r.output.length

// States and files.
const state = await train.downloadState()
const file: ArrayBuffer = saveSafetensors(state.tensors, state.metadata)
await train.uploadState(file)
await train.uploadState(state)
await train.uploadParams(loadSafetensors(file).tensors, { partial: true })
