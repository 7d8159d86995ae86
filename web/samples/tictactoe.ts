// A network learns tic-tac-toe by playing against itself.
//
// The network says how good a board is for who has just moved, from -1 (lost) to 1 (won). A player looks at the boards
// that its moves lead to, and takes the best; two in five moves of a training game are random. The network is trained
// to say at the end of a game who has won, and before it, minus what it says of the other player's best answer. The
// result: at most 2% of 500 games are lost against a player who moves at random, and its game against itself is a draw.

import { compile, concat, init, Linear, lr, Module, type Tensor } from 'gradloom';
import { completed, program, type Options } from './common/training.js';
import { below, generator, largest, type Random } from './common/random.js';

/** Games that are played side by side. */
const GAMES = 32;
/** Boards of a training step: each game has at most nine. */
const BOARDS = 9 * GAMES;

class Judge extends Module {
  first = new Linear(18, 64, { init: init.kaiming() });
  second = new Linear(64, 64, { init: init.kaiming() });
  last = new Linear(64, 1, { init: init.fanIn() });

  /** How good boards `[batch, 9]` are for who has just moved, whose stones are 1; the other's are -1. */
  fwd(boards: Tensor): Tensor {
    // The stones of each player on a board of their own.
    const stones = concat([boards.eq(1).cast('f32'), boards.eq(-1).cast('f32')], -1);
    return this.last.fwd(this.second.fwd(this.first.fwd(stones).relu()).relu()).squeeze(1);
  }
}

/** The stones 1, -1 and none (0), seen by who is to move or has just moved. */
type Board = number[];

const LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];
const hasWon = (board: Board) => LINES.some((line) => line.every((place) => board[place] === 1));
const isOver = (board: Board) => hasWon(board) || !board.includes(0);

/** The boards after each of the moves, seen by who makes it. */
const moves = (board: Board) => board.flatMap((stone, place) => (stone === 0 ? [board.with(place, 1)] : []));

/** Says how good boards are. */
type Value = (boards: Board[]) => Promise<ArrayLike<number>>;
/** The boards of a game, each seen by who has just moved, and what the network should say of each. */
type Game = { board: Board; target: number }[];

/** Plays games to their end: `chance` is the part of the moves of the first and of the second player that are random. */
async function play(value: Value, random: Random, count: number, chance: [number, number]): Promise<Game[]> {
  const games: Game[] = Array.from({ length: count }, () => []);
  for (let turn = 0; turn < 9; turn++) {
    const open = games.filter((game) => game.length === 0 || !isOver(game.at(-1)!.board));
    const choices = open.map((game) => moves(game.at(-1)?.board.map((stone) => -stone) ?? Array<number>(9).fill(0)));
    // What is said of all choices of all games comes out of one run.
    const values = Array.from(await value(choices.flat()));
    open.forEach((game, i) => {
      const own = values.splice(0, choices[i]!.length);
      const best = largest(own);
      // What is good for this player was bad for the other.
      if (game.length > 0) game.at(-1)!.target = -own[best]!;
      const board = choices[i]![random() < chance[turn % 2]! ? below(random, own.length) : best]!;
      game.push({ board, target: hasWon(board) ? 1 : 0 });
    });
  }
  return games;
}

export async function run({ device, steps = 550, onStep }: Options = {}) {
  const train = await compile({
    ...program({
      model: new Judge(),
      loss: (m, { boards, targets, weights }) => m.fwd(boards).sub(targets).square().mul(weights).sum().div(weights.sum()),
      inputs: { boards: [BOARDS, 9], targets: [BOARDS], weights: [BOARDS] },
      optimizer: { kind: 'adam', lr: lr.cosineAnnealing({ peak: 5e-3, final: 3e-4, steps }) },
    }),
    seed: 9, device,
  });
  const infer = await train.attach({ forward: (m, { boards }) => m.fwd(boards), inputs: { boards: [BOARDS, 9] } });
  const value: Value = async (boards) => {
    const all: number[] = [];
    for (let at = 0; at < boards.length; at += BOARDS) {
      const rows = new Float32Array(9 * BOARDS);
      rows.set(boards.slice(at, at + BOARDS).flat());
      all.push(...completed(await infer.run({ boards: rows })).output);
    }
    return all.slice(0, boards.length);
  };

  const random = generator(9);
  for (let step = 0; step < steps; step++) {
    const rows = (await play(value, random, GAMES, [0.4, 0.4])).flat();
    const boards = new Float32Array(9 * BOARDS);
    boards.set(rows.flatMap(({ board }) => board));
    const targets = Float32Array.from({ length: BOARDS }, (_, i) => rows[i]?.target ?? 0);
    const weights = Float32Array.from({ length: BOARDS }, (_, i) => (i < rows.length ? 1 : 0));
    const { loss } = completed(await train.step({ boards, targets, weights }));
    onStep?.(step, loss);
  }

  // It begins in half of the games. Who moved last has won, or nobody has.
  const against = [...await play(value, random, 250, [0, 1]), ...await play(value, random, 250, [1, 0])];
  const isLost = (game: Game, i: number) => hasWon(game.at(-1)!.board) && (game.length - 1) % 2 !== (i < 250 ? 0 : 1);
  const lost = against.filter(isLost).length / 500;
  const [itself] = await play(value, random, 1, [0, 0]) as [Game];
  await train.destroy();
  return { lost, drawsItself: !hasWon(itself.at(-1)!.board), game: itself.map(({ board }) => board) };
}
