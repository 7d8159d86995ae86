// A network reads names letter by letter, and invents new ones.
//
// A recurrent layer (GRU) reads padded sequences; the loss leaves the padding out. The result: at most 2.3 nats a
// letter on names that were kept back (all 27 signs alike are 3.3), and most of what it writes is no name of the list.

import { compile, Embedding, GRU, init, Linear, Module, type Tensor } from 'gradloom';
import { completed, learn, program, type Options } from './common/training.js';
import { below, choose, generator, type Random } from './common/random.js';
import { NAMES } from './common/names.js';

/** Letters of a name at most, and one place for the sign of its end. */
export const LENGTH = 12;
/** The 26 letters and the sign of an end, which is also what a name starts after. */
const SIGNS = 27;
const END = 26;
/** A target that the loss leaves out. */
const PADDING = -1;

export class Writer extends Module {
  letters: Embedding;
  memory: GRU;
  next: Linear;

  constructor(hidden: number) {
    super();
    this.letters = new Embedding(SIGNS, 16, { init: init.randn({ scale: 1 }) });
    this.memory = new GRU(16, hidden);
    this.next = new Linear(hidden, SIGNS, { init: init.fanIn() });
  }

  /** Logits of the sign after each of i32 `[names, LENGTH]`. */
  fwd(signs: Tensor): Tensor {
    return this.next.fwd(this.memory.fwd(this.letters.fwd(signs)).dropout(0.2));
  }

  /** Mean loss of the signs that are not padding, in nats. */
  loss(signs: Tensor, targets: Tensor): Tensor {
    return this.fwd(signs).crossEntropyWith(targets, { ignoreIndex: PADDING });
  }
}

export const spell = ({ hidden = 64, batch = 32 } = {}) => program({
  model: new Writer(hidden),
  loss: (m, { signs, targets }) => m.loss(signs, targets),
  inputs: { signs: { shape: [batch, LENGTH], dtype: 'i32' }, targets: { shape: [batch, LENGTH], dtype: 'i32' } },
  optimizer: { kind: 'adamw', lr: 5e-3, clipGradNorm: 1 },
});

/** What is read of names, `[names, LENGTH]`, and what should follow. */
export function encode(names: readonly string[]) {
  const rows = names.map((name) => Array.from(name, (letter) => letter.charCodeAt(0) - 97));
  const padded = (row: number[], filling: number) => [...row, ...Array<number>(LENGTH - row.length).fill(filling)];
  return {
    signs: Int32Array.from(rows.flatMap((row) => padded([END, ...row], END))),
    targets: Int32Array.from(rows.flatMap((row) => padded([...row, END], PADDING))),
  };
}

/** Every tenth name is kept back. */
export const [LEARNT, KEPT] = [NAMES.filter((_, i) => i % 10 !== 9), NAMES.filter((_, i) => i % 10 === 9)];

export function batch(random: Random, count: number) {
  return encode(Array.from({ length: count }, () => LEARNT[below(random, LEARNT.length)]!));
}

/** What runs the network: it gives the logits after each of `[count, LENGTH]` signs, or null to end it. */
type Next = (signs: Int32Array) => Promise<Float32Array | null>;

/** Writes names side by side, each letter drawn from what the network says after those before it. */
export async function invent(count: number, next: Next, random: Random, temperature = 1): Promise<string[]> {
  const names = Array.from({ length: count }, () => '');
  const ended = names.map(() => false);
  for (let at = 0; at < LENGTH && ended.includes(false); at++) {
    const logits = await next(encode(names.map((name) => name.slice(0, LENGTH - 1))).signs);
    if (!logits) break;
    names.forEach((name, i) => {
      if (ended[i]) return;
      const begin = (i * LENGTH + at) * SIGNS;
      const sign = choose(random, logits.subarray(begin, begin + SIGNS), temperature);
      if (sign === END) ended[i] = true;
      else names[i] = name + String.fromCharCode(97 + sign);
    });
  }
  return names;
}

export async function run({ device, steps = 260, onStep }: Options = {}) {
  const train = await compile({ ...spell(), seed: 1, device });
  const random = generator(1);
  await learn(train, steps, () => batch(random, 32), onStep);

  const shape = (names: number) => ({ shape: [names, LENGTH], dtype: 'i32' }) as const;
  const measure = await train.attach({
    forward: (m, { signs, targets }) => m.loss(signs, targets),
    inputs: { signs: shape(KEPT.length), targets: shape(KEPT.length) },
  });
  const loss = completed(await measure.run(encode(KEPT))).output[0]!;
  const infer = await train.attach({ forward: (m, { signs }) => m.fwd(signs), inputs: { signs: shape(40) } });
  const written = await invent(40, async (signs) => completed(await infer.run({ signs })).output, random);
  await train.destroy();
  return { loss, invented: written.filter((name) => !NAMES.includes(name)) };
}
