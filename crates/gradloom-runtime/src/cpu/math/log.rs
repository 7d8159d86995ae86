//! log and log1p.
//!
//! x = 2^n·m with m between sqrt(1/2) and sqrt(2), and log(m) by a polynomial in m - 1, after Moshier,
//! "Methods and Programs for Mathematical Functions" (1989), chapter 3.

use super::{LN_2_HIGH, LN_2_LOW, polynomial};
use std::f32::consts::FRAC_1_SQRT_2;

/// (log(1 + f) - f + f²/2) / f³ for sqrt(1/2) <= 1 + f <= sqrt(2); relative error of the logarithm: 0.013
/// ulp.
pub(in crate::cpu) const LOG1P: [f32; 9] = [
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

/// log(2^n·(1 + f)) + `correction` for an integer n, sqrt(1/2) <= 1 + f <= sqrt(2) and a small correction.
#[inline(always)]
fn log_of_parts(n: f32, f: f32, correction: f32) -> f32 {
    let square = f * f;
    // From the smallest term to the largest; n·LN_2_HIGH is exact.
    let tail = f * square * polynomial(f, LOG1P) + (n * LN_2_LOW + correction) - 0.5 * square;
    (tail + f) + n * LN_2_HIGH
}

/// n and f, where x = 2^n·(1 + f) with sqrt(1/2) <= 1 + f <= sqrt(2), for normal, finite x > 0.
#[inline(always)]
fn parts(x: f32) -> (i32, f32) {
    let offset = (x.to_bits() as i32).wrapping_sub(FRAC_1_SQRT_2.to_bits() as i32);
    let n = offset >> 23;
    (n, f32::from_bits((x.to_bits()).wrapping_sub((n as u32) << 23)) - 1.0)
}

/// log(x) + `correction` for normal, finite x > 0 and a small correction.
#[inline(always)]
fn log_of_normal(x: f32, exponent: i32, correction: f32) -> f32 {
    let (n, f) = parts(x);
    log_of_parts(n.wrapping_add(exponent) as f32, f, correction)
}

/// The logarithm's value at the ends of its domain, `inside` between them.
#[inline(always)]
fn with_ends(x: f32, inside: f32) -> f32 {
    let outside = if x == 0.0 {
        f32::NEG_INFINITY
    } else if x == f32::INFINITY {
        x
    } else {
        f32::NAN
    };
    if x > 0.0 && x < f32::INFINITY { inside } else { outside }
}

/// The natural logarithm; error below 2 ulp.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    let small = x < f32::MIN_POSITIVE;
    let normal = if small { x * 8_388_608.0 } else { x };
    with_ends(x, log_of_normal(normal, if small { -23 } else { 0 }, 0.0))
}

/// log(1 + x); error below 2 ulp.
#[inline(always)]
pub(crate) fn log1p(x: f32) -> f32 {
    let u = 1.0 + x;
    // What rounding 1 + x lost, which shifts the logarithm by lost / u (as in FreeBSD's s_log1p.c).
    let lost = if u >= 2.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let y = with_ends(u, log_of_normal(u, 0, lost / u));
    if x.abs() < 1e-8 { x } else { y }
}

/// The logarithm of (word + 1/2) / 2³², the middle of one of 2³² equal parts of the unit interval; error
/// below 2 ulp, also where the logarithm is close to 0.
#[inline(always)]
pub(super) fn log_of_part(word: u32) -> f32 {
    // From sqrt(1/2) on the distance to 1, which the f32 next to a number close to 1 would not hold.
    let close = word >= (FRAC_1_SQRT_2 * 4_294_967_296.0) as u32;
    let distance = (if close { !word } else { word }) as f32 + 0.5;
    let (n, f) = parts(distance);
    let n = if close { 0.0 } else { n.wrapping_sub(32) as f32 };
    let f = if close { -distance / 4_294_967_296.0 } else { f };
    log_of_parts(n, f, 0.0)
}
