//! Training targets: the expected token at each position, and the positions that contribute to the loss.
//!
//! In: token ids, row-major `[rows, time]`. Out: targets of the same shape for
//! [`Tensor::cross_entropy_with`], [`IGNORED`] at masked positions; or rows of probabilities for
//! [`soft_loss`], all zero at masked positions. Invariant: masked positions have no gradient, and losses
//! are means over the other positions. If all positions are masked, the mean is NaN and the training step is
//! rejected.
//!
//! ```
//! # use gradloom_cpu::CpuDevice as _;
//! use gradloom_core::optim::AdamW;
//! use gradloom_core::trace::{CrossEntropyOptions, i32};
//! use gradloom_models::data::labels::{self, IGNORED};
//! use gradloom_models::gpt2::{Gpt2, Gpt2Config};
//! use gradloom_runtime::{Device, Trainer};
//!
//! let sizes = Gpt2Config { vocabulary: 11, context: 6, width: 8, ..Gpt2Config::DEFAULT };
//! let config = Gpt2Config { heads: 2, layers: 1, ..sizes };
//! let options = CrossEntropyOptions::new().ignore_index(IGNORED).label_smoothing(0.1);
//! let mut train = Trainer::new(Gpt2::new(&config)?)
//!     .inputs([i32("ids", [2, 6]), i32("targets", [2, 6])])
//!     .loss(|gpt, [ids, targets]| gpt.forward(ids).cross_entropy_with(targets, options))
//!     .optimizer(AdamW::new(1e-3))
//!     .compile(&Device::cpu())?;
//! // Row 0 has a prompt of two tokens. Row 1 has one of three tokens, and padding from the sixth token on.
//! let ids = [1, 2, 7, 8, 9, 10, 3, 4, 5, 6, 7, 0];
//! let targets = labels::completion(&ids, 6, &[2..6, 3..5])?;
//! assert_eq!(targets[..6], [IGNORED, 7, 8, 9, 10, IGNORED]);
//! assert_eq!(targets[6..], [IGNORED, IGNORED, 6, 7, IGNORED, IGNORED]);
//! train.step((&ids, &targets))?.loss()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use gradloom_core::philox::philox4x32;
use gradloom_core::trace::Tensor;
use std::ops::Range;

/// Target of a masked position. PyTorch uses the same value.
pub const IGNORED: i32 = -100;

/// An error in the arguments for targets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LabelError {
    /// The number of ids is not a multiple of the row length.
    #[error("{ids} ids are not rows of {time}")]
    Rows {
        /// Number of ids.
        ids: usize,
        /// Number of tokens in a row.
        time: usize,
    },
    /// The number of entries differs from the number of targets or rows.
    #[error("{given} entries are given for {wanted} {what}")]
    Count {
        /// Name of the items that need one entry each.
        what: &'static str,
        /// Number of entries needed.
        wanted: usize,
        /// Number of entries given.
        given: usize,
    },
    /// The completion is not within its row.
    #[error("the completion {}..{} of row {row} is not within 0..{time}", .part.start, .part.end)]
    Part {
        /// Index of the row.
        row: usize,
        /// Range of the completion.
        part: Range<usize>,
        /// Number of tokens in a row.
        time: usize,
    },
    /// The target is not a class.
    #[error("the target {target} at position {position} is not within 0..{classes}")]
    Class {
        /// Index of the target, counted over all rows.
        position: usize,
        /// Invalid target.
        target: i32,
        /// Number of classes.
        classes: usize,
    },
    /// The fraction is not between 0 and 1.
    #[error("the {what} is {share}")]
    Share {
        /// Name of the fraction.
        what: &'static str,
        /// Given value.
        share: f64,
    },
    /// The mask token is not in the vocabulary, or the vocabulary does not fit in `i32`.
    #[error("the mask token {mask} is not within a vocabulary of {vocabulary}")]
    Mask {
        /// Id of the token.
        mask: i32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
}

