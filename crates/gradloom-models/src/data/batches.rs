//! Batches as a pure function of seed and step.

use super::{DataError, Tokens};
use gradloom_core::philox::philox4x32;
use std::ops::Range;

/// A sampler of batches: rows of `context` consecutive tokens at random offsets, with the next token at each
/// position as its target.
///
/// The sampler has no state: the offset of row r of a step is drawn by Philox, keyed by the seed, with the
/// counter (step, r).
#[derive(Clone, Debug)]
pub struct Batches {
    seed: u64,
    /// Rows to draw.
    rows: Range<usize>,
    context: usize,
}

/// Inputs and targets of a step, each `[batch, context]`, row-major.
pub type Batch = (Vec<i32>, Vec<i32>);

/// Last word of the Philox counters, which keeps them apart from those of random tensors and of generation
/// under the same seed.
const DOMAIN: u32 = 0x6461_7461;

impl Batches {
    /// Creates a sampler of batches of `batch` rows of `context` tokens.
    pub fn new(seed: u64, batch: usize, context: usize) -> Self {
        Self { seed, rows: 0..batch, context }
    }

    /// Returns a sampler of part `part` of `parts` equal parts of the rows.
    ///
    /// # Panics
    /// Panics if the rows do not divide into so many parts, or there is no such part.
    pub fn part(self, part: usize, parts: usize) -> Self {
        let rows = self.rows.len() / parts;
        assert!(part < parts && rows * parts == self.rows.len(), "part {part} of {parts}");
        let start = self.rows.start + part * rows;
        Self { rows: start..start + rows, ..self }
    }

    /// Returns the inputs and targets of a step, each `[rows, context]`, row-major.
    ///
    /// # Errors
    /// Returns an error if a token in a file is not in the vocabulary.
    ///
    /// # Panics
    /// Panics if `tokens` is shorter than a window of `context + 1` tokens; the parts of a [`super::Split`]
    /// for the same context never are.
    pub fn draw(&self, step: u64, tokens: &Tokens) -> Result<Batch, DataError> {
        let places =
            tokens.len().checked_sub(self.context).filter(|&n| n > 0).expect("tokens for one window");
        let starts = self.rows.clone().map(|row| {
            let counter = [step as u32, (step >> 32) as u32, row as u32, DOMAIN];
            let [low, high, ..] = philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32]);
            let word = u64::from(high) << 32 | u64::from(low);
            // Take the high half of the product of a random 64-bit word and n, which is uniform on 0..n up to
            // a bias of n / 2^64.
            ((u128::from(word) * places as u128) >> 64) as usize
        });
        windows(tokens, self.context, starts)
    }
}

/// Returns the inputs and targets of up to `count` batches spread evenly over the tokens. Every call returns
/// the same batches.
///
/// If the tokens do not suffice for `count` batches of rows without overlap, fewer are returned, but at least
/// one.
///
/// # Errors
/// Returns an error if a token in a file is not in the vocabulary.
///
/// # Panics
/// Panics if `tokens` is shorter than a window of `context + 1` tokens; the parts of a [`super::Split`] for
/// the same context never are.
pub fn held_out_windows(
    tokens: &Tokens,
    batch: usize,
    context: usize,
    count: usize,
) -> Result<Vec<Batch>, DataError> {
    let last = tokens.len().checked_sub(context + 1).expect("tokens for one window");
    let without_overlap = (tokens.len() - 1) / context;
    let count = (without_overlap / batch).clamp(1, count.max(1));
    let rows = count * batch;
    let start = |row: usize| (last as u128 * row as u128 / (rows - 1).max(1) as u128) as usize;
    (0..count).map(|i| windows(tokens, context, (i * batch..(i + 1) * batch).map(start))).collect()
}

fn windows(tokens: &Tokens, context: usize, starts: impl Iterator<Item = usize>) -> Result<Batch, DataError> {
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    let mut window = Vec::with_capacity(context + 1);
    for start in starts {
        window.clear();
        tokens.read(start, context + 1, &mut window)?;
        inputs.extend_from_slice(&window[..context]);
        targets.extend_from_slice(&window[1..]);
    }
    Ok((inputs, targets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(n: i32) -> Tokens {
        Tokens::Memory((0..n).collect())
    }

    #[test]
    fn targets_follow_their_inputs() {
        let (inputs, targets) = Batches::new(1, 3, 5).draw(9, &tokens(100)).unwrap();
        assert_eq!((inputs.len(), targets.len()), (15, 15));
        assert!(inputs.iter().zip(&targets).all(|(x, y)| x + 1 == *y));
    }

    #[test]
    fn a_step_always_gives_the_same_batch_and_other_steps_rows_and_seeds_others() {
        let tokens = tokens(1_000_000);
        let draw = |seed, step| Batches::new(seed, 2, 4).draw(step, &tokens).unwrap().0;
        assert_eq!(draw(1, 5), draw(1, 5));
        assert_ne!(draw(1, 5), draw(1, 6));
        assert_ne!(draw(1, 5), draw(1, 5 + (1 << 32)));
        assert_ne!(draw(1, 5), draw(2, 5));
        assert_ne!(draw(1, 5), draw(1 + (1 << 32), 5));
        let rows = draw(1, 5);
        assert_ne!(rows[..4], rows[4..]);
    }

    #[test]
    fn the_parts_of_a_batch_are_the_batch() {
        let tokens = tokens(1_000_000);
        let batches = Batches::new(1, 6, 4);
        let (inputs, targets) = batches.draw(5, &tokens).unwrap();
        for parts in [1, 2, 3, 6] {
            let drawn = (0..parts).map(|part| batches.clone().part(part, parts).draw(5, &tokens).unwrap());
            let (x, y): (Vec<_>, Vec<_>) = drawn.unzip();
            assert_eq!((x.concat(), y.concat()), (inputs.clone(), targets.clone()));
        }
    }

    #[test]
    fn every_place_is_drawn() {
        let mut counts = [0usize; 8];
        for step in 0..1000 {
            for x in Batches::new(7, 8, 1).draw(step, &tokens(9)).unwrap().0 {
                counts[x as usize] += 1;
            }
        }
        // With 8000 draws over 8 offsets, the standard deviation of each count is 30, so the tolerance is
        // five standard deviations.
        assert!(counts.iter().all(|c| c.abs_diff(1000) < 150), "{counts:?}");
    }

    #[test]
    fn one_window_is_enough() {
        assert_eq!(
            Batches::new(0, 2, 3).draw(0, &tokens(4)).unwrap(),
            (vec![0, 1, 2, 0, 1, 2], vec![1, 2, 3, 1, 2, 3])
        );
        let batches = held_out_windows(&tokens(4), 2, 3, 8).unwrap();
        assert_eq!(batches, [(vec![0, 1, 2, 0, 1, 2], vec![1, 2, 3, 1, 2, 3])]);
    }

    #[test]
    fn held_out_windows_reach_from_the_first_token_to_the_last() {
        let batches = held_out_windows(&tokens(100), 2, 5, 4).unwrap();
        assert_eq!(batches.len(), 4);
        assert_eq!(batches[0].0[0], 0);
        assert_eq!(batches[3].1.last(), Some(&99));
        assert_eq!(
            held_out_windows(&tokens(100), 8, 5, 4).unwrap().len(),
            2,
            "19 windows fit without overlap"
        );
    }
}
