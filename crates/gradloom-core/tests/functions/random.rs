//! Normally distributed numbers, and classes drawn from logits.

use super::{Value, assert_near, error, floats, ints, run, value};
use gradloom_core::ir::DType;
use gradloom_core::trace::{gradients, randn, uniform};

#[test]
fn randn_is_normal() {
    const COUNT: usize = 20_000;
    let mut x = value(&[], |_| randn([COUNT])).to_f64();
    assert!(x.iter().all(|v| v.is_finite() && v.abs() < 5.8));
    let moment = |power: i32| x.iter().map(|v| v.powi(power)).sum::<f64>() / COUNT as f64;
    // The bounds are five standard deviations of each moment.
    let bound = 5.0 / (COUNT as f64).sqrt();
    assert!(moment(1).abs() < bound && (moment(2) - 1.0).abs() < bound * 2f64.sqrt());
    assert!(moment(3).abs() < bound * 15f64.sqrt() && (moment(4) - 3.0).abs() < bound * 96f64.sqrt());
    // Compare the largest distance to the distribution function with its bound (Kolmogorov-Smirnov test at
    // the 0.1% level).
    x.sort_by(f64::total_cmp);
    let below = |v: f64| 0.5 * libm::erfc(-v * std::f64::consts::FRAC_1_SQRT_2);
    let distance = x
        .iter()
        .enumerate()
        .map(|(i, &v)| (below(v) - (i as f64 + 0.5) / COUNT as f64).abs())
        .fold(0.0, f64::max);
    assert!(distance < 1.95 / (COUNT as f64).sqrt(), "{distance}");
}

#[test]
fn randn_is_the_transform_of_its_uniform_numbers() {
    // Sites are counted from 0 in each trace, so these are the uniform numbers that `randn` transforms.
    let uniforms = run(&[], |_| vec![uniform([3, 5]), uniform([3, 5])]).unwrap();
    let (u, v) = (uniforms[0].to_f64(), uniforms[1].to_f64());
    let want: Vec<f64> = std::iter::zip(u, v)
        .map(|(u, v)| (-2.0 * (-u).ln_1p()).sqrt() * (std::f64::consts::TAU * v).cos())
        .collect();
    assert_near(&value(&[], |_| randn([3, 5])), &[3, 5], &want, 1e-12);
    let two = run(&[], |_| vec![randn([4]), randn([4])]).unwrap();
    assert_ne!(two[0].to_f64(), two[1].to_f64());
    assert_near(&value(&[], |_| randn([2, 0])), &[2, 0], &[], 0.0);
}

fn rows(count: usize, logits: &[f64]) -> Value {
    floats(&[count, logits.len()], &logits.repeat(count))
}

#[test]
fn classes_come_as_often_as_softmax_says() {
    const COUNT: usize = 20_000;
    let logits = [0.5, -1.0, 2.0, f64::NEG_INFINITY, 0.0];
    let got = value(&[rows(COUNT, &logits)], |x| x[0].categorical(-1));
    assert_eq!(got.ty.dtype, DType::I32);
    let mut seen = [0.0; 5];
    got.to_f64().iter().for_each(|&class| seen[class as usize] += 1.0);
    let total: f64 = logits.iter().map(|v| v.exp()).sum();
    let mut chi_squared = 0.0;
    for (logit, seen) in logits.iter().zip(seen) {
        let expected = COUNT as f64 * logit.exp() / total;
        if expected == 0.0 {
            assert_eq!(seen, 0.0, "a class without probability");
        } else {
            chi_squared += (seen - expected).powi(2) / expected;
        }
    }
    // Chi-squared test with three degrees of freedom at the 0.1% level.
    assert!(chi_squared < 16.3, "{chi_squared}: {seen:?}");
}

#[test]
fn classes_along_any_axis() {
    // The logit of one class exceeds the others by more than the range of the noise, which is from -2.9 to
    // 16, so this class is always drawn.
    let x = [floats(&[2, 3, 1], &[0.0, 90.0, 0.0, 90.0, 0.0, 0.0])];
    assert_near(&value(&x, |x| x[0].categorical(1)), &[2, 1], &[1.0, 0.0], 0.0);

    assert_near(&value(&x, |x| x[0].categorical(-1)), &[2, 3], &[0.0; 6], 0.0);
    assert_near(&value(&[floats(&[0, 3], &[])], |x| x[0].categorical(-1)), &[0], &[], 0.0);
}

#[test]
fn no_gradient_flows_into_the_logits() {
    let gradient = value(&[rows(2, &[1.0, 2.0, 3.0])], |x| {
        let drawn = x[0].categorical(-1).cast(DType::F32);
        gradients((drawn.sum() + x[0].sum()) * 2.0, [x[0]])[0]
    });
    assert_near(&gradient, &[2, 3], &[2.0; 6], 0.0);
}

#[test]
fn what_does_not_fit_is_named() {
    for (x, axis, want) in [
        (ints(&[2, 3], &[0.0; 6]), -1, "`categorical` of i32[2, 3]"),
        (floats(&[2, 0], &[]), -1, "`categorical` of [2, 0]: there is no class along axis -1"),
        (floats(&[2, 3], &[0.0; 6]), 2, "`categorical`: axis 2 is out of range"),
        (floats(&[], &[0.0]), -1, "`categorical`: axis -1 is out of range"),
    ] {
        let text = error(&[x], |x| x[0].categorical(axis)).to_string();
        assert!(text.contains(want), "{text}");
    }
}
