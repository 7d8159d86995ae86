//! Rotary position embedding at arbitrary positions, with scaling for longer contexts.

use gradloom_core::ir::DType;
use gradloom_core::trace::{Tensor, concat, literal};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Settings of a rotary position embedding: Su et al., "RoFormer" (2021), with elements paired across halves.
///
/// At position `t`, the pair of elements `i` and `i + depth/2` is rotated by the angle `t · f(i)`. Without
/// scaling, `f(i) = base^(-2i/depth)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotary {
    /// Base of the frequencies; usually 10,000 (Llama, Llama 2) or 500,000 (Llama 3).
    pub base: f64,
    /// Scaling of the frequencies, which extends the context beyond the one that the model was first trained
    /// with.
    #[serde(default, skip_serializing_if = "RotaryScaling::is_none")]
    pub scaling: RotaryScaling,
}

/// Scaling of the frequencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RotaryScaling {
    /// No scaling.
    #[default]
    None,
    /// Linear scaling: positions are divided by the factor (Chen et al., 2023).
    Linear {
        /// Factor, at least 1.
        factor: f64,
    },
    /// Scaling of Llama 3.1: long wavelengths are stretched by the factor and short ones are unchanged.
    /// Between them, the scaling is interpolated linearly in the number of rotations within the original
    /// context.
    Llama3 {
        /// Factor by which long wavelengths are stretched, at least 1.
        factor: f64,
        /// Number of rotations within the original context below which a wavelength is long.
        low_frequency_factor: f64,
        /// Number of rotations within the original context above which a wavelength is short.
        high_frequency_factor: f64,
        /// Context length that the model was first trained with.
        original_context: usize,
    },
}

impl RotaryScaling {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    fn scaled(&self, frequency: f64) -> f64 {
        match *self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor,
            Self::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => {
                let turns = frequency * original_context as f64 / TAU;
                let share = (turns - low_frequency_factor) / (high_frequency_factor - low_frequency_factor);
                let share = share.clamp(0.0, 1.0);
                frequency * (share + (1.0 - share) / factor)
            }
        }
    }
}

/// Cosines and sines of the angles at each position, shared by all layers of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    /// Returns the rotation in radians from one position to the next for each pair of a vector of length
    /// `depth`.
    pub fn frequencies(&self, depth: usize) -> Vec<f64> {
        let unscaled = |i: usize| libm::pow(self.base, -((2 * i) as f64) / depth as f64);
        (0..depth / 2).map(|i| self.scaling.scaled(unscaled(i))).collect()
    }

    /// Returns the rotations at i32 positions `[time]` or `[batch, time]`. As in transformers, the angles are
    /// products in f32.
    #[track_caller]
    pub(super) fn turns(&self, positions: Tensor, depth: usize) -> Turns {
        let frequencies: Vec<f32> = self.frequencies(depth).into_iter().map(|f| f as f32).collect();
        let frequencies = literal(&frequencies, [depth / 2]);
        let mut extents = positions.shape().to_vec();
        if extents.len() == 2 {
            // Insert an axis for the heads between batch and time.
            extents.insert(1, 1);
        }
        extents.push(1);
        let angles = positions.cast(DType::F32).reshape(extents) * frequencies;
        Turns { cos: angles.cos(), sin: angles.sin() }
    }
}

impl Turns {
    /// Rotates queries or keys `[batch, heads, time, depth]`.
    #[track_caller]
    pub(super) fn of(&self, x: Tensor) -> Tensor {
        let half = x.shape()[3] / 2;
        let (a, b) = (x.slice(-1, 0..half), x.slice(-1, half..));
        concat(-1, &[a * self.cos - b * self.sin, b * self.cos + a * self.sin])
    }
}
