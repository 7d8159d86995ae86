//! A network learns tic-tac-toe by playing against itself.
//!
//! `cargo run --release --example tictactoe`
//!
//! The network says how good a board is for who has just moved, from -1 (lost) to 1 (won). A player looks at
//! the boards that its moves lead to, and takes the best; two in five moves of a training game are random.
//! The network is trained to say at the end of a game who has won, and before it, minus what it says of the
//! other player's best answer. Shows training data that the model makes itself, with weights for rows that
//! are not filled. Expect a game against itself that ends in a draw, and at most 2% of 500 games lost
//! against a player who moves at random.

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

/// Games that are played side by side.
const GAMES: usize = 64;
/// Boards of a training step: each game has at most nine.
const BOARDS: usize = 9 * GAMES;

#[derive(Module)]
struct Judge {
    first: Linear,
    second: Linear,
    last: Linear,
}

impl Judge {
    fn new() -> Self {
        Self { first: Linear::new(18, 64), second: Linear::new(64, 64), last: Linear::new(64, 1) }
    }

    /// How good boards `[batch, 9]` are for who has just moved, whose stones are 1; the other's are -1.
    fn forward(&self, boards: Tensor) -> Tensor {
        let [batch, _] = boards.dims();
        // The stones of each player on a board of their own.
        let stones = concat(-1, &[boards.eq(1.0).cast(DType::F32), boards.eq(-1.0).cast(DType::F32)]);
        let h = self.second.forward(self.first.forward(stones).relu()).relu();
        self.last.forward(h).reshape([batch])
    }
}

/// The stones 1, -1 and none (0), seen by who is to move or has just moved.
type Board = [f32; 9];

const LINES: [[usize; 3]; 8] =
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];

/// Whether the stones 1 have a line.
fn has_won(board: &Board) -> bool {
    LINES.iter().any(|line| line.iter().all(|&place| board[place] == 1.0))
}

fn is_full(board: &Board) -> bool {
    board.iter().all(|&stone| stone != 0.0)
}

/// The boards after each of the moves, seen by who makes it.
fn moves(board: &Board) -> Vec<Board> {
    let free = (0..9).filter(|&place| board[place] == 0.0);
    let after = |place| {
        let mut after = *board;
        after[place] = 1.0;
        after
    };
    free.map(after).collect()
}

/// A board, seen by the other.
fn turned(board: &Board) -> Board {
    board.map(|stone| -stone)
}

/// What says how good boards are.
type Value<'a> = dyn FnMut(&[Board]) -> Result<Vec<f32>> + 'a;

/// The boards of a game, each seen by who has just moved, and what the network should say of each.
type Game = Vec<(Board, f32)>;

/// Plays games to their end: `chance` says which part of the moves of the first and of the second player is
/// random.
fn play(value: &mut Value<'_>, random: &mut Random, games: usize, chance: [f32; 2]) -> Result<Vec<Game>> {
    let mut played: Vec<Game> = vec![Vec::new(); games];
    for turn in 0..9 {
        let over = |game: &Game| game.last().is_some_and(|(board, _)| has_won(board) || is_full(board));
        let open: Vec<usize> = (0..games).filter(|&game| !over(&played[game])).collect();
        if open.is_empty() {
            break;
        }
        let choices: Vec<Vec<Board>> = open
            .iter()
            .map(|&game| moves(&played[game].last().map_or([0.0; 9], |(board, _)| turned(board))))
            .collect();
        // The boards of all games in one run.
        let values = value(&choices.concat())?;
        let mut values = &values[..];
        for (&game, choices) in open.iter().zip(&choices) {
            let own;
            (own, values) = values.split_at(choices.len());
            let best = (0..choices.len()).max_by(|&a, &b| own[a].total_cmp(&own[b])).unwrap_or(0);
            // What is good for this player was bad for the other.
            if let Some((_, before)) = played[game].last_mut() {
                *before = -own[best];
            }
            let is_random = random.uniform() < chance[turn % 2];
            let chosen = choices[if is_random { random.below(choices.len()) } else { best }];
            played[game].push((chosen, f32::from(has_won(&chosen))));
        }
    }
    Ok(played)
}

