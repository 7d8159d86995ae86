// A transformer learns to add by reading sums: `47+85=` is followed by `132`.
//
// Half of all sums of two digits are never shown. The sum is written from its last digit on (`231` for 132), which
// is the order in which it is carried. The result: at least 95% of 300 sums that were not shown are right.

import { CausalSelfAttention, compile, Embedding, init, LayerNorm, Linear, lr, Module, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, generator, type Random } from './common/random.js';

class Block extends Module {
  norm1: LayerNorm;
  attention: CausalSelfAttention;
  norm2: LayerNorm;
  up: Linear;
  down: Linear;

  constructor(width: number, heads: number) {
    super();
    this.norm1 = new LayerNorm(width);
    this.attention = new CausalSelfAttention(width, heads, { init: init.fanIn(), bias: false });
    this.norm2 = new LayerNorm(width);
    this.up = new Linear(width, 4 * width, { init: init.fanIn() });
    this.down = new Linear(4 * width, width, { init: init.fanIn() });
  }

  fwd(x: Tensor): Tensor {
    x = x.add(this.attention.fwd(this.norm1.fwd(x)));
    return x.add(this.down.fwd(this.up.fwd(this.norm2.fwd(x)).relu()));
  }
}

/** The sizes of a transformer. */
export interface Sizes { vocabulary: number; context: number; width: number; layers: number; heads: number }

export class Transformer extends Module {
  tokens: Embedding;
  positions: Tensor;
  blocks: Block[];
  norm: LayerNorm;

  constructor({ vocabulary, context, width, layers, heads }: Sizes) {
    super();
    this.tokens = new Embedding(vocabulary, width, { init: init.randn({ scale: 0.2 }) });
    this.positions = this.param([context, width], { init: init.randn({ scale: 0.2 }) });
    this.blocks = Array.from({ length: layers }, () => new Block(width, heads));
    this.norm = new LayerNorm(width);
  }

  /** Logits of what follows each place: i32 `[batch, context]` gives `[batch, context, vocabulary]`. */
  fwd(ids: Tensor): Tensor {
    let x = this.tokens.fwd(ids).add(this.positions);
    for (const block of this.blocks) x = block.fwd(x);
    return this.norm.fwd(x).matmul(this.tokens.W.transpose(0, 1));
  }
}

/** The digits, `+` and `=`. */
export const CHARACTERS = '0123456789+=';
/** Characters of a problem, of its sum, and those that are read: all but the last. */
export const [PROBLEM, SUM] = [6, 3];
export const CONTEXT = PROBLEM + SUM - 1;

export const add = ({ width = 32, layers = 1, heads = 4, batch = 48, steps = 600 } = {}) => program({
  model: new Transformer({ vocabulary: CHARACTERS.length, context: CONTEXT, width, layers, heads }),
  // Only the digits of the sum: what is before them cannot be foreseen.
  loss: (m, { ids, sums }) => m.fwd(ids).slice(1, [PROBLEM - 1, CONTEXT]).crossEntropy(sums),
  inputs: { ids: { shape: [batch, CONTEXT], dtype: 'i32' }, sums: { shape: [batch, SUM], dtype: 'i32' } },
  optimizer: {
    kind: 'adamw', clipGradNorm: 1,
    lr: lr.warmup({ peak: 1e-2, steps: 50, after: lr.cosineAnnealing({ peak: 1e-2, final: 1e-4, steps }) }),
  },
});

/** `47+85=231` as numbers of characters. */
export function characters(a: number, b: number): number[] {
  const sum = a + b;
  const tens = (n: number) => Math.floor(n / 10);
  return [tens(a), a % 10, 10, tens(b), b % 10, 11, sum % 10, tens(sum) % 10, tens(tens(sum))];
}

/** Sums that are shown, or some of those that are kept back. */
export function problems(random: Random, count: number, shown: boolean): number[][] {
  return Array.from({ length: count }, () => {
    for (;;) {
      const [a, b] = [below(random, 100), below(random, 100)];
      if ((a * 7 + b * 13) % 16 < 8 === shown) return characters(a, b);
    }
  });
}

export function batch(random: Random, count: number) {
  const rows = problems(random, count, true);
  return {
    ids: Int32Array.from(rows.flatMap((row) => row.slice(0, CONTEXT))),
    sums: Int32Array.from(rows.flatMap((row) => row.slice(PROBLEM))),
  };
}

/** What runs the network: it gives the likeliest characters after each place, or null to end it. */
type Next = (ids: Int32Array) => Promise<Int32Array | null>;

/** Writes the sums of some problems, each digit from what was written before. */
export async function write(rows: number[][], next: Next): Promise<number[][]> {
  const written = rows.map((row) => [...row.slice(0, PROBLEM), ...Array<number>(SUM).fill(0)]);
  for (let place = PROBLEM; place < PROBLEM + SUM; place++) {
    const likeliest = await next(Int32Array.from(written.flatMap((row) => row.slice(0, CONTEXT))));
    if (!likeliest) break;
    written.forEach((row, i) => { row[place] = likeliest[i * CONTEXT + place - 1]!; });
  }
  return written;
}

export async function run({ device, steps = 600, onStep }: Options = {}) {
  const train = await compile({ ...add({ steps }), seed: 5, device });
  const random = generator(5);
  const loss = await learn(train, steps, () => batch(random, 48), onStep);

  const infer = await train.attach({
    forward: (m, { ids }) => m.fwd(ids).argmax(-1), inputs: { ids: { shape: [300, CONTEXT], dtype: 'i32' } }, output: 'i32',
  });
  const truth = problems(random, 300, false);
  const written = await write(truth, async (ids) => completed(await infer.run({ ids })).output);
  await train.destroy();
  const right = written.filter((row, i) => row.every((id, k) => id === truth[i]![k])).length / 300;
  // As sums are usually written.
  const text = (row: number[]) =>
    [...row.slice(0, PROBLEM), ...row.slice(PROBLEM).reverse()].map((id) => CHARACTERS[id]).join('');
  return { loss, right, examples: written.slice(0, 8).map(text) };
}
