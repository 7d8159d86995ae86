//! Transcendental functions of f32 as formulas over [`Lanes`], for loops and for machine code alike.
//!
//! In: any f32, including subnormals, infinities and NaN. Out: the function's value with the error that each
//! function documents, in units in the last place (ulp) of the exact result. Special values follow C17 Annex
//! F. Invariant: the formulas have no branches, tables or fused multiply-adds, so that a loop over them
//! vectorizes and every instruction set produces the same bits. The runtime's tests check the error bounds
//! against float64.
//!
//! The polynomials are our own weighted minimax fits (`coefficients.py`). Reductions cite their sources.

use super::lanes::{LaneKind, Lanes};
use gradloom_core::ir::CompareOp;

mod erf;
mod exp;
mod log;

pub use erf::*;
pub use exp::*;
pub use log::*;

/// High part of ln 2, whose 9 significant bits leave room for an exact product with any exponent of an f32.
const LN_2_HIGH: f32 = 355.0 / 512.0;
/// Low part of ln 2: ln 2 minus [`LN_2_HIGH`].
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Returns `c[0] + c[1]·x + c[2]·x² + ..`, by Horner's rule.
#[inline(always)]
pub fn polynomial<L: Lanes, const N: usize>(l: &mut L, x: L::Value, c: [f32; N]) -> L::Value {
    let mut sum = l.float(c[N - 1]);
    for &c in c[..N - 1].iter().rev() {
        let (product, c) = (l.mul(sum, x), l.float(c));
        sum = l.add(product, c);
    }
    sum
}

/// Returns `x` if it is so small that the result equals it, else `y`.
#[inline(always)]
fn unless_tiny<L: Lanes>(l: &mut L, x: L::Value, y: L::Value) -> L::Value {
    let (magnitude, tiny) = (l.magnitude(x), l.float(1e-8));
    let is_tiny = l.compare(CompareOp::Lt, LaneKind::Float, magnitude, tiny);
    l.select(is_tiny, x, y)
}
