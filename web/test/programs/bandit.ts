// A policy learns by REINFORCE which of four arms pays, from its observation.
import { categorical, compile, dropout, Linear, logSoftmax, mean, Module, mul, nllLoss, oneHot, silu, type CompiledTraining, type Tensor } from 'gradloom'

const B = 64, ARMS = 4

class Policy extends Module {
  l1 = new Linear(ARMS, 24)
  l2 = new Linear(24, ARMS)
}

const scores = (m: Policy, seen: Tensor) => m.l2.fwd(dropout(silu(m.l1.fwd(oneHot(seen, ARMS))), 0.05))

function lossFn(m: Policy, { seen, action, advantage }: { seen: Tensor; action: Tensor; advantage: Tensor }): Tensor {
  return mean(mul(nllLoss(logSoftmax(scores(m, seen)), action, { reduction: 'none' }), advantage))
}

interface Player {
  train: CompiledTraining<Policy>
  rewards: number[]
}

export async function run(rounds = 120) {
  const train = await compile({
    model: new Policy(), loss: lossFn, seed: 9,
    inputs: { seen: { shape: [B], dtype: 'i32' }, action: { shape: [B], dtype: 'i32' }, advantage: [B] },
    optimizer: { kind: 'adam', lr: 0.02, clipGradNorm: 1 },
  })
  const player: Player = { train, rewards: [] }
  const act = await train.attach({
    forward: (m, { seen }) => categorical(scores(m, seen)), inputs: { seen: { shape: [B], dtype: 'i32' } }, output: 'i32',
  })
  for (let round = 0; round < rounds; round++) {
    const seen = Int32Array.from({ length: B }, (_, i) => (i + round) % ARMS)
    const acted = await act.run({ seen })
    if (acted.kind !== 'completed') throw acted.kind === 'failed' ? acted.error : new Error(acted.kind)
    const action: Int32Array = acted.output
    // The arm after the observed one pays.
    const reward = Float32Array.from(action, (arm, i) => (arm === (seen[i]! + 1) % ARMS ? 1 : 0))
    const average = reward.reduce((a, b) => a + b) / B
    player.rewards.push(average)
    const r = await player.train.step({ seen, action, advantage: reward.map((one) => one - average) })
    if (r.kind === 'failed') throw r.error
  }
  train.destroy()
  return { first: player.rewards[0]!, last: player.rewards.slice(-10).reduce((a, b) => a + b) / 10 }
}
