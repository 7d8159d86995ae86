//! Sines and cosines of angles of all magnitudes.

use crate::{agree, device, skipped};
use gradloom_core::ir::DType;
use gradloom_testing::Leaves;

/// Returns angles of every exponent with small, large and random significands, the floats nearest to
/// multiples of pi/2, infinities and NaN, each with both signs.
fn angles() -> Vec<f64> {
    let mut angles: Vec<f64> = [6_381_956_970_095_103.0 * 2f64.powi(60), 1e6, 1e9, 3.0e38, 8191.9995, 8192.0]
        .into_iter()
        .chain([0.0, -0.0, f64::NAN, f64::INFINITY, f64::from(f32::MAX), 16_367_173.0 * 2f64.powi(72)])
        .map(|x: f64| f64::from(x as f32))
        .collect();
    for exponent in 0..255u32 {
        for significand in
            [0, 1, 0x7f_ffff, 0x40_0000, exponent * 32_749 % 0x80_0000, exponent * 50_021 % 0x80_0000]
        {
            angles.push(f64::from(f32::from_bits(exponent << 23 | significand)));
        }
    }
    (0..4000).for_each(|i| angles.push(f64::from((f64::from(i) * 4.7123889803) as f32)));
    let negative: Vec<f64> = angles.iter().map(|x| -x).collect();
    [angles, negative].concat()
}

#[test]
fn sines_and_cosines_are_within_two_ten_millionths() {
    if skipped() {
        return;
    }
    let angles = angles();
    let count = angles.len();
    let lines = format!(
        "%0: f32[{count}] = input \"x\"\n%1: f32[{count}] = sin %0\n%2: f32[{count}] = cos %0\n\
         output \"sin\" %1\noutput \"cos\" %2"
    );
    agree(&device(), &lines, &Leaves::random(1).with("x", DType::F32, &[count], &angles), 2e-7);
}