/// Whether who moved last has won.
fn is_won(game: &Game) -> bool {
    game.last().is_some_and(|(board, _)| has_won(board))
}

pub(crate) struct Outcome {
    /// Parts of the games against a random player that are won, drawn and lost.
    pub results: [f64; 3],
    /// Whether its game against itself, without random moves, is a draw.
    pub draws_itself: bool,
    /// That game as text.
    pub game: String,
}

pub(crate) fn train(device: &Device, rounds: usize) -> Result<Outcome> {
    let mut train = Trainer::new(Judge::new())
        .inputs([f32("boards", [BOARDS, 9]), f32("targets", [BOARDS]), f32("weights", [BOARDS])])
        .loss(|judge, [boards, targets, weights]| {
            ((judge.forward(boards) - targets).square() * weights).sum() / weights.sum()
        })
        .optimizer(Adam::new(Schedule::warmup_cosine(3e-3, 1, rounds as u64, 3e-4)))
        .seed(9)
        .compile(device)?;
    let mut judge =
        train.session().infer([f32("boards", [BOARDS, 9])], |judge, [boards]| judge.forward(boards))?;
    let mut value = |boards: &[Board]| {
        let mut values = Vec::new();
        for part in boards.chunks(BOARDS) {
            let mut rows = vec![0.0; 9 * BOARDS];
            rows[..9 * part.len()].copy_from_slice(part.as_flattened());
            values.extend(&judge.run([&rows])?[..part.len()]);
        }
        Ok(values)
    };

    let mut random = Random::new(9);
    for round in 0..rounds {
        let games = play(&mut value, &mut random, GAMES, [0.4; 2])?;
        let rows = games.concat();
        let (mut boards, mut targets, mut weights) =
            (vec![0.0; 9 * BOARDS], vec![0.0; BOARDS], vec![0.0; BOARDS]);
        for (row, (board, target)) in rows.iter().enumerate() {
            boards[9 * row..][..9].copy_from_slice(board);
            (targets[row], weights[row]) = (*target, 1.0);
        }
        let step = train.step([&boards, &targets, &weights])?;
        if round % (rounds / 10).max(1) == 0 {
            println!("round {round:>4}  loss {:.4}", step.loss()?);
        }
    }

    // It begins in half of the games.
    let mut counts = [0; 3];
    for (own, chance) in [[0.0, 1.0], [1.0, 0.0]].into_iter().enumerate() {
        for game in play(&mut value, &mut random, 250, chance)? {
            let by_it = (game.len() - 1) % 2 == own;
            let result = if !is_won(&game) { 1 } else { 2 * usize::from(!by_it) };
            counts[result] += 1;
        }
    }
    let itself = &play(&mut value, &mut random, 1, [0.0; 2])?[0];
    Ok(Outcome {
        results: counts.map(|count| f64::from(count) / 500.0),
        draws_itself: !is_won(itself),
        game: picture(itself),
    })
}

/// The boards of a game beside each other.
fn picture(game: &Game) -> String {
    let line = |y: usize| {
        let row = |(i, (board, _)): (usize, &(Board, f32))| -> String {
            let first = if i % 2 == 0 { 1.0 } else { -1.0 };
            let sign = |&stone: &f32| {
                if stone == 0.0 {
                    '.'
                } else if stone == first {
                    'X'
                } else {
                    'O'
                }
            };
            board[3 * y..][..3].iter().map(sign).collect()
        };
        game.iter().enumerate().map(row).collect::<Vec<_>>().join("  ")
    };
    [0, 1, 2].map(line).join("\n")
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 1200)?;
    let end = if outcome.draws_itself { "a draw" } else { "no draw" };
    println!("against itself, {end}:\n{}", outcome.game);
    let [won, drawn, lost] = outcome.results.map(|part| 100.0 * part);
    println!("against a random player: {won:.1}% won, {drawn:.1}% drawn, {lost:.1}% lost");
    Ok(())
}
