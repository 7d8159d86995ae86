//! Sampling of a token from logits on the host, in f64. This is the reference for devices.
//!
//! In: logits, [`Sampling`] and the tokens of the text so far. Out: the distribution to draw from, and the
//! drawn token. Invariant: equal arguments yield the same token; excluded tokens have a probability of
//! exactly 0.

use super::{Past, Sampling, SamplingError};
use gradloom_core::philox::philox4x32;

/// Last word of the Philox counters, which keeps them apart from those of data and of random tensors.
const DOMAIN: u32 = 0x7465_7874;

/// Purpose of a random number. Numbers for different purposes are independent even at the same position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Draw {
    /// Draw of a token from a model's distribution.
    Token = 0,
    /// Acceptance of a drafted token.
    Accept = 1,
    /// Draw of a token that replaces a rejected one or follows the accepted ones.
    Correction = 2,
}

impl Sampling {
    /// Draws the token at `position` of the generated text from the logits of all tokens.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Sampling::probabilities`].
    pub fn choose(&self, logits: &[f32], past: &Past, position: u64) -> Result<usize, SamplingError> {
        let probabilities = self.probabilities(logits, past)?;
        Ok(draw(&probabilities, self.uniform(position, Draw::Token)))
    }

    /// Returns the probability of each token, given all logits. At temperature 0, the most likely token has
    /// probability 1.
    ///
    /// # Errors
    /// Returns an error if a setting is out of range, a bias is for a token outside the vocabulary, a logit
    /// is NaN or positive infinity (negative infinity excludes a token), or no token remains.
    pub fn probabilities(&self, logits: &[f32], past: &Past) -> Result<Vec<f64>, SamplingError> {
        self.validate()?;
        let values = self.adjusted(logits, past)?;
        let likelier = |&a: &usize, &b: &usize| {
            values[b].partial_cmp(&values[a]).expect("adjusted logits are not NaN").then(a.cmp(&b))
        };
        let likeliest = (0..values.len()).min_by(likelier).ok_or(SamplingError::Empty)?;
        let most = values[likeliest];
        if most == f64::NEG_INFINITY {
            return Err(SamplingError::Excluded);
        }
        let mut weights = vec![0.0; values.len()];
        if self.temperature == 0.0 {
            weights[likeliest] = 1.0;
            return Ok(weights);
        }
        let mut order: Vec<usize> = (0..values.len()).collect();
        if let Some(kept) = self.top_k.filter(|&k| k < order.len()) {
            order.select_nth_unstable_by(kept, likelier);
            order.truncate(kept);
        }
        for &id in &order {
            weights[id] = libm::exp((values[id] - most) / self.temperature);
        }
        if self.top_p < 1.0 {
            order.sort_unstable_by(likelier);
            let enough = self.top_p * order.iter().map(|&id| weights[id]).sum::<f64>();
            let mut nucleus = 0.0;
            for &id in &order {
                let has_enough = nucleus >= enough;
                nucleus += weights[id];
                if has_enough {
                    weights[id] = 0.0;
                }
            }
        }
        weights.iter_mut().filter(|weight| **weight < self.min_p).for_each(|weight| *weight = 0.0);
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        Ok(weights)
    }

    /// Returns the logits with biases and penalties applied.
    fn adjusted(&self, logits: &[f32], past: &Past) -> Result<Vec<f64>, SamplingError> {
        let broken = |value: f32| value.is_nan() || value == f32::INFINITY;
        if let Some((token, &value)) = logits.iter().enumerate().find(|(_, value)| broken(**value)) {
            return Err(SamplingError::NotFinite { token, value });
        }
        let mut values: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
        let vocabulary = values.len();
        let place = |token: i32| usize::try_from(token).ok().filter(|&id| id < vocabulary);
        for (&token, bias) in &self.bias {
            let id = place(token).ok_or(SamplingError::BiasToken { token, vocabulary })?;
            values[id] += bias;
        }
        if self.has_penalties() {
            for (token, times) in past.tokens() {
                // Skip tokens outside the vocabulary, which the model rejects.
                let Some(id) = place(token) else { continue };
                let value = &mut values[id];
                *value = if *value > 0.0 { *value / self.repetition } else { *value * self.repetition };
                if times > 0 {
                    *value -= self.frequency * f64::from(times) + self.presence;
                }
            }
        }
        Ok(values)
    }

