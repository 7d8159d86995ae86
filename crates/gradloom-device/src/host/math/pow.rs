//! The power function.

use super::polynomial64;
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E};

/// 1.5·2⁵². Adding it to a number rounds the number to an integer and leaves that integer in the low bits of
/// the sum.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// 2⁵². Its bits plus those of a small integer are the bits of 2⁵² plus the integer.
const INTEGER: f64 = 4_503_599_627_370_496.0;

/// Coefficients 1/(2k + 1) of the series of atanh(s)/s in s².
const ATANH: [f64; 8] = [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0];

/// Coefficients 1/k! of the exponential series.
const EXP: [f64; 11] = [
    1.0,
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
];

/// Returns log2 of a finite x > 0 that is normal in f64; absolute error below 1e-12.
#[inline(always)]
fn log2(x: f64) -> f64 {
    // The exponent relative to sqrt(1/2), biased to be positive, because AVX2 has no arithmetic right shift
    // of 64-bit lanes.
    let offset = x.to_bits().wrapping_sub(FRAC_1_SQRT_2.to_bits()).wrapping_add(1023 << 52);
    let biased = offset >> 52;
    let n = f64::from_bits(INTEGER.to_bits() | biased) - (INTEGER + 1023.0);
    let m = f64::from_bits(x.to_bits().wrapping_sub(biased.wrapping_sub(1023) << 52));
    // Evaluate log(m) as 2 atanh((m - 1) / (m + 1)).
    let s = (m - 1.0) / (m + 1.0);
    n + 2.0 * LOG2_E * s * polynomial64(s * s, ATANH)
}

/// Returns 2^x with x clamped to ±200, beyond which the result is 0 or infinite as an f32.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let x = if x < -200.0 { -200.0 } else { x };
    let x = if x > 200.0 { 200.0 } else { x };
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    polynomial64(r * LN_2, EXP) * power
}

/// Returns x to the power y, computed in f64; error below 0.6 ulp. Special values follow C's `pow`:
/// `pow(x, 0)` and `pow(1, y)` are 1 even for NaN, and a negative x requires an integer y.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let base = x.abs();
    let exponent = y.abs();
    let log = if base == 0.0 {
        f64::NEG_INFINITY
    } else if base < f32::INFINITY {
        log2(f64::from(base))
    } else {
        f64::from(base)
    };
    let power = exp2(f64::from(y) * log) as f32;
    // The power is 1 in this case, but the formula multiplies 0 by infinity and returns NaN.
    let power = if base == 1.0 && exponent == f32::INFINITY { 1.0 } else { power };

    // Every f32 of at least 2²³ is an integer, and every f32 of at least 2²⁴ is even.
    let is_integer = |v: f32| v >= 8_388_608.0 || (v + 8_388_608.0) - 8_388_608.0 == v;
    let odd = is_integer(exponent) && !is_integer(0.5 * exponent);
    let signed = if x.is_sign_negative() && odd { -power } else { power };
    let undefined = x < 0.0 && base < f32::INFINITY && !is_integer(exponent);
    let value = if undefined { f32::NAN } else { signed };
    if y == 0.0 || x == 1.0 { 1.0 } else { value }
}
