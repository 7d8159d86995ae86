// An LSTM watches a swinging curve, and goes on with it when it is hidden.
//
// Each curve has a pace, a height and a start of its own. The network is trained to say the next value; then it is
// shown 30 values of new curves and draws 20 more, each out of its own last one. The result: their squared error is at
// most 0.1 of the curves' mean square (silence has 1).

import { compile, init, Linear, LSTM, lr, Module, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { between, generator, type Random } from './common/random.js';

const HIDDEN = 32;
const BATCH = 32;
const SHOWN = 30;
const LENGTH = 50;

class Watcher extends Module {
  memory = new LSTM(1, HIDDEN);
  change = new Linear(HIDDEN, 1, { init: init.fanIn() });

  /** The next value after each of `[batch, time]`. */
  fwd(values: Tensor): Tensor {
    // What is learnt is how a value changes to the next.
    return values.add(this.change.fwd(this.memory.fwd(values.unsqueeze(2))).squeeze(2));
  }
}

/** Curves `[BATCH, LENGTH]`. */
function curves(random: Random): Float32Array {
  return Float32Array.from(Array.from({ length: BATCH }, () => {
    const [pace, height, start] = [between(random, 0.2, 0.5), between(random, 0.5, 1), between(random, 0, 2 * Math.PI)];
    return Array.from({ length: LENGTH }, (_, t) => height * Math.sin(start + pace * t));
  }).flat());
}

export async function run({ device, steps = 600, onStep }: Options = {}) {
  const train = await compile({
    ...program({
      model: new Watcher(),
      loss: (m, { curves }) => {
        const said = m.fwd(curves.slice(1, [0, LENGTH - 1]));
        // Nobody can know a curve's pace from its first values.
        return said.slice(1, [5, LENGTH - 1]).mseLoss(curves.slice(1, [6, LENGTH]));
      },
      inputs: { curves: [BATCH, LENGTH] },
      optimizer: { kind: 'adam', lr: lr.cosineAnnealing({ peak: 2e-2, final: 1e-4, steps }), clipGradNorm: 1 },
    }),
    seed: 2, device,
  });
  const random = generator(2);
  const loss = await learn(train, steps, () => ({ curves: curves(random) }), onStep);

  // Whatever comes after a value does not change what is said after it: the rest is 0 until it is written.
  const infer = await train.attach({ forward: (m, { values }) => m.fwd(values), inputs: { values: [BATCH, LENGTH] } });
  const truth = curves(random);
  const values = truth.map((value, i) => (i % LENGTH < SHOWN ? value : 0));
  for (let t = SHOWN; t < LENGTH; t++) {
    const { output } = completed(await infer.run({ values }));
    for (let row = 0; row < BATCH; row++) values[row * LENGTH + t] = output[row * LENGTH + t - 1]!;
  }
  await train.destroy();
  const squares = (f: (i: number) => number) => truth.reduce((sum, _, i) => sum + (i % LENGTH < SHOWN ? 0 : f(i) ** 2), 0);
  return { loss, error: squares((i) => values[i]! - truth[i]!) / squares((i) => truth[i]!), curve: values.slice(0, LENGTH) };
}
