//! log and log1p.
//!
//! The argument is x = 2^n·m with m between sqrt(1/2) and sqrt(2), and log(m) is a polynomial in m - 1, as in
//! Moshier, "Methods and Programs for Mathematical Functions" (1989), chapter 3.

use super::{LN_2_HIGH, LN_2_LOW, polynomial, unless_tiny};
use crate::cpu::lanes::{BinaryInst, LaneKind, Lanes, Scalar, UnaryInst};
use gradloom_core::ir::CompareOp;
use std::f32::consts::FRAC_1_SQRT_2;

/// Coefficients of (log(1 + f) - f + f²/2) / f³ for sqrt(1/2) <= 1 + f <= sqrt(2). Relative error of the
/// logarithm: 0.013 ulp.
const LOG1P: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_021_19,
    -0.166_679_96,
    0.142_195_52,
    -0.124_055_89,
    0.118_881_63,
    -0.116_756_51,
    0.067_466_38,
];

/// Returns log(2^n·(1 + f)) + `correction` for an integer n, sqrt(1/2) <= 1 + f <= sqrt(2), and a small
/// correction.
#[inline(always)]
fn log_of_parts<L: Lanes>(l: &mut L, n: L::Value, f: L::Value, correction: L::Value) -> L::Value {
    // Adds the terms from the smallest to the largest. n·LN_2_HIGH is exact.
    let square = l.mul(f, f);
    let (half, high, low) = (l.float(0.5), l.float(LN_2_HIGH), l.float(LN_2_LOW));
    let (cube, tail) = (l.mul(f, square), polynomial(l, f, LOG1P));
    let tail = l.mul(cube, tail);
    let small = l.mul(n, low);
    let small = l.add(small, correction);
    let tail = l.add(tail, small);
    let square = l.mul(square, half);
    let tail = l.sub(tail, square);
    let (sum, high) = (l.add(tail, f), l.mul(n, high));
    l.add(sum, high)
}

/// Returns n, an i32, and f, where x = 2^n·(1 + f) with sqrt(1/2) <= 1 + f <= sqrt(2), for normal, finite and
/// positive x.
#[inline(always)]
fn parts<L: Lanes>(l: &mut L, x: L::Value) -> (L::Value, L::Value) {
    let (root, one) = (l.float(FRAC_1_SQRT_2), l.float(1.0));
    let offset = l.two(BinaryInst::SubInt, x, root);
    let n = l.one(UnaryInst::ShiftRightBy(23), offset);
    let shifted = l.one(UnaryInst::ShiftLeftBy(23), n);
    let m = l.two(BinaryInst::SubInt, x, shifted);
    (n, l.sub(m, one))
}

/// Returns `inside` if x is positive and finite, else the logarithm of x, which is infinite or NaN.
#[inline(always)]
fn with_ends<L: Lanes>(l: &mut L, x: L::Value, inside: L::Value) -> L::Value {
    let (zero, infinity) = (l.float(0.0), l.float(f32::INFINITY));
    let (lowest, nan) = (l.float(f32::NEG_INFINITY), l.float(f32::NAN));
    let is_infinite = l.compare(CompareOp::Eq, LaneKind::Float, x, infinity);
    let outside = l.select(is_infinite, x, nan);
    let is_zero = l.compare(CompareOp::Eq, LaneKind::Float, x, zero);
    let outside = l.select(is_zero, lowest, outside);
    let is_inside = l.is_between(x, zero, infinity);
    l.select(is_inside, inside, outside)
}

/// Returns the natural logarithm. The error is below 2 ulp.
#[inline(always)]
pub fn log<L: Lanes>(l: &mut L, x: L::Value) -> L::Value {
    let (least, factor, zero) = (l.float(f32::MIN_POSITIVE), l.float(8_388_608.0), l.float(0.0));
    let small = l.compare(CompareOp::Lt, LaneKind::Float, x, least);
    let scaled = l.mul(x, factor);
    let normal = l.select(small, scaled, x);
    let shift = l.bits((-23i32).cast_unsigned());
    let exponent = l.select(small, shift, zero);
    let (n, f) = parts(l, normal);
    let n = l.two(BinaryInst::AddInt, n, exponent);
    let n = l.one(UnaryInst::FloatOfSigned, n);
    let inside = log_of_parts(l, n, f, zero);
    with_ends(l, x, inside)
}

/// Returns log(1 + x). The error is below 2 ulp.
#[inline(always)]
pub fn log1p<L: Lanes>(l: &mut L, x: L::Value) -> L::Value {
    let (one, two) = (l.float(1.0), l.float(2.0));
    let u = l.add(one, x);
    // Computes the rounding error of 1 + x, which shifts the logarithm by `lost / u` (as in FreeBSD's
    // s_log1p.c).
    let (of_large, of_small) = (l.sub(u, x), l.sub(u, one));
    let (of_large, of_small) = (l.sub(one, of_large), l.sub(x, of_small));
    let large = l.compare(CompareOp::Ge, LaneKind::Float, u, two);
    let lost = l.select(large, of_large, of_small);
    let correction = l.div(lost, u);
    let (n, f) = parts(l, u);
    let n = l.one(UnaryInst::FloatOfSigned, n);
    let inside = log_of_parts(l, n, f, correction);
    let y = with_ends(l, u, inside);
    unless_tiny(l, x, y)
}

/// sqrt(1/2) · 2³², rounded to the precision of an f32.
const CLOSE: u32 = 0xb504_f300;

/// Returns the logarithm of (word + 1/2) / 2³², the middle of one of 2³² equal parts of the unit interval.
/// The error is below 2 ulp, even where the logarithm is close to 0.
#[inline(always)]
pub fn log_of_part(word: u32) -> f32 {
    // From sqrt(1/2) on, uses the distance to 1, which an f32 represents more accurately than a number close
    // to 1.
    let close = word >= CLOSE;
    let distance = (if close { !word } else { word }) as f32 + 0.5;
    let (n, f) = parts(&mut Scalar, distance.to_bits());
    let n = if close { 0.0 } else { n.cast_signed().wrapping_sub(32) as f32 };
    let f = if close { -distance / 4_294_967_296.0 } else { f32::from_bits(f) };
    f32::from_bits(log_of_parts(&mut Scalar, n.to_bits(), f.to_bits(), 0))
}
