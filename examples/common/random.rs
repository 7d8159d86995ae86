//! Random numbers for the samples' data: a stream that depends on its seed alone.

#![allow(dead_code, reason = "each sample uses a part of it")]

/// A stream of random numbers (splitmix64).
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

    /// Uniform in `[0, 1)`.
    pub(crate) fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// A whole number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Normal with mean 0 and deviation 1.
    pub(crate) fn normal(&mut self) -> f32 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
    }

    /// An index, each with the probability that the softmax of its logit gives.
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