impl LabelError {
    /// Returns a suggestion for fixing the error.
    pub fn remedy(&self) -> String {
        match self {
            Self::Rows { .. } => "give whole rows, and the number of tokens of one".to_string(),
            Self::Count { what, wanted, .. } => format!("give one for each of the {wanted} {what}"),
            Self::Part { .. } => {
                "give the first token of the completion and the one after its last".to_string()
            }
            Self::Class { .. } => format!("give a class, or {IGNORED} for what does not count"),
            Self::Share { .. } => "give a share from 0 to 1".to_string(),
            Self::Mask { .. } => "give the tokenizer's mask token and the size of its vocabulary".to_string(),
        }
    }
}

/// Returns the next token of each position. The last position of each row is masked because it has no next
/// token.
///
/// # Errors
/// Returns an error if the ids are not whole rows of `time` tokens.
pub fn next_token(ids: &[i32], time: usize) -> Result<Vec<i32>, LabelError> {
    if time == 0 || !ids.len().is_multiple_of(time) {
        return Err(LabelError::Rows { ids: ids.len(), time });
    }
    let following = |row| <[i32]>::iter(row).skip(1).copied().chain([IGNORED]);
    Ok(ids.chunks_exact(time).flat_map(following).collect())
}

/// Masks the targets whose entry in `counts` is `false`.
///
/// # Errors
/// Returns an error if the lengths differ.
pub fn masked(mut targets: Vec<i32>, counts: &[bool]) -> Result<Vec<i32>, LabelError> {
    let (wanted, given) = (targets.len(), counts.len());
    if wanted != given {
        return Err(LabelError::Count { what: "targets", wanted, given });
    }
    targets.iter_mut().zip(counts).filter(|(_, counts)| !**counts).for_each(|(target, _)| *target = IGNORED);
    Ok(targets)
}

/// Returns the next token of each position, masked unless it belongs to the row's completion rather than to
/// its prompt or padding.
///
/// Each completion is a range of token positions within its row. The token at position 0 is never a target
/// because no token precedes it.
///
/// # Errors
/// Returns an error if the ids are not whole rows of `time` tokens, if there is not one completion per row,
/// or if a completion is not within its row.
pub fn completion(ids: &[i32], time: usize, completions: &[Range<usize>]) -> Result<Vec<i32>, LabelError> {
    let targets = next_token(ids, time)?;
    let (wanted, given) = (ids.len() / time, completions.len());
    if wanted != given {
        return Err(LabelError::Count { what: "rows", wanted, given });
    }
    if let Some(row) = completions.iter().position(|part| part.start > part.end || part.end > time) {
        return Err(LabelError::Part { row, part: completions[row].clone(), time });
    }
    let counts = completions.iter().flat_map(|part| (0..time).map(|at| part.contains(&(at + 1))));
    masked(targets, &counts.collect::<Vec<_>>())
}

/// Returns rows of probabilities for [`soft_loss`], f32 `[targets, classes]`. `part` is distributed evenly
/// over all classes and the target's class gets the remaining `1 - part` in addition (Szegedy et al., 2016).
/// The row of a masked target is all zero. Class indices with [label
/// smoothing](gradloom_core::trace::CrossEntropyOptions::label_smoothing) have the same effect and take less
/// memory.
///
/// # Errors
/// Returns an error if a target is neither a class nor [`IGNORED`], or `part` is not between 0 and 1.
pub fn smoothed(targets: &[i32], classes: usize, part: f64) -> Result<Vec<f32>, LabelError> {
    share("label smoothing", part)?;
    let mut rows = vec![0.0; targets.len() * classes];
    for (position, &target) in targets.iter().enumerate().filter(|(_, target)| **target != IGNORED) {
        let class = usize::try_from(target).ok().filter(|class| *class < classes);
        let class = class.ok_or(LabelError::Class { position, target, classes })?;
        let row = &mut rows[position * classes..][..classes];
        row.fill((part / classes as f64) as f32);
        row[class] = (1.0 - part + part / classes as f64) as f32;
    }
    Ok(rows)
}

/// Returns the mean cross-entropy, in nats, of logits `[B.., classes]` with rows of probabilities of the same
/// shape. Unlike [`Tensor::cross_entropy`], it excludes rows of zeros from the mean.
#[track_caller]
#[must_use]
pub fn soft_loss(logits: Tensor, rows: Tensor) -> Tensor {
    logits.cross_entropy_rows(rows).sum() / rows.sum()
}

