//! Sampling settings of a request, and the errors in them.
//!
//! In: numbers from a user. Out: [`Sampling`] that [`Sampling::validate`] accepts, or the first error.
//! Invariant: accepted settings are finite, except that a bias of `-inf` excludes a token.

use std::collections::BTreeMap;

/// Sampling settings. They apply in this order, which is that of vLLM and of transformers (where min-p is
/// last):
///
/// 1. `bias` is added to the logits;
/// 2. `repetition`, then `presence` and `frequency`, lower the logits of tokens that occur in the text;
/// 3. `temperature` divides the logits;
/// 4. `top_k`, then `top_p` of the remaining tokens, then `min_p` exclude unlikely tokens.
///
/// Of equal logits, the lower id counts as more likely. The draw is the inverse of the cumulative
/// distribution over the remaining tokens, in order of their ids, at [`Sampling::uniform`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divisor of the logits. Values below 1 make likely tokens more likely; 0 always chooses the most likely
    /// token.
    pub temperature: f64,
    /// Number of most likely tokens to draw from, or `None` for all.
    pub top_k: Option<usize>,
    /// Nucleus sampling (Holtzman et al., 2020): the minimum total probability of the most likely tokens to
    /// draw from. 1 keeps all tokens.
    pub top_p: f64,
    /// Minimum probability of a token relative to the most likely one: Nguyen et al., "Turning Up the Heat:
    /// Min-p Sampling" (2024). 0 keeps all tokens.
    pub min_p: f64,
    /// Divisor of the positive logits, and factor of the others, for tokens that occur in the prompt or
    /// output: Keskar et al., "CTRL" (2019). 1 has no effect; values above 1 discourage repetition.
    pub repetition: f64,
    /// Penalty subtracted from the logit of each token that occurs in the output.
    pub presence: f64,
    /// Penalty subtracted from the logit of each token for each of its occurrences in the output.
    pub frequency: f64,
    /// Values added to the logits, by token id. `-inf` excludes a token.
    pub bias: BTreeMap<i32, f64>,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for Sampling {
    /// Returns settings that sample from the model's own distribution.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            repetition: 1.0,
            presence: 0.0,
            frequency: 0.0,
            bias: BTreeMap::new(),
            seed: 0,
        }
    }
}

/// An error in the settings or logits that makes sampling impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// The temperature is negative or not finite.
    #[error("temperature {0} is not a number from 0 up")]
    Temperature(f64),
    /// `top_k` is 0, which excludes all tokens.
    #[error("top-k 0 leaves no token")]
    TopK,
    /// `top_p` is not a probability above 0.
    #[error("top-p {0} is not above 0 and at most 1")]
    TopP(f64),
    /// `min_p` is not a probability.
    #[error("min-p {0} is not from 0 to 1")]
    MinP(f64),
    /// The repetition penalty is not positive and finite.
    #[error("repetition penalty {0} is not a number above 0")]
    Repetition(f64),
    /// The presence penalty is not finite.
    #[error("presence penalty {0} is not a finite number")]
    Presence(f64),
    /// The frequency penalty is not finite.
    #[error("frequency penalty {0} is not a finite number")]
    Frequency(f64),
    /// A bias is NaN or positive infinity.
    #[error("the bias {value} of token {token} is neither finite nor -inf")]
    Bias {
        /// Id of the token.
        token: i32,
        /// Value of the bias.
        value: f64,
    },
    /// A bias is for a token outside the vocabulary.
    #[error("a bias for token {token}, and the model has {vocabulary} tokens")]
    BiasToken {
        /// Id of the token.
        token: i32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// The model produced a logit that is NaN or positive infinity.
    #[error("the model's logits are not numbers (token {token} has {value})")]
    NotFinite {
        /// Id of the first such token.
        token: usize,
        /// Value of the logit.
        value: f32,
    },
    /// Every logit is `-inf`, from the model or because of its bias.
    #[error("every token is excluded: all logits are -inf, by themselves or by their bias")]
    Excluded,
    /// The model produced no logits.
    #[error("the model gives no logits")]
    Empty,
}

