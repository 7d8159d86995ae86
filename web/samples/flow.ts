// Flow matching: a network learns which way noise has to drift to become two moons.
//
// Between a point of noise and a point of the data lies a straight line; the network is trained to say the way along
// it at any place and time. Following what it says from noise leads to the data (Lipman et al., 2022). The result: at
// least 85% of the points end on a moon, within 0.15.

import { compile, concat, constant, init, Linear, lr, Module, randn, scan, uniform, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, generator, normal, type Random } from './common/random.js';

/** Steps from noise to the data. */
export const WAY = 40;

export class Flow extends Module {
  hidden: Linear[];
  last: Linear;

  constructor(width: number, layers: number) {
    super();
    const start = { init: init.kaiming() };
    this.hidden = Array.from({ length: layers }, (_, i) => new Linear(i === 0 ? 3 : width, width, start));
    this.last = new Linear(width, 2, { init: init.fanIn() });
  }

  /** The drift at points `[batch, 2]` and times `[batch, 1]`, 0 (noise) to 1 (data). */
  drift(points: Tensor, times: Tensor): Tensor {
    let h = concat([points, times], -1);
    for (const layer of this.hidden) h = layer.fwd(h).silu();
    return this.last.fwd(h);
  }

  /** The ways of so many points from noise to the data: `[WAY, count, 2]`, all in one run. */
  follow(count: number): Tensor {
    const times = Array.from({ length: WAY }, (_, i) => i / WAY);
    const [, way] = scan(WAY, randn([count, 2]), constant(times, [WAY]), (points, time) => {
      const next = points.add(this.drift(points, time.broadcastTo([count, 1])).div(WAY));
      return [next, next];
    });
    return way;
  }
}

export const match = ({ width = 64, layers = 3, batch = 256, steps = 1500 } = {}) => program({
  model: new Flow(width, layers),
  loss: (m, { data }) => {
    const [noise, times] = [randn([batch, 2]), uniform([batch, 1])];
    return m.drift(noise.lerp(data, times), times).mseLoss(data.sub(noise));
  },
  inputs: { data: [batch, 2] },
  optimizer: { kind: 'adam', lr: lr.cosineAnnealing({ peak: 1e-2, final: 1e-4, steps }) },
});

/** The middle of a moon at a part of its length, 0 to 1. */
function moon(which: number, part: number): [number, number] {
  const [x, y] = [Math.cos(Math.PI * part) - 0.5, Math.sin(Math.PI * part) - 0.25];
  return which === 0 ? [x, y] : [-x, -y];
}

/** Points `[count, 2]` of the data. */
export function moons(random: Random, count: number): Float32Array {
  const points = Array.from({ length: count }, () => moon(below(random, 2), random()));
  return Float32Array.from(points.flat(), (x) => x + 0.03 * normal(random));
}

/** The part of the points that are within 0.15 of the middle of a moon. */
export function onAMoon(points: Float32Array): number {
  const middles = Array.from({ length: 200 }, (_, i) => moon(i % 2, Math.floor(i / 2) / 99));
  const count = points.length / 2;
  let on = 0;
  for (let i = 0; i < count; i++) {
    if (middles.some(([x, y]) => Math.hypot(points[2 * i]! - x, points[2 * i + 1]! - y) < 0.15)) on++;
  }
  return on / count;
}

export async function run({ device, steps = 1500, onStep }: Options = {}) {
  const train = await compile({ ...match({ steps }), seed: 6, device });
  const random = generator(6);
  const loss = await learn(train, steps, () => ({ data: moons(random, 256) }), onStep);

  const follow = await train.attach({ forward: (m) => m.follow(800), inputs: {} });
  const { output: way } = completed(await follow.run({}));
  await train.destroy();
  return { loss, onAMoon: onAMoon(way.slice(-1600)), way };
}
