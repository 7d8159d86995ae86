//! Transcendental functions of f32 that compile to vector instructions.
//!
//! In: any f32, subnormals, infinities and NaN included. Out: the function's value with the error that each
//! function states, in units in the last place (ulp) of the exact result; special values as C17 Annex F has
//! them. Always holds: no branches, no tables and no fused multiply-add, so that a loop over these functions
//! vectorises and every instruction set gives the same bits. The bounds are checked by `tests.rs` against
//! float64.
//!
//! The polynomials are weighted minimax fits of our own (`coefficients.py`); reductions cite their sources.

mod erf;
mod exp;
mod log;
mod normal;
mod pow;
mod trigonometric;

#[cfg(test)]
mod tests;

/// What the functions are made of, for machine code that computes the same.
#[cfg(target_arch = "x86_64")]
pub(super) mod coefficients {
    pub(in crate::cpu) use super::erf::{LARGE as ERF_LARGE, SMALL as ERF_SMALL};
    pub(in crate::cpu) use super::exp::{EXPM1, ROUND};
    pub(in crate::cpu) use super::log::LOG1P;
    pub(in crate::cpu) use super::{LN_2_HIGH, LN_2_LOW};
    pub(in crate::cpu) use std::f32::consts::LOG2_E;
}

pub(super) use erf::erf;
pub(super) use exp::{exp, expm1, sigmoid, tanh};
pub(super) use log::{log, log1p};
pub(super) use normal::normal_pair;
pub(super) use pow::pow;
pub(super) use trigonometric::{LARGE_ANGLE, cos, sin};

/// The high part of ln 2, whose 9 significant bits leave room for an exact product with any exponent of an
/// f32.
pub(in crate::cpu) const LN_2_HIGH: f32 = 355.0 / 512.0;
/// ln 2 less [`LN_2_HIGH`].
pub(in crate::cpu) const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `c[0] + c[1]·x + c[2]·x² + ..`, by Horner's rule.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    c.iter().rev().fold(0.0, |sum, &c| sum * x + c)
}

/// [`polynomial`] in float64.
#[inline(always)]
fn polynomial64<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    c.iter().rev().fold(0.0, |sum, &c| sum * x + c)
}
