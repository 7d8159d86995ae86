//! Sampling in traced ops, so that a decoding step transfers only tokens to the host.
//!
//! In: logits `[rows, vocabulary]`, and the settings of each row's request. Out: a token for each row, with
//! log-probabilities if requested. Invariant: a row's token depends only on its own logits, settings, seed
//! and position; it is the token that [`Sampling::choose`] returns, unless rounding to f32 moves a logit or
//! the draw across a threshold. The host computes the random word from seed and position: if traced, the ten
//! Philox rounds would take more ops than the rest of the sampling, and than many models.
//!
//! Nothing is sorted. Top-k and top-p are thresholds on the distance from the largest logit, and the draw is
//! a threshold on the id. Each threshold is found by bisection, with one pass over the row per bit: for
//! 50,257 tokens, 30 passes for top-k, 30 for top-p, 16 for ties at the threshold and 16 for the draw. Fusion
//! combines the passes into one to three launches in which one workgroup reads a row, which stays in its
//! cache. The launches write a few numbers per row, two bools per token, and the logits if they are adjusted.
//! Sorting as many elements takes 24 dispatches on a GPU, each of which reads and writes keys and indices in
//! memory, followed by prefix sums, their search, and the mapping back to ids.

mod cut;
mod last;
mod search;

use super::{Draw, Past, Sampling, SamplingError};
use cut::Cut;
use gradloom_core::ir::DType;
use gradloom_core::trace::{Tensor, full, iota};
pub use last::LastTokens;
use search::greatest;

/// Settings that the rows of a program may use, and the key of compiled programs. Settings that no row uses
/// are not traced and cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choices {
    /// True if every row takes the most likely token, whatever its temperature.
    pub greedy_only: bool,
    /// True if rows may have [`Sampling::top_k`].
    pub top_k: bool,
    /// True if rows may have [`Sampling::top_p`].
    pub top_p: bool,
    /// True if rows may have [`Sampling::min_p`].
    pub min_p: bool,
    /// Number of most likely tokens whose log-probabilities are returned in addition to the chosen token's,
    /// or `None` for no log-probabilities at all.
    pub logprobs: Option<usize>,
}

/// Settings of the rows as tensors.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// [`Sampling::numbers`] of each row, f32 `[rows, Sampling::NUMBERS]`.
    pub numbers: Tensor,
    /// [`Sampling::words`] of each row, u32 `[rows, Sampling::WORDS]`.
    pub words: Tensor,
    /// [`Past::row`] of each row, i32 `[rows, vocabulary]`, or `None` for no penalties.
    pub past: Option<Tensor>,
    /// [`Sampling::biases`] of each row, f32 `[rows, vocabulary]`, or `None` for no biases.
    pub bias: Option<Tensor>,
}

/// Chosen tokens.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// Token of each row, i32 `[rows]`. It is -1 if a logit is NaN or positive infinity, even if only because
    /// of biases and penalties, or if all tokens are excluded.
    pub token: Tensor,
    /// Log-probabilities, if [`Choices::logprobs`] requests them.
    pub logprobs: Option<Logprobs>,
}

/// Natural logarithms of the model's own probabilities, before penalties, biases, temperature and truncation.
#[derive(Clone, Copy, Debug)]
pub struct Logprobs {
    /// Log-probability of the chosen token, f32 `[rows]`; NaN if the token is -1.
    pub token: Tensor,
    /// Log-probabilities of the most likely tokens, descending, f32 `[rows, n]`.
    pub top: Tensor,
    /// Ids of the most likely tokens in the order of [`Logprobs::top`], i32 `[rows, n]`.
    pub ids: Tensor,
}

/// Smallest positive temperature. At this temperature, any difference between two logits makes the
/// probability of the lower one negligible.
const LEAST_TEMPERATURE: f64 = 1e-30;

impl Sampling {
    /// Length of [`Sampling::numbers`].
    pub const NUMBERS: usize = 6;
    /// Length of [`Sampling::words`].
    pub const WORDS: usize = 2;

    /// Returns a row of [`Rows::numbers`].
    pub fn numbers(&self) -> [f32; Self::NUMBERS] {
        let temperature = match self.temperature {
            0.0 => 0.0,
            above => above.max(LEAST_TEMPERATURE),
        };
        [temperature, self.top_p, self.min_p, self.repetition, self.presence, self.frequency]
            .map(|x| x as f32)
    }

    /// Returns a row of [`Rows::words`] for the token at a position of the generated text: the random word of
    /// the draw, and `top_k`.
    pub fn words(&self, position: u64) -> [u32; Self::WORDS] {
        let top_k = self.top_k.map_or(u32::MAX, |k| u32::try_from(k).unwrap_or(u32::MAX));
        [self.word(position, Draw::Token), top_k]
    }

    /// Returns a row of [`Rows::bias`].
    ///
    /// # Errors
    /// Returns an error if a token is not in the vocabulary.
    pub fn biases(&self, vocabulary: usize) -> Result<Vec<f32>, SamplingError> {
        let mut row = vec![0.0; vocabulary];
        for (&token, &bias) in &self.bias {
            let place = usize::try_from(token).ok().and_then(|id| row.get_mut(id));
            *place.ok_or(SamplingError::BiasToken { token, vocabulary })? = bias as f32;
        }
        Ok(row)
    }
}

impl Past {
    /// Returns [`Rows::past`] with the output tokens `token`, i32 `[rows]`, added; -1 adds nothing.
    #[track_caller]
    #[must_use]
    pub fn after(past: Tensor, token: Tensor) -> Tensor {
        let token = token.unsqueeze(1);
        past.scatter_add(token.maximum(0), token.ge(0).select(2, 0).cast(DType::I32), 1)
    }
}

