//! Rotary position embedding at any positions, scaled to longer contexts.

use gradloom_core::ir::DType;
use gradloom_core::trace::{Tensor, concat, literal};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Angles of a rotary position embedding: Su et al., "RoFormer" (2021), with halves for pairs.
///
/// At position `t`, the pair of elements `i` and `i + depth/2` is turned by `t · f(i)`, where
/// `f(i) = base^(-2i/depth)`, unless it is scaled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotary {
    /// Base of the frequencies; usually 10,000 (Llama, Llama 2) or 500,000 (Llama 3).
    pub base: f64,
    /// Change of frequencies that lets a model read longer texts than it was first trained on.
    #[serde(default, skip_serializing_if = "RotaryScaling::is_none")]
    pub scaling: RotaryScaling,
}

/// A change of frequencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RotaryScaling {
    /// No change.
    #[default]
    None,
    /// Positions are divided by the factor: Chen et al. (2023).
    Linear {
        /// The factor; 1 or more.
        factor: f64,
    },
    /// Llama 3.1's: long waves are stretched by the factor, short ones stay, between them it goes linearly in
    /// the number of turns within the original context.
    Llama3 {
        /// Factor by which long waves are stretched; 1 or more.
        factor: f64,
        /// Waves that turn less often than this within the original context are long.
        low_frequency_factor: f64,
        /// Waves that turn more often than this are short.
        high_frequency_factor: f64,
        /// Context that the model was first trained on, in positions.
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

/// Cosines and sines of the angles of each position, for all blocks of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    /// Radians from one position to the next, for each pair of a vector of this length.
    pub fn frequencies(&self, depth: usize) -> Vec<f64> {
        let unscaled = |i: usize| libm::pow(self.base, -((2 * i) as f64) / depth as f64);
        (0..depth / 2).map(|i| self.scaling.scaled(unscaled(i))).collect()
    }

    /// Returns the turns for positions i32 `[time]` or `[batch, time]`. The angles are products in f32, as
    /// in transformers.
    #[track_caller]
    pub(super) fn turns(&self, positions: Tensor, depth: usize) -> Turns {
        let frequencies: Vec<f32> = self.frequencies(depth).into_iter().map(|f| f as f32).collect();
        let frequencies = literal(&frequencies, [depth / 2]);
        let mut extents = positions.shape().to_vec();
        if extents.len() == 2 {
            // Heads stand between the batch and the positions.
            extents.insert(1, 1);
        }
        extents.push(1);
        let angles = positions.cast(DType::F32).reshape(extents) * frequencies;
        Turns { cos: angles.cos(), sin: angles.sin() }
    }
}

impl Turns {
    /// Queries or keys `[batch, heads, time, depth]`, turned.
    #[track_caller]
    pub(super) fn of(&self, x: Tensor) -> Tensor {
        let half = x.shape()[3] / 2;
        let (a, b) = (x.slice(-1, 0..half), x.slice(-1, half..));
        concat(-1, &[a * self.cos - b * self.sin, b * self.cos + a * self.sin])
    }
}
