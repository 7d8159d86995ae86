//! Initial values of parameters, made on the host with one portable math library, so that every platform has the same bits.

use crate::ir::Shape;
use crate::philox::philox4x32;
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
    /// Uniform in `low..high`.
    Uniform {
        /// Least value.
        low: f64,
        /// Bound.
        high: f64,
    },
    /// Uniform within ±1/sqrt(fan_in), PyTorch's default for linear layers. The first extent is the fan-in.
    FanIn,
    /// These elements, row-major.
    Values(Arc<[f32]>),
}

impl Init {
    /// The elements, keyed by `seed` and the number of the parameter in its model.
    ///
    /// # Errors
    /// When given values are too many or too few.
    pub fn elements(&self, shape: &Shape, seed: u64, parameter: u32) -> Result<Vec<f32>, String> {
        let n = shape.elements();
        let key = [seed as u32, (seed >> 32) as u32];
        let uniform = |low: f64, high: f64| {
            words(n, key, parameter, |w| w.map(|word| (low + (high - low) * unit(word)) as f32))
        };
        Ok(match self {
            Init::Zeros => vec![0.0; n],
            Init::Ones => vec![1.0; n],
            Init::Constant(value) => vec![*value as f32; n],
            Init::Normal { std } => words(n, key, parameter, |w| {
                let (a, b) = box_muller(w[0], w[1]);
                let (c, d) = box_muller(w[2], w[3]);
                [a, b, c, d].map(|z| (z * std) as f32)
            }),
            Init::Uniform { low, high } => uniform(*low, *high),
            Init::FanIn => {
                let fan_in = shape.first().copied().unwrap_or(1).max(1);
                let bound = 1.0 / libm::sqrt(fan_in as f64);
                uniform(-bound, bound)
            }
            Init::Values(values) if values.len() == n => values.to_vec(),
            Init::Values(values) => {
                return Err(format!("{} initial values for the shape {shape} ({n} elements)", values.len()));
            }
        })
    }
}

/// Site of initial values, apart from the sites that tracing counts up from 0.
const INIT_SITE: u32 = u32::MAX;

fn words(n: usize, key: [u32; 2], parameter: u32, f: impl Fn([u32; 4]) -> [f32; 4]) -> Vec<f32> {
    let block = |i: usize| f(philox4x32([i as u32, (i as u64 >> 32) as u32, parameter, INIT_SITE], key));
    let mut values: Vec<f32> = (0..n.div_ceil(4)).flat_map(block).collect();
    values.truncate(n);
    values
}

/// A number in (0, 1): the middle of one of 2^32 equal parts.
fn unit(word: u32) -> f64 {
    (f64::from(word) + 0.5) / 4_294_967_296.0
}

/// Two independent standard normal numbers. Box and Muller, 1958.
fn box_muller(a: u32, b: u32) -> (f64, f64) {
    let radius = libm::sqrt(-2.0 * libm::log(unit(a)));
    let angle = std::f64::consts::TAU * unit(b);
    (radius * libm::cos(angle), radius * libm::sin(angle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_has_its_moments_and_repeats() {
        let shape = Shape::from([100, 1001]);
        let values = Init::Normal { std: 0.02 }.elements(&shape, 7, 3).unwrap();
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 4.0 * 0.02 / n.sqrt(), "mean {mean}");
        assert!((variance.sqrt() / 0.02 - 1.0).abs() < 0.01, "deviation {}", variance.sqrt());
        assert_eq!(values, Init::Normal { std: 0.02 }.elements(&shape, 7, 3).unwrap());
        assert_ne!(values, Init::Normal { std: 0.02 }.elements(&shape, 7, 4).unwrap());
    }

    #[test]
    fn uniform_stays_in_range_and_wrong_values_are_refused() {
        let values = Init::Uniform { low: -1.0, high: 3.0 }.elements(&[4099].into(), 1, 0).unwrap();
        assert!(values.iter().all(|v| (-1.0..3.0).contains(v)));
        assert!(values.iter().any(|&v| v > 2.9) && values.iter().any(|&v| v < -0.9));
        assert!(Init::Values(vec![1.0].into()).elements(&[2].into(), 0, 0).unwrap_err().contains("[2]"));
    }
}
