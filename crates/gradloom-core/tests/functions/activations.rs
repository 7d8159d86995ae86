//! Softplus and leaky ReLU.

use super::{assert_near, check_gradients, drawn, error, floats, ints, value};
use gradloom_core::trace::gradients;

#[test]
fn softplus_is_exact_at_both_ends() {
    let x = [-800.0, -40.0, -1.5, 0.0, 0.25, 3.0, 40.0, 800.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let want = x.map(|v: f64| if v > 0.0 { v + (-v).exp().ln_1p() } else { v.exp().ln_1p() });
    let got = value(&[floats(&[11], &x)], |x| x[0].softplus());
    assert_near(&got, &[11], &want, 1e-15);
    // The relative error is small, too, although the value is near 0.
    assert!((got.to_f64()[1] / (-40f64).exp() - 1.0).abs() < 1e-12);
}

#[test]
fn the_gradient_of_softplus_is_the_sigmoid() {
    let x = [-30.0, -0.5, 0.0, 2.0, 30.0];
    let gradient = value(&[floats(&[5], &x)], |x| gradients(x[0].softplus().sum(), [x[0]])[0]);
    assert_near(&gradient, &[5], &x.map(|v: f64| 1.0 / (1.0 + (-v).exp())), 1e-15);
    check_gradients(&[drawn(&[3, 1, 5], 1)], |x| x[0].softplus());
}

#[test]
fn leaky_relu_has_its_slope_at_and_below_zero() {
    let x = [-3.0, -0.0, 0.0, 1e-30, 4.0, f64::NEG_INFINITY];
    let want = x.map(|v| if v > 0.0 { v } else { 0.2 * v });
    assert_near(&value(&[floats(&[2, 3], &x)], |x| x[0].leaky_relu(0.2)), &[2, 3], &want, 1e-15);
    let gradient =
        value(&[floats(&[3], &[-1.0, 0.0, 1.0])], |x| gradients(x[0].leaky_relu(0.2).sum(), [x[0]])[0]);
    assert_near(&gradient, &[3], &[0.2, 0.2, 1.0], 1e-15);
    check_gradients(&[drawn(&[7], 2)], |x| x[0].leaky_relu(-0.5));
}

#[test]
fn empty_and_wrong_operands() {
    for shape in [&[0][..], &[2, 0, 3]] {
        assert_near(&value(&[floats(shape, &[])], |x| x[0].softplus()), shape, &[], 0.0);
        assert_near(&value(&[floats(shape, &[])], |x| x[0].leaky_relu(0.1)), shape, &[], 0.0);
    }
    let whole = [ints(&[2], &[1.0, 2.0])];
    let wrong = [error(&whole, |x| x[0].softplus()), error(&whole, |x| x[0].leaky_relu(0.5))];
    for (name, error) in ["softplus", "leaky_relu"].into_iter().zip(wrong) {
        let text = error.to_string();
        assert!(
            text.contains(&format!("`{name}` of i32[2]")) && text.contains(".cast(DType::F32)"),
            "{text}"
        );
    }
}
