//! Initial values of parameters. The runtime makes them.

use crate::ir::Shape;
use std::sync::Arc;

/// Rule by which a parameter's initial values are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// All the same.
    Constant(f64),
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Uniform in `low..=high`.
    Uniform {
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
    },
    /// Uniform within ±1/sqrt(fan_in), PyTorch's default for linear layers.
    FanIn,
    /// These elements, row-major.
    Values(Arc<[f32]>),
    /// Normal with mean 0 and standard deviation `gain / sqrt(fan_in)`: PyTorch's `kaiming_normal_`. He,
    /// Zhang, Ren, Sun, 2015.
    Kaiming {
        /// `sqrt(2)` before ReLU, `sqrt(2 / (1 + slope²))` before leaky ReLU, 1 before nothing.
        gain: f64,
    },
    /// Uniform within ±`gain · sqrt(3 / fan_in)`: PyTorch's `kaiming_uniform_`.
    KaimingUniform {
        /// Gain, as of [`Init::Kaiming`].
        gain: f64,
    },
    /// Normal with mean 0 and standard deviation `gain · sqrt(2 / (fan_in + fan_out))`: PyTorch's
    /// `xavier_normal_`. Glorot and Bengio, 2010.
    Xavier {
        /// 1 before nothing or a sigmoid, 5/3 before tanh.
        gain: f64,
    },
    /// Uniform within ±`gain · sqrt(6 / (fan_in + fan_out))`: PyTorch's `xavier_uniform_`.
    XavierUniform {
        /// Gain, as of [`Init::Xavier`].
        gain: f64,
    },
    /// Normal with mean 0, without what lies beyond two standard deviations: PyTorch's `trunc_normal_` with
    /// bounds of ±2 `std`.
    TruncatedNormal {
        /// Standard deviation before the ends are cut off.
        std: f64,
    },
    /// A matrix with orthonormal rows or columns, whichever are fewer, times `gain`; the first extent counts
    /// the rows, the others together the columns. PyTorch's `orthogonal_`. Saxe, McClelland, Ganguli, 2014.
    Orthogonal {
        /// Factor on the matrix.
        gain: f64,
    },
}

/// Returns the fan-in and fan-out of a parameter: of a matrix `[in, out]` its extents, of weights of a
/// convolution `[outputs, channels, K..]` channels and outputs times the places of K; of a vector its
/// extent.
pub fn fans(shape: &Shape) -> [f64; 2] {
    let fans = match shape[..] {
        [] => [1, 1],
        [n] => [n, n],
        [inputs, outputs] => [inputs, outputs],
        [outputs, channels, ref places @ ..] => {
            let places = places.iter().fold(1usize, |product, &n| product.saturating_mul(n));
            [channels.saturating_mul(places), outputs.saturating_mul(places)]
        }
    };
    fans.map(|fan| fan.max(1) as f64)
}
