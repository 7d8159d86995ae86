//! Draws a token from logits.

use gradloom_core::philox::philox4x32;

/// Options for drawing the next token.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it: below 1 likely tokens become likelier. At 0 the likeliest token is taken.
    pub temperature: f64,
    /// Only this many of the likeliest tokens can be drawn.
    pub top_k: Option<usize>,
    /// Only the likeliest tokens that together reach this probability can be drawn: nucleus sampling,
    /// Holtzman et al. (2020).
    pub top_p: f64,
    /// Decides the draws.
    pub seed: u64,
}

impl Default for Sampling {
    /// Draws from the model's own distribution.
    fn default() -> Self {
        Self { temperature: 1.0, top_k: None, top_p: 1.0, seed: 0 }
    }
}

/// Settings or logits that no token can be drawn from.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// The temperature is negative or not a number.
    #[error("temperature {0} is not a number from 0 up")]
    Temperature(f64),
    /// `top_k` is 0, so no token would be left.
    #[error("top-k 0 leaves no token")]
    TopK,
    /// `top_p` is not a probability above 0.
    #[error("top-p {0} is not above 0 and at most 1")]
    TopP(f64),
    /// The model's output is broken.
    #[error("the model's logits are not numbers (token {token} has {value})")]
    NotFinite {
        /// The first token whose logit is NaN or positive infinity.
        token: usize,
        /// The logit.
        value: f32,
    },
    /// There are no logits to choose from.
    #[error("the model gives no logits")]
    Empty,
}

/// Sets the counters of generation apart from those of data and random tensors.
const DOMAIN: u32 = 0x7465_7874;

impl Sampling {
    /// Whether tokens can be drawn with these settings.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<(), SamplingError> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return Err(SamplingError::Temperature(self.temperature));
        }
        if self.top_k == Some(0) {
            return Err(SamplingError::TopK);
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(SamplingError::TopP(self.top_p));
        }
        Ok(())
    }

    /// Draws the token at a position of the generated text from the logits of all tokens.
    ///
    /// First the temperature, then top-k, then top-p apply. Of equal logits the lower id counts as the
    /// likelier.
    ///
    /// # Errors
    /// When the settings are out of range, or a logit is NaN or positive infinity (negative infinity excludes
    /// a token).
    pub fn choose(&self, logits: &[f32], position: u64) -> Result<usize, SamplingError> {
        self.validate()?;
        if let Some((token, &value)) =
            logits.iter().enumerate().find(|(_, v)| v.is_nan() || **v == f32::INFINITY)
        {
            return Err(SamplingError::NotFinite { token, value });
        }
        let mut order: Vec<usize> = (0..logits.len()).collect();
        let likelier = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
        let kept = self.top_k.unwrap_or(order.len()).min(order.len());
        if self.temperature == 0.0 {
            return order.into_iter().min_by(likelier).ok_or(SamplingError::Empty);
        }
        if kept < order.len() {
            order.select_nth_unstable_by(kept, likelier);
            order.truncate(kept);
        }
        order.sort_unstable_by(likelier);
        let &likeliest = order.first().ok_or(SamplingError::Empty)?;
        if logits[likeliest] == f32::NEG_INFINITY {
            return Err(SamplingError::NotFinite { token: likeliest, value: f32::NEG_INFINITY });
        }
        let weight = |token: usize| {
            libm::exp((f64::from(logits[token]) - f64::from(logits[likeliest])) / self.temperature)
        };
        let mut weights: Vec<f64> = order.iter().map(|&token| weight(token)).collect();
        let total: f64 = weights.iter().sum();
        let mut nucleus = 0.0;
        let cut = weights.iter().position(|w| {
            nucleus += w;
            nucleus >= self.top_p * total
        });
        weights.truncate(cut.map_or(weights.len(), |last| last + 1));
        let mut left = self.uniform(position) * weights.iter().sum::<f64>();
        let drawn = weights.iter().position(|w| {
            left -= w;
            left < 0.0
        });
        // Rounding may leave a sliver after the last weight.
        Ok(order[drawn.unwrap_or(weights.len() - 1)])
    }

    /// A number in 0..1 for each position, a multiple of 2^-53.
    fn uniform(&self, position: u64) -> f64 {
        let counter = [position as u32, (position >> 32) as u32, 0, DOMAIN];
        let [low, high, ..] = philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32]);
        let word = u64::from(high) << 32 | u64::from(low);
        (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sampling: &Sampling, logits: &[f32]) -> Vec<usize> {
        let mut counts = vec![0; logits.len()];
        (0..10_000).for_each(|position| counts[sampling.choose(logits, position).unwrap()] += 1);
        counts
    }

    fn near(count: usize, expected: f64) -> bool {
        // Five standard deviations of a binomial count.
        (count as f64 - expected).abs() < 5.0 * expected.max(1.0).sqrt()
    }

    #[test]
    fn greedy_takes_the_first_of_the_likeliest() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(greedy.choose(&[0.0, 3.0, 3.0, f32::NEG_INFINITY], 5), Ok(1));
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [1.0f32.ln(), 2.0f32.ln(), 7.0f32.ln(), f32::NEG_INFINITY];
        let counts_1 = counts(&Sampling::default(), &logits);
        assert!(near(counts_1[0], 1000.0) && near(counts_1[1], 2000.0) && near(counts_1[2], 7000.0));
        assert_eq!(counts_1[3], 0);
        // At temperature 1/2 the probabilities are squared: 1, 4, 49 of 54.
        let cold = counts(&Sampling { temperature: 0.5, ..Sampling::default() }, &logits);
        assert!(near(cold[0], 10_000.0 / 54.0) && near(cold[1], 40_000.0 / 54.0), "{cold:?}");
    }

    #[test]
    fn top_k_and_top_p_cut_the_unlikely() {
        let logits = [5.0f32.ln(), 1.0f32.ln(), 3.0f32.ln(), 1.0f32.ln()];
        let two = counts(&Sampling { top_k: Some(2), ..Sampling::default() }, &logits);
        assert!(near(two[0], 6250.0) && near(two[2], 3750.0) && two[1] + two[3] == 0, "{two:?}");
        // The first two reach 0.8; of the equal third and fourth, the lower id is kept at 0.85.
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
        let draw =
            |seed, position| Sampling { seed, ..Sampling::default() }.choose(&logits, position).unwrap();
        assert_eq!(draw(3, 4), draw(3, 4));
        assert_ne!(draw(3, 4), draw(3, 5));
        assert_ne!(draw(3, 4), draw(4, 4));
    }

    #[test]
    fn what_cannot_be_drawn_from_is_refused() {
        let sampling = Sampling::default();
        assert_eq!(sampling.choose(&[], 0), Err(SamplingError::Empty));
        let broken = sampling.choose(&[0.0, f32::NAN], 0).unwrap_err();
        assert_eq!(broken.to_string(), "the model's logits are not numbers (token 1 has NaN)");
        assert!(sampling.choose(&[f32::NEG_INFINITY; 2], 0).is_err());
        for temperature in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Sampling { temperature, ..Sampling::default() }.validate().is_err());
        }
        for top_p in [0.0, 1.1, f64::NAN] {
            assert_eq!(
                Sampling { top_p, ..Sampling::default() }.validate().unwrap_err().to_string(),
                format!("top-p {top_p} is not above 0 and at most 1")
            );
        }
        assert_eq!(Sampling { top_k: Some(0), ..sampling }.validate(), Err(SamplingError::TopK));
    }
}
