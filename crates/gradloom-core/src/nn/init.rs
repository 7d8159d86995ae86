//! How initial values of parameters are made. The runtime makes them.

use std::sync::Arc;

/// How a parameter's initial values are made.
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
    /// Uniform within ±1/sqrt(fan_in), PyTorch's default for linear layers. The first extent is the fan-in.
    FanIn,
    /// These elements, row-major.
    Values(Arc<[f32]>),
    /// Normal with mean 0 and standard deviation `gain / sqrt(fan_in)`: PyTorch's `kaiming_normal_`. The
    /// first extent is the fan-in. He, Zhang, Ren, Sun, 2015.
    Kaiming {
        /// `sqrt(2)` before ReLU, `sqrt(2 / (1 + slope²))` before leaky ReLU, 1 before nothing.
        gain: f64,
    },
}
