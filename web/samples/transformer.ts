// A transformer that learns to sort, of the parts that language models are made of today.
//
// Six digits and a sign are read, and the digits written in order, one by one: `402917>012479`. The block is made by
// hand: RMS normalisation, rotary positions (RoPE), causal attention, a gated layer (SwiGLU), and one table for reading
// and writing (tied weights). The result: at least 95% of 200 new rows are sorted without a mistake.

import { compile, Embedding, init, Linear, lr, Module, RMSNorm, rope, split, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, generator, type Random } from './common/random.js';

const DIGITS = 6;
/** Digits, a sign, and digits of which the last is only written. */
const LENGTH = 2 * DIGITS;
const SIGNS = '0123456789>';
const WIDTH = 32;
const HEADS = 4;
const BATCH = 32;

const linear = (inputs: number, outputs: number) => new Linear(inputs, outputs, { bias: false, init: init.fanIn() });

class Block extends Module {
  norm1 = new RMSNorm(WIDTH);
  /** Queries, keys and values side by side. */
  attention = linear(WIDTH, 3 * WIDTH);
  mix = linear(WIDTH, WIDTH);
  norm2 = new RMSNorm(WIDTH);
  gate = linear(WIDTH, 2 * WIDTH);
  up = linear(WIDTH, 2 * WIDTH);
  down = linear(2 * WIDTH, WIDTH);

  fwd(x: Tensor): Tensor {
    const [queries, keys, values] = split(this.attention.fwd(this.norm1.fwd(x)), [WIDTH, WIDTH, WIDTH], -1);
    const [q, k] = rope(queries.splitHeads(HEADS), keys.splitHeads(HEADS));
    x = x.add(this.mix.fwd(q.attention(k, values.splitHeads(HEADS), { causal: true }).mergeHeads()));
    const normal = this.norm2.fwd(x);
    return x.add(this.down.fwd(this.gate.fwd(normal).silu().mul(this.up.fwd(normal))));
  }
}

class Sorter extends Module {
  table = new Embedding(SIGNS.length, WIDTH, { init: init.randn({ scale: 0.2 }) });
  blocks = [new Block(), new Block()];
  norm = new RMSNorm(WIDTH);

  /** Logits of what follows each place: i32 `[batch, LENGTH]` gives `[batch, LENGTH, signs]`. */
  fwd(ids: Tensor): Tensor {
    let x = this.table.fwd(ids);
    for (const block of this.blocks) x = block.fwd(x);
    // Written by the table that it is read by.
    return this.norm.fwd(x).matmul(this.table.W.transpose(0, 1));
  }
}

/** Rows of random digits, the sign, and the digits in order. */
function rows(random: Random, count: number): number[][] {
  return Array.from({ length: count }, () => {
    const digits = Array.from({ length: DIGITS }, () => below(random, 10));
    return [...digits, SIGNS.indexOf('>'), ...digits.toSorted((a, b) => a - b)];
  });
}

const read = (rows: number[][]) => Int32Array.from(rows.flatMap((row) => row.slice(0, LENGTH)));

export async function run({ device, steps = 350, onStep }: Options = {}) {
  const train = await compile({
    ...program({
      model: new Sorter(),
      // The digits before the sign cannot be foreseen.
      loss: (m, { ids, targets }) => m.fwd(ids).slice(1, [DIGITS, LENGTH]).crossEntropy(targets),
      inputs: { ids: { shape: [BATCH, LENGTH], dtype: 'i32' }, targets: { shape: [BATCH, DIGITS], dtype: 'i32' } },
      optimizer: { kind: 'adamw', lr: lr.cosineAnnealing({ peak: 1e-2, final: 1e-4, steps }), clipGradNorm: 1 },
    }),
    seed: 4, device,
  });
  const random = generator(4);
  const loss = await learn(train, steps, () => {
    const batch = rows(random, BATCH);
    return { ids: read(batch), targets: Int32Array.from(batch.flatMap((row) => row.slice(DIGITS + 1))) };
  }, onStep);

  // Each digit that is written is read for the next: the sorted part is hidden at first.
  const infer = await train.attach({
    forward: (m, { ids }) => m.fwd(ids).argmax(-1), inputs: { ids: { shape: [200, LENGTH], dtype: 'i32' } }, output: 'i32',
  });
  const truth = rows(random, 200);
  const written = truth.map((row) => row.map((id, i) => (i > DIGITS ? 0 : id)));
  for (let place = DIGITS; place < LENGTH; place++) {
    const { output } = completed(await infer.run({ ids: read(written) }));
    written.forEach((row, i) => { row[place + 1] = output[i * LENGTH + place]!; });
  }
  await train.destroy();
  const sorted = written.filter((row, i) => row.every((id, k) => id === truth[i]![k])).length / 200;
  return { loss, sorted, examples: written.slice(0, 8).map((row) => row.map((id) => SIGNS[id]).join('')) };
}
