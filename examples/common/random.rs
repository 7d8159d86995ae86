//! Random numbers for the examples' data, which depend only on the seed.

#![allow(dead_code, reason = "each sample uses a part of it")]

/// A random generator (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Draws a uniform number in `[0, 1)`.
    pub(crate) fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Draws an integer below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Draws a normal number with mean 0 and standard deviation 1.
    pub(crate) fn normal(&mut self) -> f32 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
    }

    /// Draws an index with the softmax probabilities of the logits.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> usize {
        let top = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let weights: Vec<f32> = logits.iter().map(|&logit| (logit - top).exp()).collect();
        let mut left = self.uniform() * weights.iter().sum::<f32>();
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        logits.len() - 1
    }
}
