//! Functions of f32 that need f64 or integer arithmetic, written as loops that vectorize. Other functions are
//! formulas in [`gradloom_codegen::cpu::math`].
//!
//! In: any f32, including subnormals, infinities and NaN. Out: the value of the function, within the error
//! that it documents in units in the last place (ulp) of the exact result; special values follow C17 Annex F.
//! Invariant: there are no branches, tables or fused multiply-adds, so loops over these functions
//! vectorize and every instruction set computes the same bits. `tests.rs` checks the bounds against f64.

mod normal;
mod pow;
mod trigonometric;

#[cfg(test)]
mod tests;

pub use gradloom_codegen::cpu::math::*;
pub use normal::normal_pair;
pub use pow::pow;
pub use trigonometric::{LARGE_ANGLE, cos, sin};

/// Evaluates a [`polynomial`] in f64, from the coefficients in ascending order.
#[inline(always)]
fn polynomial64<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    c.iter().rev().fold(0.0, |sum, &c| sum * x + c)
}