impl Choices {
    /// Returns the settings that any of these rows uses, without log-probabilities.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Sampling>) -> Self {
        let none = Self { greedy_only: true, ..Self::default() };
        let draws = rows.into_iter().filter(|sampling| sampling.temperature != 0.0);
        draws.fold(none, |all, sampling| Self {
            greedy_only: false,
            top_k: all.top_k || sampling.top_k.is_some(),
            top_p: all.top_p || sampling.top_p < 1.0,
            min_p: all.min_p || sampling.min_p > 0.0,
            logprobs: None,
        })
    }

    /// Traces the sampling from `logits`, f32 `[rows, vocabulary]`, for settings that [`Sampling::validate`]
    /// accepts. The vocabulary must have fewer than 2^30 tokens.
    #[track_caller]
    #[must_use]
    pub fn choose(&self, logits: Tensor, rows: Rows) -> Chosen {
        let [count, vocabulary] = logits.dims();
        let number = |i: usize| rows.numbers.slice(1, i..i + 1);
        let adjusted = adjusted(logits, rows, number(3), number(4), number(5));
        let ids = iota(DType::I32, [count, vocabulary], 1);
        let most = adjusted.max_keep(1);
        let likeliest = adjusted.eq(most).select(ids, vocabulary as i32).min_keep(1);
        let token = match self.greedy_only {
            true => likeliest,
            false => {
                let temperature = number(0);
                let cold = temperature.eq(0.0);
                let word = |i: usize| rows.words.slice(1, i..i + 1);
                let cut = Cut {
                    top_k: self.top_k.then(|| word(1)),
                    top_p: self.top_p.then(|| number(1)),
                    min_p: self.min_p.then(|| number(2)),
                };
                let weights = cut.weights(most - adjusted, cold.select(1.0, temperature), ids);
                cold.select(likeliest, draw(weights, ids, word(0)))
            }
        };
        let valid = most.is_finite();
        let token = valid.select(token, -1);
        let logprobs = self.logprobs.map(|n| {
            let most = logits.max_keep(1);
            let sum = (logits - most).exp().sum_keep(1).log();
            let own = ids.eq(token).select(logits, 0.0).sum_keep(1);
            let (top, ids) = logits.top_k(n, 1);
            let token = valid.select(own - most - sum, f64::NAN).squeeze(1);
            Logprobs { token, top: top - most - sum, ids }
        });
        Chosen { token: token.squeeze(1), logprobs }
    }
}

/// Returns the logits with biases and penalties applied.
#[track_caller]
fn adjusted(logits: Tensor, rows: Rows, repetition: Tensor, presence: Tensor, frequency: Tensor) -> Tensor {
    let logits = rows.bias.map_or(logits, |bias| logits + bias);
    let Some(past) = rows.past else { return logits };
    let repeated = logits.gt(0.0).select(logits / repetition, logits * repetition);
    let times = past.shift_right(1).cast(DType::F32);
    let lowered = times.gt(0.0).select(times * frequency + presence, 0.0);
    past.gt(0).select(repeated, logits) - lowered
}

/// Returns the drawn id of each row, i32 `[rows, 1]`: the lowest one at which the cumulative weight exceeds
/// the fraction `random / 2^32` of the total. The weights are rounded to integers with a sum of about 2^31,
/// because integer sums do not depend on the order in which a device adds them.
#[track_caller]
fn draw(weights: Tensor, ids: Tensor, random: Tensor) -> Tensor {
    const ALL: f64 = 2_147_483_648.0;
    let scale = full(DType::F32, [], ALL) / weights.sum_keep(1);
    let whole = (weights * scale + 0.5).cast(DType::U32);
    let target = high_product(random, whole.sum_keep(1));
    let [_, vocabulary] = ids.dims();
    greatest(search::bits(vocabulary), random, |id| ids.lt(id).select(whole, 0).sum_keep(1).le(target))
}

/// Returns the high 32 bits of `a * b` for u32 tensors, computed from 16-bit products.
#[track_caller]
fn high_product(a: Tensor, b: Tensor) -> Tensor {
    const LOW: i32 = 0xffff;
    let [a_low, b_low] = [a, b].map(|x| x.logical_and(LOW));
    let [a_high, b_high] = [a, b].map(|x| x.shift_right(16));
    // No sum overflows: (2^16 - 1)^2 + 2 (2^16 - 1) = 2^32 - 1.
    let middle = a_high * b_low + (a_low * b_low).shift_right(16);
    let other = a_low * b_high + middle.logical_and(LOW);
    a_high * b_high + middle.shift_right(16) + other.shift_right(16)
}

#[cfg(test)]
mod tests {
    use super::high_product;
    use gradloom_core::trace::u32;
    use gradloom_cpu::CpuDevice as _;
    use gradloom_runtime::{Device, Session};

    #[test]
    fn high_products_are_exact_at_the_ends() {
        let ends = [0u32, 1, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
        let pairs: Vec<[u32; 2]> = ends.iter().flat_map(|&a| ends.map(|b| [a, b])).collect();
        let session = Session::new((), &Device::cpu(), 0).unwrap();
        let mut run = session
            .infer([u32("a", [64]), u32("b", [64])], |(), [a, b]| {
                let high = high_product(a, b);
                [high.shift_right(16), high.logical_and(0xffff)]
            })
            .unwrap();
        let [a, b] = [0, 1].map(|i| pairs.iter().map(|pair| pair[i]).collect::<Vec<u32>>());
        let [high, low] = run.run((&a, &b)).unwrap();
        for (i, [a, b]) in pairs.into_iter().enumerate() {
            let got = high[i] as u64 * 65536 + low[i] as u64;
            assert_eq!(got, (u64::from(a) * u64::from(b)) >> 32, "{a} {b}");
        }
    }
}
