// The sine MLP of README, smaller, for tests that compare devices. In: the package. Out: the options of
// `compile`, and a batch that is always the same.

/** A 1-32-32-1 network with tanh, batch 64, Adam. */
export function sine(g) {
  const BATCH = 64;
  class MLP extends g.Module {
    l1 = new g.Linear(1, 32, { init: g.init.fanIn() });
    l2 = new g.Linear(32, 32, { init: g.init.fanIn() });
    l3 = new g.Linear(32, 1, { init: g.init.fanIn() });
  }
  const forward = (m, { x }) => m.l3.fwd(g.tanh(m.l2.fwd(g.tanh(m.l1.fwd(x)))));
  // The inputs are not symmetric: gradients that cancel would be rounding errors, which Adam amplifies to
  // full steps.
  const x = Float32Array.from({ length: BATCH }, (_, i) => i / (BATCH - 1) * 5 - 2);
  return {
    spec: {
      model: new MLP(), seed: 1, loss: (m, { x, y }) => g.mean(g.square(g.sub(forward(m, { x }), y))),
      inputs: { x: [BATCH, 1], y: [BATCH, 1] }, optimizer: { kind: 'adam', lr: 0.005 },
    },
    forward,
    batch: { x, y: x.map(Math.sin) },
  };
}

/** Trains a few steps and returns losses and parameters as plain values. */
export async function fewSteps(g, device, steps) {
  const { spec, batch } = sine(g);
  const train = await g.compile({ ...spec, device });
  const losses = [];
  for (let i = 0; i < steps; i++) losses.push((await train.step(batch)).loss);
  const params = await train.downloadParams();
  await train.destroy();
  return { losses, params: Object.fromEntries(Object.entries(params).map(([name, values]) => [name, [...values]])) };
}
