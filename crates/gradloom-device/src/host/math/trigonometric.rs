//! Sine and cosine.
//!
//! The argument is reduced in f64 by pi/2 in two parts, as in FreeBSD's e_rem_pio2f.c, which is accurate up
//! to [`LARGE_ANGLE`]. For the rare larger angles, callers use a scalar function with more digits of pi.

use super::{polynomial, polynomial64};
use gradloom_codegen::cpu::lanes::Scalar;
use std::f64::consts::{FRAC_2_PI, PI};

/// Angle (2²⁷) from which [`sin`] and [`cos`] are inaccurate.
pub const LARGE_ANGLE: f32 = 134_217_728.0;

/// 1.5·2⁵². Adding it to a number rounds the number to an integer and leaves that integer in the low bits of
/// the sum.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// First 25 bits of pi/2.
const HALF_PI_HIGH: f64 = 1.570_796_310_901_641_8;
/// pi/2 minus [`HALF_PI_HIGH`].
const HALF_PI_LOW: f64 = 1.589_325_477_352_819_7e-8;

/// Coefficients of (sin(r)/r - 1) / r² in r², for |r| <= pi/4.
const SIN: [f64; 4] = [
    -0.166_666_666_407_761_93,
    0.008_333_329_302_413_848,
    -0.000_198_393_114_847_010_48,
    2.718_114_113_725_08e-6,
];
/// Coefficients of (cos(r) - 1 + r²/2) / r⁴ in r², for |r| <= pi/4.
const COS: [f64; 4] = [
    0.041_666_666_619_453_54,
    -0.001_388_888_349_684_364_2,
    2.479_945_930_612_33e-5,
    -2.720_568_432_475_903e-7,
];

/// Returns sin(x + quarters·pi/2).
#[inline(always)]
fn sin_with_phase(x: f32, quarters: u32) -> f32 {
    let x = f64::from(x);
    let shifted = x * FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * HALF_PI_HIGH) - n * HALF_PI_LOW;
    let quadrant = (shifted.to_bits() as u32).wrapping_add(quarters);
    let square = r * r;
    let sin = r * (1.0 + square * polynomial64(square, SIN));
    let cos = 1.0 - square * (0.5 - square * polynomial64(square, COS));
    let value = if quadrant & 1 == 0 { sin } else { cos };
    (if quadrant & 2 == 0 { value } else { -value }) as f32
}

/// Returns the sine of an angle in radians below [`LARGE_ANGLE`]; error below 0.6 ulp.
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    sin_with_phase(x, 0)
}

/// Returns the cosine of an angle in radians below [`LARGE_ANGLE`]; error below 0.6 ulp.
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    sin_with_phase(x, 1)
}

const fn narrowed<const N: usize>(c: [f64; N]) -> [f32; N] {
    let mut narrow = [0.0; N];
    let mut i = 0;
    while i < N {
        narrow[i] = c[i] as f32;
        i += 1;
    }
    narrow
}

/// Returns the sine and cosine of (word + 1/2) / 2³² turns; errors below 2 ulp. The leading bits of the word
/// select the quadrant, so the range reduction is exact.
#[inline(always)]
pub(super) fn sin_cos_of_turn(word: u32) -> (f32, f32) {
    let quadrant = word.wrapping_add(1 << 29) >> 30;
    let within = word.wrapping_sub(quadrant << 30) as i32;
    let r = (within as f32 + 0.5) * (PI / 2_147_483_648.0) as f32;
    let square = r * r;
    let of_square = |c| f32::from_bits(polynomial(&mut Scalar, square.to_bits(), narrowed(c)));
    let sin = r + r * square * of_square(SIN);
    let cos = 1.0 - square * (0.5 - square * of_square(COS));
    let (sin, cos) = if quadrant & 1 == 0 { (sin, cos) } else { (cos, sin) };
    // The sine is negative in the last two quadrants, the cosine in the two middle ones.
    let negated = |x: f32, quadrant: u32| f32::from_bits(x.to_bits() ^ ((quadrant & 2) << 30));
    (negated(sin, quadrant), negated(cos, quadrant.wrapping_add(1)))
}
