//! exp and expm1, and tanh and sigmoid, which are computed from them.
//!
//! The reduction is that of Cody and Waite, "Software Manual for the Elementary Functions" (1980), chapter 6:
//! x = n·ln 2 + r with |r| <= ln(2)/2, where ln 2 is split into two parts so that n times the first is exact.

use super::{LN_2_HIGH, LN_2_LOW, polynomial, unless_tiny};
use crate::cpu::lanes::{BinaryInst, LaneKind, Lanes, ROUND};
use gradloom_core::ir::CompareOp;
use std::f32::consts::LOG2_E;

/// Coefficients of (e^r - 1 - r) / r² for |r| <= ln(2)/2. Relative error of e^r - 1: 0.004 ulp.
const EXPM1: [f32; 6] = [0.5, 0.166_666_66, 0.041_666_36, 0.008_333_39, 0.001_394_066_8, 0.000_198_458_82];

/// Returns n, an integer, and e^r - 1, where x = n·ln 2 + r, for |x| < 2²¹.
#[inline(always)]
fn reduced<L: Lanes>(l: &mut L, x: L::Value) -> (L::Value, L::Value) {
    let [log2_e, round, high, low] = [LOG2_E, ROUND, LN_2_HIGH, LN_2_LOW].map(|v| l.float(v));
    let shifted = l.mul(x, log2_e);
    let shifted = l.add(shifted, round);
    let n = l.sub(shifted, round);
    let (high, low) = (l.mul(n, high), l.mul(n, low));
    let r = l.sub(x, high);
    let r = l.sub(r, low);
    let (square, tail) = (l.mul(r, r), polynomial(l, r, EXPM1));
    let tail = l.mul(square, tail);
    (n, l.add(r, tail))
}

/// Returns 1 - 2^-n.
#[inline(always)]
fn one_less_power<L: Lanes>(l: &mut L, n: L::Value) -> L::Value {
    let (one, n) = (l.float(1.0), l.negated(n));
    let power = l.two(BinaryInst::Scale, one, n);
    l.sub(one, power)
}

/// Returns e^x. The error is below 1.5 ulp.
#[inline(always)]
pub fn exp<L: Lanes>(l: &mut L, x: L::Value) -> L::Value {
    // Beyond these limits, the result is 0 or infinite anyway. The limits keep n small enough to scale by.
    let x = l.at_least(x, -105.0);
    let x = l.at_most(x, 90.0);
    let (n, p) = reduced(l, x);
    let one = l.float(1.0);
    let y = l.add(one, p);
    l.two(BinaryInst::Scale, y, n)
}

/// Returns e^x - 1. The error is below 2 ulp.
#[inline(always)]
pub fn expm1<L: Lanes>(l: &mut L, x: L::Value) -> L::Value {
    // Limits the argument: the result rounds to -1 below -20, and is infinite above 90.
    let limited = l.at_least(x, -20.0);
    let limited = l.at_most(limited, 90.0);
    let (n, p) = reduced(l, limited);
    // Computes 2^n (p + 1 - 2^-n). For n above this limit, 2^-n is negligible relative to 1.
    let least = l.at_most(n, 100.0);
    let rest = one_less_power(l, least);
    let y = l.add(p, rest);
    let y = l.two(BinaryInst::Scale, y, n);
    // Returns tiny arguments unchanged, because they equal the result, including the sign of zero.
    unless_tiny(l, x, y)
}

/// Returns (e^x - e^-x) / (e^x + e^-x). The error is below 3.5 ulp.
#[inline(always)]
pub fn tanh<L: Lanes>(l: &mut L, x: L::Value) -> L::Value {
    // With `e` = e^(2|x|) - 1, tanh |x| is e / (e + 2). From 10 on, the result rounds to 1.
    let magnitude = l.magnitude(x);
    let limited = l.at_most(magnitude, 10.0);
    let two = l.float(2.0);
    let doubled = l.mul(two, limited);
    let (n, p) = reduced(l, doubled);
    let rest = one_less_power(l, n);
    let e = l.add(p, rest);
    let e = l.two(BinaryInst::Scale, e, n);
    let divisor = l.add(e, two);
    let y = l.div(e, divisor);
    // Clears the sign, because a quotient of NaNs may be negative.
    let y = l.magnitude(y);
    l.with_sign(y, x)
}

/// Returns 1 / (1 + e^-x). The error is below 3 ulp.
#[inline(always)]
pub fn sigmoid<L: Lanes>(l: &mut L, x: L::Value) -> L::Value {
    // e^-|x| cannot overflow, and keeps the result accurate down to the subnormals.
    let (one, zero, magnitude) = (l.float(1.0), l.float(0.0), l.magnitude(x));
    let negative = l.negated(magnitude);
    let e = exp(l, negative);
    let below = l.compare(CompareOp::Lt, LaneKind::Float, x, zero);
    let numerator = l.select(below, e, one);
    let divisor = l.add(one, e);
    l.div(numerator, divisor)
}
