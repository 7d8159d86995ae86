//! Initial values of parameters, which the runtime generates.

use crate::ir::Shape;
use std::sync::Arc;

/// A rule for a parameter's initial values.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// All elements 0.
    Zeros,
    /// All elements 1.
    Ones,
    /// All elements equal to this number.
    Constant(f64),
    /// Normally distributed with mean 0.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Uniformly distributed in `low..=high`.
    Uniform {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// Uniformly distributed within ±1/sqrt(fan_in), PyTorch's default for linear layers.
    FanIn,
    /// These elements, in row-major order.
    Values(Arc<[f32]>),
    /// Normally distributed with mean 0 and standard deviation `gain / sqrt(fan_in)`: PyTorch's
    /// `kaiming_normal_`. He, Zhang, Ren, Sun, 2015.
    Kaiming {
        /// Factor for the next activation function: `sqrt(2)` for ReLU, `sqrt(2 / (1 + slope²))` for leaky
        /// ReLU, 1 for none.
        gain: f64,
    },
    /// Uniformly distributed within ±`gain · sqrt(3 / fan_in)`: PyTorch's `kaiming_uniform_`.
    KaimingUniform {
        /// Gain, as in [`Init::Kaiming`].
        gain: f64,
    },
    /// Normally distributed with mean 0 and standard deviation `gain · sqrt(2 / (fan_in + fan_out))`:
    /// PyTorch's `xavier_normal_`. Glorot and Bengio, 2010.
    Xavier {
        /// Factor for the next activation function: 5/3 for tanh, 1 for a sigmoid or none.
        gain: f64,
    },
    /// Uniformly distributed within ±`gain · sqrt(6 / (fan_in + fan_out))`: PyTorch's `xavier_uniform_`.
    XavierUniform {
        /// Gain, as in [`Init::Xavier`].
        gain: f64,
    },
    /// Normally distributed with mean 0, truncated at two standard deviations: PyTorch's `trunc_normal_` with
    /// bounds of ±2 `std`.
    TruncatedNormal {
        /// Standard deviation before the truncation.
        std: f64,
    },
    /// A matrix with orthonormal rows or columns, whichever are fewer, times `gain`. The first extent is the
    /// number of rows; the product of the others is the number of columns. Corresponds to PyTorch's
    /// `orthogonal_`. Saxe, McClelland, Ganguli, 2014.
    Orthogonal {
        /// Factor on the matrix.
        gain: f64,
    },
}

/// Returns the fan-in and fan-out of a parameter. For a matrix `[in, out]`, these are its extents. For the
/// weights of a convolution `[outputs, channels, K..]`, these are `channels` and `outputs`, each times the
/// number of elements in `K..`. For a vector, both are its extent, and for a scalar, 1. The minimum is 1.
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
