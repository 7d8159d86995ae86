//! The error function.

use super::{exp, polynomial};
use crate::cpu::lanes::{LaneKind, Lanes};
use gradloom_core::ir::CompareOp;

/// Coefficients of (erf(x)/x - 1) in x², for |x| <= 0.92. Relative error of erf: 0.007 ulp.
const SMALL: [f32; 7] =
    [0.128_379_17, -0.376_126_35, 0.112_836_97, -0.026_859_5, 0.005_201_286, -0.000_814_559_75, 8.382_391e-5];

/// Coefficients of log(1 - erf(x)) for 0.92 <= x <= 4. Relative error of erf: 0.026 ulp.
const LARGE: [f32; 7] = [
    -0.000_195_674_93,
    -1.127_675_7,
    -0.637_182_24,
    -0.103_931_6,
    0.022_226_922,
    -0.003_043_218,
    0.000_195_937_3,
];

/// Returns the error function, 2/sqrt(pi) times the integral of e^(-t²) from 0 to x. The error is below 2
/// ulp.
#[inline(always)]
pub fn erf<L: Lanes>(l: &mut L, x: L::Value) -> L::Value {
    let magnitude = l.magnitude(x);
    let square = l.mul(x, x);
    let small = polynomial(l, square, SMALL);
    let small = l.mul(x, small);
    let small = l.add(x, small);
    // Limits the argument to 4, from which on the result rounds to 1. NaN passes through, because comparisons
    // with it are false.
    let limited = l.at_most(magnitude, 4.0);
    let large = polynomial(l, limited, LARGE);
    let large = exp(l, large);
    let (one, limit) = (l.float(1.0), l.float(0.92));
    let large = l.sub(one, large);
    let large = l.magnitude(large);
    let large = l.with_sign(large, x);
    let is_small = l.compare(CompareOp::Lt, LaneKind::Float, magnitude, limit);
    l.select(is_small, small, large)
}