fn share(what: &'static str, share: f64) -> Result<(), LabelError> {
    if (0.0..=1.0).contains(&share) { Ok(()) } else { Err(LabelError::Share { what, share }) }
}

/// A masking scheme for masked language models, as in BERT (Devlin et al., 2019). Of the chosen tokens, 80%
/// are replaced by the mask token, 10% by a random token, and 10% are left unchanged.
///
/// The choice is a pure function of seed, step and position, so resuming a run requires only its step number.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskedTokens {
    seed: u64,
    mask: i32,
    vocabulary: usize,
    rate: f64,
    spared: Vec<i32>,
}

/// Last word of the Philox counters, which keeps them apart from those of batches and of generation under the
/// same seed.
const DOMAIN: u32 = 0x6d61_736b;

impl MaskedTokens {
    /// Creates a scheme that chooses 15% of the tokens.
    ///
    /// # Errors
    /// Returns an error if the mask token is not in the vocabulary, or the vocabulary does not fit in `i32`.
    pub fn new(seed: u64, mask: i32, vocabulary: usize) -> Result<Self, LabelError> {
        match usize::try_from(mask) {
            // The vocabulary must fit in `i32`, the type of token ids.
            Ok(place) if place < vocabulary && i32::try_from(vocabulary).is_ok() => {
                Ok(Self { seed, mask, vocabulary, rate: 0.15, spared: Vec::new() })
            }
            _ => Err(LabelError::Mask { mask, vocabulary }),
        }
    }

    /// Sets the fraction of the tokens to choose.
    ///
    /// # Errors
    /// Returns an error if `rate` is not between 0 and 1.
    pub fn rate(self, rate: f64) -> Result<Self, LabelError> {
        share("share of tokens to choose", rate)?;
        Ok(Self { rate, ..self })
    }

    /// Excludes these tokens, such as padding and separators, from being chosen.
    #[must_use]
    pub fn spare(self, tokens: &[i32]) -> Self {
        Self { spared: tokens.to_vec(), ..self }
    }

