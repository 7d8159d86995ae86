//! Error bounds over the whole range of f32: every 1021st number in debug builds, every 257th in release
//! builds.

use super::*;
use gradloom_codegen::cpu::lanes::Scalar;

/// Returns the error in units in the last place of the f32 nearest to the exact value; 0 for equal special
/// values.
fn error(got: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if exact.is_nan() || nearest.is_infinite() || got.is_infinite() || got.is_nan() {
        let equal = got.to_bits() == nearest.to_bits() || (got.is_nan() && exact.is_nan());
        // At the overflow threshold, the largest finite f32 and infinity are equally close, so either counts
        // as an error of one unit.
        let beside = nearest.is_infinite() != got.is_infinite()
            && (exact.abs() - f64::from(f32::MAX)).abs() < 2f64.powi(104);
        return if equal {
            0.0
        } else if beside {
            1.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = if nearest == 0.0 { -126 } else { nearest.abs().log2().floor().max(-126.0) as i32 };
    (f64::from(got) - exact).abs() / 2f64.powi(exponent - 23)
}

fn sample() -> impl Iterator<Item = f32> {
    let step = if cfg!(debug_assertions) { 1021 } else { 257 };
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    (0..=u32::MAX).step_by(step).map(f32::from_bits).chain(special)
}

fn check(name: &str, bound: f64, function: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) {
    let mut worst = (0.0, 0.0);
    for x in sample() {
        let wanted = exact(f64::from(x));
        let got = function(x);
        let error = error(got, wanted);
        if error > worst.0 {
            worst = (error, x);
        }
        assert!(error <= bound, "{name}({x:e}) = {got:e}, exact {wanted:e}: {error} ulp");
        // A zero must have the sign of the exact result.
        assert!(
            got != 0.0 || wanted != 0.0 || got.is_sign_negative() == wanted.is_sign_negative(),
            "{name}({x:e}) = {got:e}"
        );
    }
    println!("{name}: {:.3} ulp at {:e}", worst.0, worst.1);
}

#[test]
fn exponentials_and_logarithms() {
    check("exp", 1.5, |x| f32::from_bits(exp(&mut Scalar, x.to_bits())), libm::exp);
    check("expm1", 2.0, |x| f32::from_bits(expm1(&mut Scalar, x.to_bits())), libm::expm1);
    check("log", 2.0, |x| f32::from_bits(log(&mut Scalar, x.to_bits())), libm::log);
    check("log1p", 2.0, |x| f32::from_bits(log1p(&mut Scalar, x.to_bits())), libm::log1p);
}

#[test]
fn sigmoids() {
    check("tanh", 3.5, |x| f32::from_bits(tanh(&mut Scalar, x.to_bits())), libm::tanh);
    check(
        "sigmoid",
        3.0,
        |x| f32::from_bits(sigmoid(&mut Scalar, x.to_bits())),
        |x| {
            if x < 0.0 { libm::exp(x) / (1.0 + libm::exp(x)) } else { 1.0 / (1.0 + libm::exp(-x)) }
        },
    );
    check("erf", 2.0, |x| f32::from_bits(erf(&mut Scalar, x.to_bits())), libm::erf);
}

#[test]
fn angles() {
    let within = |f: fn(f32) -> f32, scalar: fn(f32) -> f32| {
        move |x: f32| if x.abs() < LARGE_ANGLE { f(x) } else { scalar(x) }
    };
    check("sin", 0.6, within(sin, libm::sinf), libm::sin);
    check("cos", 0.6, within(cos, libm::cosf), libm::cos);
}

#[test]
fn normal_variates() {
    // Evaluate Box and Muller's formulas in f64, after an exact reduction by whole quarter turns.
    let exact = |radius: u32, angle: u32| {
        let radius = (-2.0 * libm::log((f64::from(radius) + 0.5) / 2f64.powi(32))).sqrt();
        let quarters = (f64::from(angle) / 2f64.powi(30)).round();
        let r = (f64::from(angle) - quarters * 2f64.powi(30) + 0.5) * std::f64::consts::PI / 2f64.powi(31);
        let quarter = |(x, y): (f64, f64), _| (-y, x);
        (0..quarters as u32).fold((radius * libm::cos(r), radius * libm::sin(r)), quarter)
    };
    let check = |radius: u32, angle: u32| {
        let (got, wanted) = (normal_pair(radius, angle), exact(radius, angle));
        for (got, wanted) in [(got.0, wanted.0), (got.1, wanted.1)] {
            let error = error(got, wanted);
            assert!(
                error <= 5.0,
                "normal_pair({radius:#x}, {angle:#x}): {got:e}, exact {wanted:e}, {error} ulp"
            );
        }
    };
    // Check words around the ends of the range, sqrt(1/2), and the borders of quadrants and octants.
    let special = (0..16u32).map(|eighth| eighth << 28).chain([0xB504_F334]);
    let around: Vec<u32> =
        special.flat_map(|word| (0..7).map(move |i| word.wrapping_sub(3).wrapping_add(i))).collect();
    around.iter().for_each(|&radius| around.iter().for_each(|&angle| check(radius, angle)));
    let step = if cfg!(debug_assertions) { 4093 } else { 257 };
    for word in (0..=u32::MAX).step_by(step) {
        check(word, word.wrapping_mul(0x9E37_79B9));
    }
}

#[test]
fn powers() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let check = |x: f32, y: f32| {
        let wanted = libm::pow(f64::from(x), f64::from(y));
        let got = pow(x, y);
        assert!(error(got, wanted) <= 0.6, "pow({x:e}, {y:e}) = {got:e}, exact {wanted:e}");
        assert!(
            got != 0.0 || got.is_sign_negative() == wanted.is_sign_negative(),
            "pow({x:e}, {y:e}) = {got:e}"
        );
    };
    for _ in 0..if cfg!(debug_assertions) { 100_000 } else { 10_000_000 } {
        // Check arbitrary bits, then numbers with finite powers.
        check(f32::from_bits(random()), f32::from_bits(random()));
        let x = (random() as f32 / 2f32.powi(32) * 8.0 - 4.0).exp();
        check(x, random() as f32 / 2f32.powi(32) * 60.0 - 30.0);
    }
    let special = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        1.5,
        16_777_215.0,
        16_777_216.0,
        8_388_607.5,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    let signed = || special.iter().flat_map(|&v| [v, -v]);
    signed().for_each(|x| signed().for_each(|y| check(x, y)));
}
