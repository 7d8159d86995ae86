// A Kolmogorov-Arnold network finds a formula: sums of curves of one variable, which are learnt.
//
// A layer has a curve for each pair of an input and an output, in place of a weight: cubic B-splines on a straight
// line (Liu et al., 2024). The data is z = exp(sin(pi x) + y²), and the network has one hidden number, so that its
// curves must become sin(pi x), y² and exp, up to shifts and scales. The result: each of the first two curves is
// correlated by 0.99 or more with its part of the formula, and the error is 0.1 at most (z has a deviation of 1.7).

import { compile, constant, einsum, init, lr, Module, stack, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { between, generator, type Random } from './common/random.js';

/** B-splines of a curve. */
const SPLINES = 12;

/** A curve for each pair of an input and an output: a line, and splines on it from -reach to reach. */
class Curves extends Module {
  heights: Tensor;
  slopes: Tensor;

  constructor(inputs: number, outputs: number, readonly reach: number) {
    super();
    this.heights = this.param([inputs, SPLINES, outputs], { init: init.randn({ scale: 0.1 }) });
    this.slopes = this.param([inputs, outputs], { init: init.xavier() });
  }

  /** `[batch, inputs]` to `[batch, inputs, outputs]`: each curve at its input. */
  each(x: Tensor): Tensor {
    // Middles one apart; the outer ones are a step outside of the interval.
    const middles = Array.from({ length: SPLINES }, (_, i) => i - (SPLINES - 1) / 2);
    const cube = (x: Tensor) => x.relu().pow(3);
    const column = x.unsqueeze(2);
    const away = column.mul((SPLINES - 3) / (2 * this.reach)).sub(constant(middles, [SPLINES])).abs();
    const splines = cube(away.neg().add(2)).sub(cube(away.neg().add(1)).mul(4)).div(6);
    return einsum('bis,iso->bio', [splines, this.heights]).add(column.mul(this.slopes));
  }

  /** `[batch, inputs]` to `[batch, outputs]`: sums of the curves. */
  fwd(x: Tensor): Tensor {
    return this.each(x).sumAxes([1]);
  }
}

class Kan extends Module {
  first = new Curves(2, 1, 1);
  last = new Curves(1, 1, 2);

  fwd(x: Tensor): Tensor {
    return this.last.fwd(this.first.fwd(x));
  }
}

/** Random places `[count, 2]`, and the formula there. */
function examples(random: Random, count: number) {
  const places = Float32Array.from({ length: 2 * count }, () => between(random, -1, 1));
  const formula = (x: number, y: number) => Math.exp(Math.sin(Math.PI * x) + y * y);
  const values = Float32Array.from({ length: count }, (_, i) => formula(places[2 * i]!, places[2 * i + 1]!));
  return { places, values };
}

function correlation(a: number[], b: number[]): number {
  const centred = (x: number[]) => x.map((v) => v - x.reduce((s, w) => s + w) / x.length);
  const dot = (x: number[], y: number[]) => x.reduce((sum, v, i) => sum + v * y[i]!, 0);
  const [u, v] = [centred(a), centred(b)];
  return dot(u, v) / Math.sqrt(dot(u, u) * dot(v, v));
}

export async function run({ device, steps = 2000, onStep }: Options = {}) {
  const train = await compile({
    ...program({
      model: new Kan(),
      loss: (m, { places, values }) => m.fwd(places).mseLoss(values),
      inputs: { places: [256, 2], values: [256, 1] },
      optimizer: { kind: 'adam', lr: lr.cosineAnnealing({ peak: 3e-2, final: 1e-3, steps }) },
    }),
    seed: 3, device,
  });
  const random = generator(3);
  const loss = await learn(train, steps, () => examples(random, 256), onStep);

  const measure = await train.attach({
    forward: (m, { places, values }) => m.fwd(places).mseLoss(values).sqrt(),
    inputs: { places: [1000, 2], values: [1000, 1] },
  });
  const error = completed(await measure.run(examples(random, 1000))).output[0]!;
  // Both curves at 60 places: `[60, 2, 1]`.
  const draw = await train.attach({ forward: (m, { at }) => m.first.each(stack([at, at], 1)), inputs: { at: [60] } });
  const at = Float32Array.from({ length: 60 }, (_, i) => (i + 0.5) / 30 - 1);
  const { output } = completed(await draw.run({ at }));
  await train.destroy();
  const curves = [0, 1].map((which) => [...at].map((_, i) => output[2 * i + which]!));
  const parts = [(x: number) => Math.sin(Math.PI * x), (y: number) => y * y];
  const correlations = curves.map((curve, i) => Math.abs(correlation(curve, [...at].map(parts[i]!))));
  return { loss, error, curves, correlations };
}
