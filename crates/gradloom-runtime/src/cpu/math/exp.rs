//! exp, expm1, and the two functions that are made of them.
//!
//! Reduction after Cody and Waite, "Software Manual for the Elementary Functions" (1980), chapter 6: x = n·ln
//! 2 + r with |r| <= ln(2)/2, with ln 2 in two parts so that n times the first is exact.

use super::{LN_2_HIGH, LN_2_LOW, polynomial};
use std::f32::consts::LOG2_E;

/// 1.5·2²³: adding it to a small number rounds that to an integer, which then stands in the low bits.
pub(in crate::cpu) const ROUND: f32 = 12_582_912.0;

/// (e^r - 1 - r) / r² for |r| <= ln(2)/2; relative error of e^r - 1: 0.004 ulp.
pub(in crate::cpu) const EXPM1: [f32; 6] =
    [0.5, 0.166_666_66, 0.041_666_36, 0.008_333_39, 0.001_394_066_8, 0.000_198_458_82];

/// n and e^r - 1, where x = n·ln 2 + r; for |x| < 2²¹.
#[inline(always)]
fn reduced(x: f32) -> (i32, f32) {
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let integer = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    (integer, r + r * r * polynomial(r, EXPM1))
}

/// 2^n for -126 <= n <= 127; some number for other n.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// y·2^n for |n| <= 252: exact but for the last rounding, where the result is subnormal or overflows.
#[inline(always)]
fn scaled(y: f32, n: i32) -> f32 {
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `x` within the limits; NaN stays NaN (`f32::clamp` has a branch that panics).
#[inline(always)]
fn clamped(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// e^x; error below 1.5 ulp.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Beyond these limits the result is 0 or infinite, and n stays small enough for `scaled`.
    let (n, p) = reduced(clamped(x, -105.0, 90.0));
    scaled(1.0 + p, n)
}

/// e^x - 1; error below 2 ulp.
#[inline(always)]
pub(crate) fn expm1(x: f32) -> f32 {
    // Below -20 the result rounds to -1.
    let (n, p) = reduced(clamped(x, -20.0, 90.0));
    // 2^n (p + 1 - 2^-n); the power of two vanishes beside 1 long before the limit of its argument.
    let least = if n > 100 { 100 } else { n };
    let y = scaled(p + (1.0 - power_of_two(least.wrapping_neg())), n);
    // Keeps the sign of zero, and the argument where it is the result.
    if x.abs() < 1e-8 { x } else { y }
}

/// (e^x - e^-x) / (e^x + e^-x); error below 3.5 ulp.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    // tanh |x| = e / (e + 2) with e = e^(2|x|) - 1. From 10 on the result rounds to 1.
    let (n, p) = reduced(2.0 * clamped(x.abs(), 0.0, 10.0));
    let e = (p + (1.0 - power_of_two(n.wrapping_neg()))) * power_of_two(n);
    (e / (e + 2.0)).copysign(x)
}

/// 1 / (1 + e^-x); error below 3 ulp.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    // With e^-|x| nothing overflows, and the result is right down to the subnormals.
    let e = exp(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}
