// A network learns to keep a pole upright on a cart, by pushing the cart left or right.
//
// Policy gradients (REINFORCE): 16 games are played with random pushes that the network weighs, then pushes that led to
// longer balance than usual become likelier. A game ends after 200 moves. The result: at least 190 moves on average
// when the likelier push is always taken, over 16 new games.

import { compile, Linear, init, lr, Module, type Tensor } from 'gradloom';
import { completed, program, type Options } from './common/training.js';
import { between, choose, generator, largest, type Random } from './common/random.js';

const GAMES = 16;
const MOVES = 200;

class Policy extends Module {
  hidden = new Linear(4, 32, { init: init.fanIn() });
  push = new Linear(32, 2, { init: init.fanIn() });

  /** Logits of a push to the left and to the right. */
  fwd(carts: Tensor): Tensor {
    return this.push.fwd(this.hidden.fwd(carts).tanh());
  }
}

/** Where the cart is, its speed, the pole's angle, and the angle's speed. */
type Cart = [x: number, speed: number, angle: number, turn: number];

/**
 * The cart 0.02 s later. Metres, radians and seconds; the cart weighs 1 kg, the pole 0.1 kg, and the pole is 1 m long.
 * (Barto, Sutton and Anderson, 1983.)
 */
function pushed([x, speed, angle, turn]: Cart, right: boolean): Cart {
  const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
  const pull = ((right ? 10 : -10) + 0.05 * turn * turn * sin) / 1.1;
  const turning = (9.8 * sin - cos * pull) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1));
  const moving = pull - 0.05 * turning * cos / 1.1;
  return [x + 0.02 * speed, speed + 0.02 * moving, angle + 0.02 * turn, turn + 0.02 * turning];
}

const hasFallen = ([x, , angle]: Cart) => Math.abs(x) > 2.4 || Math.abs(angle) > 12 * Math.PI / 180;

/** A move of a game: where the cart was, and the push. */
interface Move { cart: Cart; push: number }

/** Gives the logits of pushes for the carts of all games. */
type Logits = (carts: Float32Array) => Promise<Float32Array>;

/** Plays games side by side, one run of the network for a move of each. `pick` chooses a push by its logits. */
async function play(policy: Logits, random: Random, pick: (logits: Float32Array) => number): Promise<Move[][]> {
  const carts = Array.from({ length: GAMES }, () => [0, 0, 0, 0].map(() => between(random, -0.05, 0.05)) as Cart);
  const games: Move[][] = carts.map(() => []);
  for (let move = 0; move < MOVES && !carts.every(hasFallen); move++) {
    const logits = await policy(Float32Array.from(carts.flat()));
    carts.forEach((cart, i) => {
      if (hasFallen(cart)) return;
      const push = pick(logits.subarray(2 * i, 2 * i + 2));
      games[i]!.push({ cart, push });
      carts[i] = pushed(cart, push === 1);
    });
  }
  return games;
}

/** What a move is worth: the moves that came after it, of which the nearer count for more. */
const worth = (left: number) => (1 - 0.98 ** left) / (1 - 0.98);

/** Games as a batch: what was seen and done, and how much better than usual it was. Moves that were not made weigh 0. */
function batch(games: Move[][]) {
  const rows = GAMES * MOVES;
  const [carts, pushes, weights] = [new Float32Array(4 * rows), new Int32Array(rows), new Float32Array(rows)];
  const worths = games.flatMap((game) => game.map((_, i) => worth(game.length - i)));
  const mean = worths.reduce((a, b) => a + b) / worths.length;
  const deviation = Math.sqrt(worths.reduce((sum, w) => sum + (w - mean) ** 2, 0) / worths.length);
  games.flat().forEach(({ cart, push }, row) => {
    carts.set(cart, 4 * row);
    pushes[row] = push;
    weights[row] = (worths[row]! - mean) / (deviation + 1e-3);
  });
  return { carts, pushes, weights };
}

export async function run({ device, steps = 80, onStep }: Options = {}) {
  const rows = GAMES * MOVES;
  const train = await compile({
    ...program({
      model: new Policy(),
      // The mean over the moves that were made.
      loss: (m, { carts, pushes, weights }) =>
        m.fwd(carts).crossEntropyRows(pushes).mul(weights).sum().div(weights.ne(0).cast('f32').sum()),
      inputs: { carts: [rows, 4], pushes: { shape: [rows], dtype: 'i32' }, weights: [rows] },
      optimizer: { kind: 'adam', lr: lr.cosineAnnealing({ peak: 2e-2, final: 1e-3, steps }) },
    }),
    seed: 5, device,
  });
  const infer = await train.attach({ forward: (m, { carts }) => m.fwd(carts), inputs: { carts: [GAMES, 4] } });
  const policy = async (carts: Float32Array) => completed(await infer.run({ carts })).output;
  const random = generator(5);
  const lengths: number[] = [];
  for (let step = 0; step < steps; step++) {
    const games = await play(policy, random, (logits) => choose(random, logits));
    lengths.push(games.flat().length / GAMES);
    const { loss } = completed(await train.step(batch(games)));
    onStep?.(step, loss);
  }
  const moves = (await play(policy, random, largest)).flat().length / GAMES;
  await train.destroy();
  return { moves, lengths };
}
