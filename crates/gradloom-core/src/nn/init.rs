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
}

impl Init {
    /// Fills `out` with the elements, keyed by `seed` and the number of the parameter in its model, on all cores.
    ///
    /// # Errors
    /// When given values are too many or too few; `out` is then as it was.
    ///
    /// # Panics
    /// When `out` does not have the shape's number of elements.
    pub fn fill(&self, out: &mut [f32], shape: &Shape, seed: u64, parameter: u32) -> Result<(), String> {
        assert_eq!(out.len(), shape.elements(), "the elements of {shape}");
        let key = [seed as u32, (seed >> 32) as u32];
        let mut uniform = |low: f64, high: f64| {
            fill_by_words(out, key, parameter, |w| w.map(|word| (low + (high - low) * unit(word)) as f32));
        };
        match self {
            Init::Zeros => out.fill(0.0),
            Init::Ones => out.fill(1.0),
            Init::Constant(value) => out.fill(*value as f32),
            Init::Normal { std } => fill_by_words(out, key, parameter, |w| {
                let (a, b) = box_muller(w[0], w[1]);
                let (c, d) = box_muller(w[2], w[3]);
                [a, b, c, d].map(|z| (z * std) as f32)
            }),
            Init::Uniform { low, high } => uniform(*low, *high),
            Init::FanIn => {
                let fan_in = shape.first().copied().unwrap_or(1).max(1);
                let bound = 1.0 / libm::sqrt(fan_in as f64);
                uniform(-bound, bound);
            }
            Init::Values(values) if values.len() == out.len() => out.copy_from_slice(values),
            Init::Values(values) => {
                return Err(format!(
                    "{} initial values for the shape {shape} ({} elements)",
                    values.len(),
                    out.len()
                ));
            }
        }
        Ok(())
    }
}

/// Site of initial values, apart from the sites that tracing counts up from 0.
const INIT_SITE: u32 = u32::MAX;
/// Elements that are worth a thread of their own.
const THREAD_ELEMENTS: usize = 1 << 13;

/// Fills four elements from each four random words; the words depend on the element alone, so the cores may share the work.
fn fill_by_words(out: &mut [f32], key: [u32; 2], parameter: u32, f: impl Fn([u32; 4]) -> [f32; 4] + Sync) {
    let fill = |first: usize, part: &mut [f32]| {
        for (i, four) in part.chunks_mut(4).enumerate() {
            let block = (first / 4 + i) as u64;
            let words = philox4x32([block as u32, (block >> 32) as u32, parameter, INIT_SITE], key);
            four.copy_from_slice(&f(words)[..four.len()]);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let size = out.len().div_ceil(cores).next_multiple_of(4).max(THREAD_ELEMENTS);
    if out.len() <= size {
        return fill(0, out);
    }
    std::thread::scope(|scope| {
        for (i, part) in out.chunks_mut(size).enumerate() {
            let fill = &fill;
            scope.spawn(move || fill(i * size, part));
        }
    });
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

    fn elements(init: &Init, shape: impl Into<Shape>, parameter: u32) -> Vec<f32> {
        let shape = shape.into();
        let mut out = vec![f32::NAN; shape.elements()];
        init.fill(&mut out, &shape, 7, parameter).unwrap();
        out
    }

    #[test]
    fn normal_has_its_moments_and_repeats() {
        let normal = Init::Normal { std: 0.02 };
        let values = elements(&normal, [300, 1001], 3);
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 4.0 * 0.02 / n.sqrt(), "mean {mean}");
        assert!((variance.sqrt() / 0.02 - 1.0).abs() < 0.01, "deviation {}", variance.sqrt());
        assert_eq!(values, elements(&normal, [300, 1001], 3));
        assert_ne!(values, elements(&normal, [300, 1001], 4));
    }

    #[test]
    fn elements_do_not_depend_on_how_the_work_was_shared() {
        let normal = Init::Normal { std: 1.0 };
        let large = elements(&normal, [5 * THREAD_ELEMENTS + 3], 0);
        assert_eq!(large[..THREAD_ELEMENTS - 1], elements(&normal, [THREAD_ELEMENTS - 1], 0));
    }

    #[test]
    fn uniform_stays_in_range_and_wrong_values_are_refused() {
        let values = elements(&Init::Uniform { low: -1.0, high: 3.0 }, [4099], 0);
        assert!(values.iter().all(|v| (-1.0..3.0).contains(v)));
        assert!(values.iter().any(|&v| v > 2.9) && values.iter().any(|&v| v < -0.9));
        let refused = Init::Values(vec![1.0].into()).fill(&mut [0.0; 2], &[2].into(), 0, 0);
        assert!(refused.unwrap_err().contains("[2]"));
    }
}
