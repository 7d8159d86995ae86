// Two networks against each other: one makes points, the other tells them from real ones, which lie in eight heaps
// around a circle.
//
// One loss trains both: where the generator is judged, the critic's parameters are constants, and where the critic
// is, the points are. A penalty on the critic's slope at real points, a gradient that is differentiated again, keeps
// the two in balance (R1: Mescheder, Geiger, Nowozin, 2018). The result: at least 75% of the points are in a heap
// (about 99% of the real ones are), and each heap has at least 5% of them.

import { compile, gradients, init, Linear, Module, randn, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, generator, normal, type Random } from './common/random.js';

export const HEAPS = 8;
/** Deviation of the points of a heap from its middle. The circle has the radius 1. */
const SPREAD = 0.08;
const NOISE = 4;

class Network extends Module {
  layers: Linear[];

  constructor(sizes: number[]) {
    super();
    this.layers = sizes.slice(1).map((outputs, i) => new Linear(sizes[i]!, outputs, { init: init.fanIn() }));
  }

  /** With `frozen` no gradient reaches the parameters, but one goes through to x. */
  fwd(x: Tensor, frozen = false): Tensor {
    const use = (param: Tensor) => (frozen ? param.detach() : param);
    this.layers.forEach(({ W, b }, i) => {
      const y = x.matmul(use(W)).add(use(b!));
      x = i + 1 < this.layers.length ? y.leakyRelu(0.2) : y;
    });
    return x;
  }
}

export class Gan extends Module {
  maker: Network;
  critic: Network;

  constructor(width: number) {
    super();
    this.maker = new Network([NOISE, width, width, 2]);
    this.critic = new Network([2, width, width, 1]);
  }

  /** Points `[count, 2]` out of noise. */
  make(count: number): Tensor {
    return this.maker.fwd(randn([count, NOISE]));
  }
}

export const duel = ({ width = 64, batch = 128 } = {}) => program({
  model: new Gan(width),
  loss: (m, { real }) => {
    const made = m.make(batch);
    const ofReal = m.critic.fwd(real);
    const [slope] = gradients(ofReal.sum(), [real]);
    const ofCritic = ofReal.neg().softplus().mean().add(m.critic.fwd(made.detach()).softplus().mean());
    const ofMaker = m.critic.fwd(made, true).neg().softplus().mean();
    const penalty = slope.square().sumAxes([-1]).mean();
    return ofCritic.add(ofMaker).add(penalty.mul(0.002));
  },
  inputs: { real: [batch, 2] },
  optimizer: { kind: 'adam', lr: 2e-3, beta1: 0.5, beta2: 0.99 },
});

function middle(heap: number): [number, number] {
  const angle = 2 * Math.PI * heap / HEAPS;
  return [Math.cos(angle), Math.sin(angle)];
}

/** Real points `[count, 2]`. */
export function realPoints(random: Random, count: number): Float32Array {
  const middles = Array.from({ length: count }, () => middle(below(random, HEAPS)));
  return Float32Array.from(middles.flat(), (x) => x + SPREAD * normal(random));
}

/** The parts of the points that are in each heap: within three deviations of its middle. */
export function parts(points: Float32Array): number[] {
  const count = points.length / 2;
  return Array.from({ length: HEAPS }, (_, heap) => {
    const [x, y] = middle(heap);
    let inside = 0;
    for (let i = 0; i < count; i++) if (Math.hypot(points[2 * i]! - x, points[2 * i + 1]! - y) < 3 * SPREAD) inside++;
    return inside / count;
  });
}

export async function run({ device, steps = 2500, onStep }: Options = {}) {
  const train = await compile({ ...duel(), seed: 3, device });
  const random = generator(3);
  const loss = await learn(train, steps, () => ({ real: realPoints(random, 128) }), onStep);

  const make = await train.attach({ forward: (m) => m.make(1000), inputs: {} });
  const { output: points } = completed(await make.run({}));
  await train.destroy();
  const inHeaps = parts(points);
  return { loss, inAHeap: inHeaps.reduce((a, b) => a + b), least: Math.min(...inHeaps), points };
}
