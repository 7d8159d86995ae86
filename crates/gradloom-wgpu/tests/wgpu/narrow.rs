//! Special and extreme values of 16-bit floats.

use crate::{agree, device, skipped};
use gradloom::testing::wgpu_limited;
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::DType;
use gradloom_testing::Leaves;

/// Returns infinity, NaN, numbers around the largest and smallest ones, and ties, each with both signs.
fn numbers() -> Vec<f64> {
    let unit = 2f64.powi(-24);
    let positive = [
        f64::INFINITY,
        f64::NAN,
        0.0,
        1.0,
        65504.0,
        65519.0,
        65520.0,
        65536.0,
        1e9,
        3.3e38,
        3.4e38,
        unit,
        unit * 0.5,
        unit * 0.51,
        unit * 1.5,
        unit * 1023.5,
        unit * 1024.0,
        1e-30,
        1.0 / 3.0,
        2049.0,
        2051.0,
    ];
    positive.iter().flat_map(|&x| [x, -x]).map(|x| f64::from(x as f32)).collect()
}

#[test]
fn stored_floats_of_16_bits_are_those_of_the_reference() {
    if skipped() {
        return;
    }
    let numbers = numbers();
    let n = numbers.len();
    let without = || {
        wgpu_limited(&gradloom_testing::adapter::name(), |limits| limits.f16 = false, Fusion::SumsApart)
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let without = (!gradloom_testing::adapter::is_cuda()).then(without);
    for device in [device()].into_iter().chain(without) {
        for dtype in [DType::F16, DType::BF16] {
            let lines = format!(
                "%0: f32[{n}] = input \"x\"\n%1: {dtype}[{n}] = cast %0\n%2: f32[{n}] = cast %1\n\
                 %3: f32[{n}] = neg %2\n%4: {dtype}[{n}] = cast %3\n\
                 output \"stored\" %1\noutput \"changed\" %4"
            );
            let leaves = Leaves::random(1).with("x", DType::F32, &[n], &numbers);
            agree(&device, &lines, &leaves, 0.0);
            let lines = format!(
                "%0: {dtype}[{n}] = input \"x\"\n%1: f32[{n}] = cast %0\n%2: f32[{n}] = neg %1\n\
                 output \"read\" %1\noutput \"changed\" %2"
            );
            let narrow: Vec<f64> = numbers.iter().map(|&x| dtype.rounded(x)).collect();
            agree(&device, &lines, &Leaves::random(1).with("x", dtype, &[n], &narrow), 0.0);
        }
    }
}
