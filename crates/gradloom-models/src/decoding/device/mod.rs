//! The choice of the next token in traced ops, so that a step of decoding leaves only tokens to the host.
//!
//! In: logits `[rows, vocabulary]`, and for each row the settings of its request. Out: a token for each row,
//! with log-probabilities where they are wanted. Always holds: a row's token depends on its own logits,
//! settings, seed and position alone; it is the one that [`Sampling::choose`] gives, but where rounding to
//! f32 moves a logit or the draw across a bound. The host gives the random word that seed and position make:
//! traced, its ten rounds would be more ops than the rest of the choice, and of many models.
//!
//! Nothing is sorted. Top-k and top-p are bounds on the distance from the likeliest logit, and the draw is a
//! bound on the id; each is found by bisection, a pass over the row for each bit: for 50,257 tokens 30 passes
//! for top-k, 30 for top-p, 16 for ties at the bound and 16 for the draw. Fusion makes one to three launches
//! of them, in which a row is read by one workgroup and stays in its cache, and which write a few numbers of
//! each row, two bools for each token, and the logits where they are adjusted. A sort of as many elements is
//! 24 dispatches on a GPU, each of which goes through keys and indices in memory, and running sums, their
//! search and the way back to ids follow.

mod cut;
mod last;
mod search;

use super::{Draw, Past, Sampling, SamplingError};
use cut::Cut;
use gradloom_core::ir::DType;
use gradloom_core::trace::{Tensor, full, iota};
pub use last::LastTokens;
use search::greatest;

/// Settings that the rows of a program may use. The program is traced for these, and those that are left
/// out cost nothing. Also serves as the key of compiled programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choices {
    /// Every row takes the likeliest token, whatever its temperature.
    pub greedy_only: bool,
    /// Rows may have [`Sampling::top_k`].
    pub top_k: bool,
    /// Rows may have [`Sampling::top_p`].
    pub top_p: bool,
    /// Rows may have [`Sampling::min_p`].
    pub min_p: bool,
    /// Number of likeliest tokens whose log-probabilities are returned, besides the chosen token's; `None`
    /// for no log-probabilities.
    pub logprobs: Option<usize>,
}

/// The rows' settings as tensors.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// f32 `[rows, Sampling::NUMBERS]`: of each row [`Sampling::numbers`].
    pub numbers: Tensor,
    /// u32 `[rows, Sampling::WORDS]`: of each row [`Sampling::words`].
    pub words: Tensor,
    /// i32 `[rows, vocabulary]`: of each row [`Past::row`]. Without it there are no penalties.
    pub past: Option<Tensor>,
    /// f32 `[rows, vocabulary]`: of each row [`Sampling::biases`]. Without it there are no biases.
    pub bias: Option<Tensor>,
}

/// The tokens.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// i32 `[rows]`. -1 where a logit is NaN or infinite, also after biases and penalties, or all tokens are
    /// excluded.
    pub token: Tensor,
    /// Log-probabilities, if [`Choices::logprobs`] asks for them.
    pub logprobs: Option<Logprobs>,
}

/// Natural logarithms of probabilities that the model itself gives: without penalties, biases, temperature
/// and truncation.
#[derive(Clone, Copy, Debug)]
pub struct Logprobs {
    /// f32 `[rows]`: of the token; NaN where it is -1.
    pub token: Tensor,
    /// f32 `[rows, n]`: of the likeliest tokens, the likeliest first.
    pub top: Tensor,
    /// i32 `[rows, n]`: their ids.
    pub ids: Tensor,
}

/// Temperatures above 0 are not below this: logits that differ at all then differ by more than any draw sees.
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

    /// Returns a row of [`Rows::words`] for the token at a position of the generated text: the random word
    /// of the draw, and the number of tokens that are kept.
    pub fn words(&self, position: u64) -> [u32; Self::WORDS] {
        let top_k = self.top_k.map_or(u32::MAX, |k| u32::try_from(k).unwrap_or(u32::MAX));
        [self.word(position, Draw::Token), top_k]
    }

    /// Returns a row of [`Rows::bias`].
    ///
    /// # Errors
    /// When a token is not in the vocabulary.
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
    /// Returns [`Rows::past`] after these tokens of the output, i32 `[rows]`; -1 adds nothing.
    #[track_caller]
    #[must_use]
    pub fn after(past: Tensor, token: Tensor) -> Tensor {
        let token = token.unsqueeze(1);
        past.scatter_add(token.maximum(0), token.ge(0).select(2, 0).cast(DType::I32), 1)
    }
}

impl Choices {
    /// Returns the settings that these rows use, without log-probabilities.
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

    /// Traces the choice from `logits`, f32 `[rows, vocabulary]`, for settings that
    /// [`Sampling::validate`] accepts. A vocabulary has less than 2^30 tokens.
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

/// Returns the logits after biases and penalties.
#[track_caller]
fn adjusted(logits: Tensor, rows: Rows, repetition: Tensor, presence: Tensor, frequency: Tensor) -> Tensor {
    let logits = rows.bias.map_or(logits, |bias| logits + bias);
    let Some(past) = rows.past else { return logits };
    let repeated = logits.gt(0.0).select(logits / repetition, logits * repetition);
    let times = past.shift_right(1).cast(DType::F32);
    let lowered = times.gt(0.0).select(times * frequency + presence, 0.0);
    past.gt(0).select(repeated, logits) - lowered
}

/// Returns the id of each row, i32 `[rows, 1]`, up to which the weights sum to more than the part
/// `random / 2^32` of all of them. The weights are rounded to whole numbers that sum to about 2^31: these
/// add up to the same sum in any order, so the draw does not depend on how a device adds.
#[track_caller]
fn draw(weights: Tensor, ids: Tensor, random: Tensor) -> Tensor {
    const ALL: f64 = 2_147_483_648.0;
    let scale = full(DType::F32, [], ALL) / weights.sum_keep(1);
    let whole = (weights * scale + 0.5).cast(DType::U32);
    let target = high_product(random, whole.sum_keep(1));
    let [_, vocabulary] = ids.dims();
    greatest(search::bits(vocabulary), random, |id| ids.lt(id).select(whole, 0).sum_keep(1).le(target))
}

/// Returns the high 32 bits of products of u32, made of products of 16 bits.
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