impl SamplingError {
    /// Returns a suggestion for fixing the error.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Temperature(_) => "0 takes the likeliest token, 1 follows the model, above 1 gets wilder",
            Self::TopK => "leave it out to allow every token",
            Self::TopP(_) => "1 allows every token",
            Self::MinP(_) => "0 allows every token",
            Self::Repetition(_) => "1 changes nothing, above 1 avoids repetition",
            Self::Presence(_) | Self::Frequency(_) => "0 changes nothing, above 0 avoids repetition",
            Self::Bias { .. } => "give a finite number, or -inf to exclude the token",
            Self::BiasToken { .. } => "give ids of the model's own tokenizer, from 0",
            Self::Excluded => "leave at least one token without a bias of -inf",
            Self::NotFinite { .. } | Self::Empty => "the weights are damaged or diverged: use another run",
        }
    }
}

impl Sampling {
    /// Checks that tokens can be drawn with these settings.
    ///
    /// # Errors
    /// Returns an error for the first setting that is out of range. Temperatures, penalties and biases must
    /// also be valid as f32, with which devices compute.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let finite = |value: f64| (value as f32).is_finite();
        let check = |holds: bool, error: SamplingError| if holds { Ok(()) } else { Err(error) };
        check(
            self.temperature >= 0.0 && finite(self.temperature),
            SamplingError::Temperature(self.temperature),
        )?;
        check(self.top_k != Some(0), SamplingError::TopK)?;
        check(self.top_p > 0.0 && self.top_p <= 1.0, SamplingError::TopP(self.top_p))?;
        check((0.0..=1.0).contains(&self.min_p), SamplingError::MinP(self.min_p))?;
        let penalty = self.repetition as f32;
        check(penalty > 0.0 && penalty.is_finite(), SamplingError::Repetition(self.repetition))?;
        check(finite(self.presence), SamplingError::Presence(self.presence))?;
        check(finite(self.frequency), SamplingError::Frequency(self.frequency))?;
        for (&token, &value) in &self.bias {
            check(finite(value) || value == f64::NEG_INFINITY, SamplingError::Bias { token, value })?;
        }
        Ok(())
    }

    /// Returns `true` if a penalty is set, so that the distribution depends on the text so far.
    pub fn has_penalties(&self) -> bool {
        self.repetition != 1.0 || self.presence != 0.0 || self.frequency != 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_named_with_a_remedy() {
        let with = |change: &dyn Fn(&mut Sampling)| {
            let mut sampling = Sampling::default();
            change(&mut sampling);
            sampling.validate()
        };
        type Change = fn(&mut Sampling, f64);
        let cases: [(&str, &[f64], &[f64], Change); 7] = [
            ("temperature", &[-1.0, f64::NAN, f64::INFINITY, 1e39], &[0.0, 1e30], |s, v| s.temperature = v),
            ("top-p", &[0.0, 1.1, f64::NAN], &[1e-300, 1.0], |s, v| s.top_p = v),
            ("min-p", &[-0.1, 1.1, f64::NAN], &[0.0, 1.0], |s, v| s.min_p = v),
            ("repetition penalty", &[0.0, -1.0, f64::NAN, 1e-60, f64::INFINITY], &[0.5], |s, v| {
                s.repetition = v
            }),
            ("presence penalty", &[f64::NAN, f64::NEG_INFINITY, 1e39], &[-2.0], |s, v| s.presence = v),
            ("frequency penalty", &[f64::NAN, f64::INFINITY], &[2.0], |s, v| s.frequency = v),
            ("the bias", &[f64::NAN, f64::INFINITY, 1e39], &[f64::NEG_INFINITY, -5.0], |s, v| {
                s.bias.insert(7, v);
            }),
        ];
        for (name, bad, good, change) in cases {
            for &value in bad {
                let error = with(&|s| change(s, value)).unwrap_err();
                assert!(error.to_string().starts_with(&format!("{name} {value}")), "{error}");
                assert!(!error.remedy().is_empty());
            }
            for &value in good {
                assert_eq!(with(&|s| change(s, value)), Ok(()), "{name} {value}");
            }
        }
        assert_eq!(with(&|s| s.top_k = Some(0)), Err(SamplingError::TopK));
    }
}