    /// Returns the random number for a position and purpose: a multiple of 2^-32 in 0..1.
    pub fn uniform(&self, position: u64, draw: Draw) -> f64 {
        f64::from(self.word(position, draw)) / 4_294_967_296.0
    }

    /// Returns the random word from which [`Sampling::uniform`] is computed.
    pub(super) fn word(&self, position: u64, draw: Draw) -> u32 {
        let counter = [position as u32, (position >> 32) as u32, draw as u32, DOMAIN];
        philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32])[1]
    }
}

/// Returns the inverse of the cumulative distribution at `uniform`, which is in 0..1: the lowest id at which
/// the cumulative weight exceeds this fraction of the total. Weights must be nonnegative and not all zero.
pub fn draw(weights: &[f64], uniform: f64) -> usize {
    let target = uniform * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let found = weights.iter().position(|weight| {
        sum += weight;
        sum > target
    });
    // If rounding makes the target equal to the total, take the last token with a positive weight.
    found.or_else(|| weights.iter().rposition(|&weight| weight > 0.0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sampling: &Sampling, logits: &[f32]) -> Vec<usize> {
        let mut counts = vec![0; logits.len()];
        let past = Past::default();
        (0..10_000).for_each(|position| counts[sampling.choose(logits, &past, position).unwrap()] += 1);
        counts
    }

    fn near(count: usize, expected: f64) -> bool {
        // Allow at least five standard deviations of a binomial distribution.
        (count as f64 - expected).abs() < 5.0 * expected.max(1.0).sqrt()
    }

    #[test]
    fn greedy_takes_the_first_of_the_likeliest() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(greedy.choose(&[0.0, 3.0, 3.0, f32::NEG_INFINITY], &Past::default(), 5), Ok(1));
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [1.0f32.ln(), 2.0f32.ln(), 7.0f32.ln(), f32::NEG_INFINITY];
        let counts_1 = counts(&Sampling::default(), &logits);
        assert!(near(counts_1[0], 1000.0) && near(counts_1[1], 2000.0) && near(counts_1[2], 7000.0));
        assert_eq!(counts_1[3], 0);
        // At temperature 1/2 the probabilities are squared: 1, 4 and 49 of 54.
        let cold = counts(&Sampling { temperature: 0.5, ..Sampling::default() }, &logits);
        assert!(near(cold[0], 10_000.0 / 54.0) && near(cold[1], 40_000.0 / 54.0), "{cold:?}");
    }

    #[test]
    fn top_k_and_top_p_cut_the_unlikely() {
        let logits = [5.0f32.ln(), 1.0f32.ln(), 3.0f32.ln(), 1.0f32.ln()];
        let two = counts(&Sampling { top_k: Some(2), ..Sampling::default() }, &logits);
        assert!(near(two[0], 6250.0) && near(two[2], 3750.0) && two[1] + two[3] == 0, "{two:?}");
        // The two most likely tokens have a total probability of 0.8. At 0.85, the lower id of the equal
        // third and fourth token is kept too.
        let nucleus = counts(&Sampling { top_p: 0.8 - 1e-9, ..Sampling::default() }, &logits);
        assert!(nucleus[1] + nucleus[3] == 0 && nucleus[2] > 0, "{nucleus:?}");
        let nucleus = counts(&Sampling { top_p: 0.85, ..Sampling::default() }, &logits);
        assert!(nucleus[1] > 0 && nucleus[3] == 0, "{nucleus:?}");
        let one = counts(&Sampling { top_p: 1e-12, ..Sampling::default() }, &logits);
        assert_eq!(one[0], 10_000);
        let all = counts(&Sampling { top_k: Some(99), ..Sampling::default() }, &logits);
        assert!(all.iter().all(|&n| n > 0));
    }

    #[test]
    fn seed_and_position_decide() {
        let logits = [0.0; 1000];
        let draw = |seed, position| {
            Sampling { seed, ..Sampling::default() }.choose(&logits, &Past::default(), position).unwrap()
        };
        assert_eq!(draw(3, 4), draw(3, 4));
        assert_ne!(draw(3, 4), draw(3, 5));
        assert_ne!(draw(3, 4), draw(4, 4));
    }

    #[test]
    fn what_cannot_be_drawn_from_is_refused() {
        let past = Past::default();
        for temperature in [0.0, 1.0] {
            let sampling = Sampling { temperature, ..Sampling::default() };
            assert_eq!(sampling.choose(&[], &past, 0), Err(SamplingError::Empty));
            let broken = sampling.choose(&[0.0, f32::NAN], &past, 0).unwrap_err();
            assert_eq!(broken.to_string(), "the model's logits are not numbers (token 1 has NaN)");
            let infinite = sampling.choose(&[0.0, f32::INFINITY], &past, 0);
            assert_eq!(infinite, Err(SamplingError::NotFinite { token: 1, value: f32::INFINITY }));
            assert_eq!(sampling.choose(&[f32::NEG_INFINITY; 2], &past, 0), Err(SamplingError::Excluded));
            let bans = Sampling { bias: [(0, f64::NEG_INFINITY)].into(), ..sampling.clone() };
            assert_eq!(bans.choose(&[5.0], &past, 0), Err(SamplingError::Excluded));
            for token in [-1, 2] {
                let bias = Sampling { bias: [(token, 1.0)].into(), ..sampling.clone() };
                let error = bias.choose(&[1.0, 2.0], &past, 0).unwrap_err();
                assert_eq!(error, SamplingError::BiasToken { token, vocabulary: 2 });
            }
        }
        let wrong = Sampling { top_k: Some(0), ..Sampling::default() };
        assert_eq!(wrong.choose(&[1.0], &past, 0), Err(SamplingError::TopK));
    }

    fn near_all(got: &[f64], want: &[f64]) {
        let near = got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6);
        assert!(near && got.len() == want.len(), "{got:?}, not {want:?}");
    }

    #[test]
    fn min_p_is_relative_to_the_likeliest_of_what_is_left() {
        let logits = [8.0f32.ln(), 4.0f32.ln(), 1.0f32.ln(), 3.0f32.ln()];
        let with = |min_p| Sampling { min_p, ..Sampling::default() }.probabilities(&logits, &Past::default());
        near_all(&with(0.0).unwrap(), &[0.5, 0.25, 0.0625, 0.1875]);
        near_all(&with(0.4).unwrap(), &[2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]);
        near_all(&with(0.3).unwrap(), &[8.0 / 15.0, 4.0 / 15.0, 0.0, 0.2]);
        near_all(&with(1.0).unwrap(), &[1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn top_p_is_of_what_top_k_left() {
        let logits = [8.0f32.ln(), 4.0f32.ln(), 1.0f32.ln(), 3.0f32.ln()];
        // Without top-k, the two most likely tokens have a probability of 12/16 < 0.79, so three are kept.
        // After top-k 3, they have 12/15 > 0.79, so they suffice.
        let with = |top_k, top_p| {
            Sampling { top_k, top_p, ..Sampling::default() }.probabilities(&logits, &Past::default()).unwrap()
        };
        near_all(&with(None, 0.79), &[8.0 / 15.0, 4.0 / 15.0, 0.0, 0.2]);
        near_all(&with(Some(3), 0.79), &[2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]);
    }

    #[test]
    fn penalties_and_biases_come_before_the_temperature() {
        let mut past = Past::new(&[0, 1]);
        past.push(1);
        past.push(1);
        past.push(2);
        let sampling = Sampling {
            temperature: 2.0,
            repetition: 2.0,
            presence: 0.5,
            frequency: 0.25,
            bias: [(1, -3.0), (3, 1.0), (4, f64::NEG_INFINITY)].into(),
            ..Sampling::default()
        };
        // The adjusted logits of tokens 0 to 3 are 4 / 2, (2 - 3) * 2 - 2 * 0.25 - 0.5, 1 / 2 - 0.25 - 0.5
        // and 0 + 1. Token 4 is excluded.
        let adjusted = [2.0f64, -3.0, -0.25, 1.0];
        let total: f64 = adjusted.iter().map(|x| (x / 2.0).exp()).sum();
        let mut want: Vec<f64> = adjusted.iter().map(|x| (x / 2.0).exp() / total).collect();
        want.push(0.0);
        near_all(&sampling.probabilities(&[4.0, 2.0, 1.0, 0.0, 9.0], &past).unwrap(), &want);
        // Biases and penalties also apply at temperature 0.
        let greedy = Sampling { temperature: 0.0, ..sampling };
        assert_eq!(greedy.choose(&[1.0, 2.0, 1.0, 0.5, 9.0], &past, 0), Ok(3));
    }

    /// Order and formulas match transformers 5.24, as recorded by `scripts/oracle/generation.py`.
    #[test]
    fn distributions_are_those_of_transformers() {
        #[derive(serde::Deserialize)]
        struct Case {
            logits: Vec<f32>,
            prompt: Vec<i32>,
            output: Vec<i32>,
            temperature: f64,
            top_k: Option<usize>,
            top_p: f64,
            min_p: f64,
            repetition: f64,
            bias: Vec<(i32, Option<f64>)>,
            probabilities: Vec<f64>,
        }
        #[derive(serde::Deserialize)]
        struct Oracle {
            sampling: Vec<Case>,
        }
        let text = include_str!("../../../../tests/data/generation.json");
        let cases = serde_json::from_str::<Oracle>(text).unwrap().sampling;
        assert_eq!(cases.len(), 40);
        for case in cases {
            let sampling = Sampling {
                temperature: case.temperature,
                top_k: case.top_k,
                top_p: case.top_p,
                min_p: case.min_p,
                repetition: case.repetition,
                bias: case.bias.into_iter().map(|(id, x)| (id, x.unwrap_or(f64::NEG_INFINITY))).collect(),
                ..Sampling::default()
            };
            let mut past = Past::new(&case.prompt);
            case.output.iter().for_each(|&token| past.push(token));
            near_all(&sampling.probabilities(&case.logits, &past).unwrap(), &case.probabilities);
        }
    }

    #[test]
    fn draws_invert_the_distribution_function() {
        let weights = [0.0, 1.0, 0.0, 2.0, 1.0, 0.0];
        for (uniform, id) in [(0.0, 1), (0.2499, 1), (0.25, 3), (0.7499, 3), (0.75, 4), (1.0, 4)] {
            assert_eq!(draw(&weights, uniform), id, "{uniform}");
        }
    }

    /// Each purpose has its own 32-bit random numbers in 0..1.
    #[test]
    fn uniform_numbers_are_apart() {
        let sampling = Sampling { seed: 1 << 40, ..Sampling::default() };
        let all: Vec<u64> = [Draw::Token, Draw::Accept, Draw::Correction]
            .into_iter()
            .flat_map(|draw| [0, 1, 1 << 33].map(|at| (sampling.uniform(at, draw) * 2f64.powi(32)) as u64))
            .collect();
        let distinct: std::collections::HashSet<u64> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
        let mean: f64 = (0..4096).map(|at| sampling.uniform(at, Draw::Token)).sum::<f64>() / 4096.0;
        assert!((mean - 0.5).abs() < 5.0 / (12.0f64 * 4096.0).sqrt(), "{mean}");
    }
}
