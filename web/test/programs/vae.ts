// A variational autoencoder of bumps on a line, with noise inside of the loss.
import { add, clamp, compile, compileForward, exp, Linear, mean, Module, mul, randn, relu, sigmoid, softplus, split, square, sub, sum, tanh, type Tensor } from 'gradloom'

const B = 64, N = 16, Z = 2

class Vae extends Module {
  enc = new Linear(N, 32)
  stats = new Linear(32, 2 * Z)
  d1 = new Linear(Z, 32)
  d2 = new Linear(32, N)
}

function decode(m: Vae, z: Tensor): Tensor {
  return m.d2.fwd(relu(m.d1.fwd(z)))
}

function lossFn(m: Vae, { x }: { x: Tensor }): Tensor {
  const [mu, rawLogVar] = split(m.stats.fwd(tanh(m.enc.fwd(x))), [Z, Z], -1) as [Tensor, Tensor]
  const logVar = clamp(rawLogVar, -8, 8)
  const z = add(mu, mul(exp(mul(logVar, 0.5)), randn([B, Z])))
  const logits = decode(m, z)
  // The negative log-likelihood of bits x with these logits.
  const reconstruction = sum(sub(softplus(logits), mul(x, logits)), -1)
  const divergence = mul(sum(sub(add(square(mu), exp(logVar)), add(1, logVar)), -1), 0.5)
  return mean(add(reconstruction, mul(divergence, 0.2)))
}

export async function run(steps = 500) {
  const train = await compile({
    model: new Vae(), loss: lossFn, inputs: { x: [B, N] } as const, seed: 5,
    optimizer: { kind: 'adam', lr: { kind: 'warmup', peak: 0.01, steps: 20, after: { kind: 'cosineAnnealing', peak: 0.01, final: 0.001, steps: steps - 20 } } },
  })
  const x = Float32Array.from({ length: B * N }, (_, i) => (Math.abs((i % N) - (Math.floor(i / N) % 12) - 2) <= 1 ? 1 : 0))
  const losses: number[] = []
  for (let step = 0; step < steps; step++) {
    const r = await train.step({ x })
    if (r.kind !== 'completed') throw r.kind === 'failed' ? r.error : new Error(r.kind)
    losses.push(r.loss)
  }
  // The decoder alone, as a separate program.
  const decoder = await compileForward({ model: new Vae(), forward: (m: Vae, { z }: { z: Tensor }) => sigmoid(decode(m, z)), inputs: { z: [null, Z] }, seed: 1 })
  await decoder.uploadParams(await train.downloadParams())
  const r = await decoder.run({ z: new Float32Array([-1.5, 0, 0, 0, 1.5, 0]) })
  decoder.destroy()
  train.destroy()
  if (r.kind !== 'completed') throw new Error(r.kind)
  return { first: losses[0]!, last: losses.slice(-20).reduce((a, b) => a + b) / 20, distinct: new Set(losses).size, output: [...r.output] }
}
