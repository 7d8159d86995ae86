//! A network learns tic-tac-toe by playing against itself.
//!
//! `cargo run --release --example tictactoe`
//!
//! The network evaluates a board for the player who has just moved, from -1 (lost) to 1 (won). A player
//! evaluates the boards after all possible moves and chooses the best; two in five moves of a training game
//! are random. The target at the end of a game is its result; before the end, it is minus the value of the
//! opponent's best reply. Shows training data that the model generates itself, with weights that mask unused
//! rows. Expect a game against itself that ends in a draw, and at most 2% of 500 games lost against a random
//! player.

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

/// Number of games played concurrently.
const GAMES: usize = 64;
/// Number of boards in a training step: each game has at most nine.
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

    /// Evaluates boards `[batch, 9]` for the player who has just moved, whose stones are 1; the opponent's
    /// are -1.
    fn forward(&self, boards: Tensor) -> Tensor {
        let [batch, _] = boards.dims();
        // One plane for each player's stones.
        let stones = concat(-1, &[boards.eq(1.0).cast(DType::F32), boards.eq(-1.0).cast(DType::F32)]);
        let h = self.second.forward(self.first.forward(stones).relu()).relu();
        self.last.forward(h).reshape([batch])
    }
}

/// The stones of the player under consideration (1) and of the opponent (-1), and empty fields (0).
type Board = [f32; 9];

const LINES: [[usize; 3]; 8] =
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];

/// Returns `true` if the stones 1 form a line.
fn has_won(board: &Board) -> bool {
    LINES.iter().any(|line| line.iter().all(|&place| board[place] == 1.0))
}

fn is_full(board: &Board) -> bool {
    board.iter().all(|&stone| stone != 0.0)
}

/// Returns the boards after each possible move, from the mover's point of view.
fn moves(board: &Board) -> Vec<Board> {
    let free = (0..9).filter(|&place| board[place] == 0.0);
    let after = |place| {
        let mut after = *board;
        after[place] = 1.0;
        after
    };
    free.map(after).collect()
}

/// Returns a board from the opponent's point of view.
fn turned(board: &Board) -> Board {
    board.map(|stone| -stone)
}

/// Function that evaluates boards.
type Value<'a> = dyn FnMut(&[Board]) -> Result<Vec<f32>> + 'a;

/// Boards of a game, each from the point of view of the player who has just moved, with its target value.
type Game = Vec<(Board, f32)>;

/// Plays games to the end. `chance` has the fractions of random moves of the first and the second player.
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
        // The boards of all games are evaluated in one run.
        let values = value(&choices.concat())?;
        let mut values = &values[..];
        for (&game, choices) in open.iter().zip(&choices) {
            let own;
            (own, values) = values.split_at(choices.len());
            let best = (0..choices.len()).max_by(|&a, &b| own[a].total_cmp(&own[b])).unwrap_or(0);
            // A good board for this player was a bad one for the opponent.
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

/// Returns `true` if the player who moved last has won.
fn is_won(game: &Game) -> bool {
    game.last().is_some_and(|(board, _)| has_won(board))
}

pub(crate) struct Outcome {
    /// Fractions of the games against a random player that are won, drawn and lost.
    pub results: [f64; 3],
    /// True if its game against itself, without random moves, is a draw.
    pub draws_itself: bool,
    /// Boards of that game as text.
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

    // The network moves first in half of the games.
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

/// Renders the boards of a game side by side.
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
