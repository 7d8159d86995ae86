//! Functions of f32 that need float64 or whole words, as loops that vectorise; the others are formulas of
//! [`gradloom_codegen::cpu::math`].
//!
//! In: any f32, subnormals, infinities and NaN included. Out: the function's value with the error that each
//! function states, in units in the last place (ulp) of the exact result; special values as C17 Annex F has
//! them. Always holds: no branches, no tables and no fused multiply-add, so that a loop over these functions
//! vectorises and every instruction set gives the same bits. The bounds are checked by `tests.rs` against
//! float64.

mod normal;
mod pow;
mod trigonometric;

#[cfg(test)]
mod tests;

pub use gradloom_codegen::cpu::math::*;
pub use normal::normal_pair;
pub use pow::pow;
pub use trigonometric::{LARGE_ANGLE, cos, sin};

/// Returns the [`polynomial`] of a float64.
#[inline(always)]
fn polynomial64<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    c.iter().rev().fold(0.0, |sum, &c| sum * x + c)
}