    /// Returns the inputs and targets of a step. The targets are the original tokens at the chosen positions
    /// and [`IGNORED`] at all others.
    pub fn draw(&self, step: u64, ids: &[i32]) -> (Vec<i32>, Vec<i32>) {
        let below = |word: u32, share: f64| f64::from(word) < share * 4_294_967_296.0;
        let drawn = ids.iter().zip(0u32..).map(|(&id, position)| {
            let counter = [step as u32, (step >> 32) as u32, position, DOMAIN];
            let [chosen, kind, token, _] = philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32]);
            if !below(chosen, self.rate) || self.spared.contains(&id) {
                (id, IGNORED)
            } else if below(kind, 0.8) {
                (self.mask, id)
            } else if below(kind, 0.9) {
                // Take the high half of the product of a random 32-bit word and n, which is uniform on 0..n
                // up to a bias of n / 2^32.
                (((u64::from(token) * self.vocabulary as u64) >> 32) as i32, id)
            } else {
                (id, id)
            }
        });
        drawn.unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_token_of_a_row_has_no_target() {
        assert_eq!(next_token(&[1, 2, 3, 4, 5, 6], 3), Ok(vec![2, 3, IGNORED, 5, 6, IGNORED]));
        assert_eq!(next_token(&[7, 8], 1), Ok(vec![IGNORED; 2]));
        assert_eq!(next_token(&[], 4), Ok(vec![]));
        for time in [0, 4] {
            assert_eq!(next_token(&[1, 2, 3], time), Err(LabelError::Rows { ids: 3, time }));
        }
    }

    #[test]
    fn completions_are_the_tokens_that_they_name() {
        let ids = [1, 2, 3, 4];
        let of = |part: Range<usize>| completion(&ids, 4, &[part]).unwrap();
        assert_eq!(of(2..4), [IGNORED, 3, 4, IGNORED]);
        assert_eq!(of(0..4), next_token(&ids, 4).unwrap());
        assert_eq!(of(0..1), [IGNORED; 4], "nothing comes before the first token");
        assert_eq!(of(3..3), [IGNORED; 4]);
        let backwards = Range { start: 3, end: 2 };
        for part in [2..5, backwards, 5..5] {
            let error = completion(&ids, 4, std::slice::from_ref(&part)).unwrap_err();
            assert_eq!(error, LabelError::Part { row: 0, part, time: 4 });
        }
        let error = completion(&ids, 1, &[0..1, 0..1]).unwrap_err();
        assert_eq!(error.to_string(), "2 entries are given for 4 rows");
        assert_eq!(error.remedy(), "give one for each of the 4 rows");
        assert!(masked(vec![1, 2], &[true]).is_err());
    }

    #[test]
    fn smoothed_rows_are_probabilities_or_zeros() {
        let rows = smoothed(&[2, IGNORED, 0], 4, 0.2).unwrap();
        let (own, other) = (0.85, 0.05);
        let want = [other, other, own, other, 0.0, 0.0, 0.0, 0.0, own, other, other, other];
        assert!(rows.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-7), "{rows:?}");
        assert_eq!(smoothed(&[1], 2, 0.0).unwrap(), [0.0, 1.0]);
        assert_eq!(smoothed(&[0], 1, 1.0).unwrap(), [1.0]);
        assert_eq!(smoothed(&[IGNORED], 0, 0.5).unwrap(), [0.0; 0]);
        for (target, classes) in [(4, 4), (-1, 4), (0, 0)] {
            let error = smoothed(&[IGNORED, target], classes, 0.1).unwrap_err();
            assert_eq!(error, LabelError::Class { position: 1, target, classes });
        }
        for part in [-0.1, 1.1, f64::NAN] {
            assert!(matches!(smoothed(&[0], 1, part), Err(LabelError::Share { .. })));
        }
    }

    #[test]
    fn tokens_are_masked_in_berts_shares() {
        let masks = MaskedTokens::new(3, 999, 1000).unwrap().spare(&[0]);
        let ids: Vec<i32> = (0..100_000).map(|i| i % 500).collect();
        let (inputs, targets) = masks.draw(8, &ids);
        let mut counts = [0usize; 3];
        for ((&id, input), target) in ids.iter().zip(inputs).zip(targets) {
            if target == IGNORED {
                assert_eq!(input, id);
                continue;
            }
            assert!(target == id && id != 0);
            counts[if input == 999 {
                0
            } else if input == id {
                2
            } else {
                1
            }] += 1;
            assert!((0..1000).contains(&input));
        }
        // 99,800 tokens can be chosen, each with probability 0.15: a standard deviation of 113. A tenth of
        // the chosen ones is 1,497, with a standard deviation of 37. A random token equals the mask or the
        // original token with probability 2/1000. The tolerances are more than four standard deviations.
        let chosen: usize = counts.iter().sum();
        assert!(chosen.abs_diff(14_970) < 500, "{chosen}");
        assert!(counts[0].abs_diff(11_976) < 500 && counts[2].abs_diff(1_497) < 160, "{counts:?}");
        assert!(counts[1].abs_diff(1_497) < 160, "{counts:?}");
    }

    #[test]
    fn masks_depend_on_seed_step_and_position() {
        let ids = vec![5; 200];
        let draw = |seed, step| MaskedTokens::new(seed, 9, 10).unwrap().draw(step, &ids);
        assert_eq!(draw(1, 2), draw(1, 2));
        for other in [draw(1, 3), draw(2, 2), draw(1, 2 + (1 << 32)), draw(1 + (1 << 32), 2)] {
            assert_ne!(draw(1, 2).1, other.1);
        }
        let all = MaskedTokens::new(1, 9, 10).unwrap().rate(1.0).unwrap().draw(0, &ids);
        assert_eq!(all.1, ids);
        let none = MaskedTokens::new(1, 9, 10).unwrap().rate(0.0).unwrap().draw(0, &ids);
        assert_eq!(none, (ids.clone(), vec![IGNORED; 200]));
        assert_eq!(MaskedTokens::new(1, 0, 1).unwrap().draw(0, &[]), (vec![], vec![]));
        for (mask, vocabulary) in [(10, 10), (-1, 10), (0, 0), (0, usize::MAX)] {
            let error = MaskedTokens::new(1, mask, vocabulary).unwrap_err();
            assert_eq!(error, LabelError::Mask { mask, vocabulary });
        }
        assert!(MaskedTokens::new(1, 9, 10).unwrap().rate(f64::NAN).is_err());
    }
}
