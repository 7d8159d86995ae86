//! Normally distributed numbers from random words.
//!
//! Source: Box and Muller, "A Note on the Generation of Random Normal Deviates" (1958).

use super::log_of_part;
use super::trigonometric::sin_cos_of_turn;

/// Returns two independent standard normal numbers computed from two random words; errors below 5 ulp. Their
/// magnitude is at most 6.77, the square root of -2·log(2^-33).
#[inline(always)]
pub fn normal_pair(radius: u32, angle: u32) -> (f32, f32) {
    let radius = (-2.0 * log_of_part(radius)).sqrt();
    let (sin, cos) = sin_cos_of_turn(angle);
    (radius * cos, radius * sin)
}
