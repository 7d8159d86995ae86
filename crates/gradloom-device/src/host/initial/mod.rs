//! Initial values of parameters.
//!
//! In: an [`Init`], a seed, the index of the parameter, and a pool. Out: the elements. Invariant: an
//! element depends only on the `Init`, the seed, the parameter and the element's index, and has the same bits
//! on every machine: random words come from a counter-based generator, every operation rounds separately, and
//! no function of the system's math library is used.

mod orthogonal;
mod quantile;

use super::math::normal_pair;
use super::random::{LANES, WORDS, lanes};
use super::{InstructionSet, Pool, work};
use crate::multiversion;
use gradloom_core::ir::Shape;
use gradloom_core::nn::{Init, fans};
use std::sync::{Mutex, PoisonError};

/// Key of the random words for a parameter's initial values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialKey {
    /// Seed of the session.
    pub seed: u64,
    /// Index of the parameter in its model.
    pub parameter: u32,
}

/// Fills `out` with the initial elements of a parameter, row-major.
///
/// # Errors
/// Returns an error if the number of given values does not match the shape; `out` is then unchanged.
///
/// # Panics
/// Panics if the length of `out` differs from the shape's number of elements.
pub fn fill_initial(
    init: &Init,
    shape: &Shape,
    key: InitialKey,
    out: &mut [f32],
    pool: &Pool,
) -> Result<(), String> {
    fill_at_level(init, shape, key, out, pool, InstructionSet::detect())
}

fn fill_at_level(
    init: &Init,
    shape: &Shape,
    key: InitialKey,
    out: &mut [f32],
    pool: &Pool,
    level: InstructionSet,
) -> Result<(), String> {
    assert_eq!(out.len(), shape.elements(), "the elements of {shape}");
    let [fan_in, fan_out] = fans(shape);
    match init {
        Init::Zeros => out.fill(0.0),
        Init::Ones => out.fill(1.0),
        Init::Constant(value) => out.fill(*value as f32),
        Init::Normal { std } => draw(Normal { std: *std as f32 }, key, out, pool, level),
        Init::Uniform { low, high } => {
            draw(Uniform { low: *low, width: high - low }, key, out, pool, level);
        }
        Init::Kaiming { gain } => {
            draw(Normal { std: (gain / fan_in.sqrt()) as f32 }, key, out, pool, level);
        }
        Init::Xavier { gain } => {
            draw(Normal { std: (gain * (2.0 / (fan_in + fan_out)).sqrt()) as f32 }, key, out, pool, level);
        }
        Init::FanIn => draw(Uniform::within(1.0 / fan_in.sqrt()), key, out, pool, level),
        Init::KaimingUniform { gain } => {
            draw(Uniform::within(gain * (3.0 / fan_in).sqrt()), key, out, pool, level);
        }
        Init::XavierUniform { gain } => {
            draw(Uniform::within(gain * (6.0 / (fan_in + fan_out)).sqrt()), key, out, pool, level);
        }
        Init::TruncatedNormal { std } => draw(TruncatedNormal { std: *std }, key, out, pool, level),
        Init::Orthogonal { gain } => {
            draw(Normal { std: 1.0 }, key, out, pool, level);
            let rows = shape.first().copied().unwrap_or(1);
            orthogonal::orthonormalise(out, rows, *gain);
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

/// Site number of initial values, distinct from the sites that tracing counts up from 0.
const SITE: u32 = u32::MAX;
/// Number of elements per task, a multiple of [`WORDS`].
const GRAIN: usize = work::GRAIN / 4;

/// Fills `out` from random words, four elements per block of four words.
fn draw<D: Distribution>(
    distribution: D,
    key: InitialKey,
    out: &mut [f32],
    pool: &Pool,
    level: InstructionSet,
) {
    let fill = fill::<D>(level);
    let parts: Vec<_> = out.chunks_mut(GRAIN).map(Mutex::new).collect();
    pool.run(parts.len(), &|task| {
        // The mutex is never contended; it only gives the task mutable access to its part.
        let mut part = parts[task].lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: this variant was chosen for this machine and has no other requirements.
        unsafe { fill(distribution, key, (task * GRAIN / 4) as u64, &mut part) }
    });
}

/// A distribution that converts four random words to four elements.
trait Distribution: Copy + Send + Sync {
    fn elements(self, words: [u32; 4]) -> [f32; 4];
}

/// Normal distribution with mean 0.
#[derive(Clone, Copy)]
struct Normal {
    std: f32,
}

impl Distribution for Normal {
    #[inline(always)]
    fn elements(self, words: [u32; 4]) -> [f32; 4] {
        let (a, b) = normal_pair(words[0], words[1]);
        let (c, d) = normal_pair(words[2], words[3]);
        [a, b, c, d].map(|z| z * self.std)
    }
}

/// Uniform distribution between `low` and `low + width`.
#[derive(Clone, Copy)]
struct Uniform {
    low: f64,
    width: f64,
}

impl Uniform {
    /// Creates the uniform distribution between `-bound` and `bound`.
    fn within(bound: f64) -> Self {
        Self { low: -bound, width: bound + bound }
    }
}

/// Normal distribution with mean 0, truncated at two standard deviations.
#[derive(Clone, Copy)]
struct TruncatedNormal {
    std: f64,
}

impl Distribution for TruncatedNormal {
    #[inline(always)]
    fn elements(self, words: [u32; 4]) -> [f32; 4] {
        // The probability that a standard normal number is below -2.
        const TAIL: f64 = 0.022_750_131_948_179_21;
        words.map(|word| {
            let share = TAIL + (1.0 - 2.0 * TAIL) * ((f64::from(word) + 0.5) / 4_294_967_296.0);
            (self.std * quantile::of_normal(share)) as f32
        })
    }
}

impl Distribution for Uniform {
    #[inline(always)]
    fn elements(self, words: [u32; 4]) -> [f32; 4] {
        // Each word selects the midpoint of one of 2^32 equal parts of the interval.
        words.map(|word| (self.low + self.width * ((f64::from(word) + 0.5) / 4_294_967_296.0)) as f32)
    }
}

/// Fills `out` with elements from the random blocks starting at `first`, four from each block.
///
/// # Safety
/// None. The function is unsafe because [`multiversion!`] requires it.
#[inline(always)]
unsafe fn fill_body<D: Distribution>(distribution: D, key: InitialKey, first: u64, out: &mut [f32]) {
    let seed = [key.seed as u32, (key.seed >> 32) as u32];
    let mut elements = [0.0; WORDS];
    for (i, out) in out.chunks_mut(WORDS).enumerate() {
        let words = lanes(first + (i * LANES) as u64, key.parameter, SITE, seed);
        let mut drawn = [[0.0; LANES]; 4];
        for lane in 0..LANES {
            let four =
                distribution.elements([words[0][lane], words[1][lane], words[2][lane], words[3][lane]]);
            for j in 0..4 {
                drawn[j][lane] = four[j];
            }
        }
        for lane in 0..LANES {
            for j in 0..4 {
                elements[4 * lane + j] = drawn[j][lane];
            }
        }
        out.copy_from_slice(&elements[..out.len()]);
    }
}

multiversion! {
    fn fill<D: Distribution>(distribution: D, key: InitialKey, first: u64, out: &mut [f32]) = fill_body;
}

#[cfg(test)]
mod tests;
