//! Normalizations over the last axis.

use super::{assert_near, check_gradients, drawn, error, floats, ints, value};
use gradloom_core::nn::{Init, RmsNorm};
use gradloom_core::trace::{f32, trace};

fn layer_norm(row: &[f64], gain: &[f64], epsilon: f64) -> Vec<f64> {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    row.iter().zip(gain).map(|(v, g)| (v - mean) / (variance + epsilon).sqrt() * g).collect()
}

#[test]
fn layer_norm_by_its_formula() {
    for shape in [&[5][..], &[3, 7], &[2, 1, 4], &[3, 1], &[0, 4], &[2, 0]] {
        let width = *shape.last().unwrap();
        let (x, gain) = (drawn(shape, 1), drawn(&[width], 2));
        let want: Vec<f64> =
            x.data.chunks(width.max(1)).flat_map(|row| layer_norm(row, &gain.data, 1e-5)).collect();
        let got = value(&[x.clone(), gain.clone()], |x| x[0].layer_norm(x[1], 1e-5));
        assert_near(&got, shape, &want, 1e-12);
    }
    check_gradients(&[drawn(&[3, 4], 3), drawn(&[4], 4)], |x| x[0].layer_norm(x[1], 1e-3));
}

#[test]
fn a_weight_of_another_width_is_named() {
    // Both weights would broadcast, the first one to a shape larger than the input.
    for (x, weight) in [(floats(&[2, 1], &[0.0; 2]), drawn(&[8], 1)), (drawn(&[2, 8], 1), drawn(&[1], 1))] {
        let text = error(&[x, weight], |x| x[0].layer_norm(x[1], 1e-5)).to_string();
        assert!(text.contains("`layer_norm` of [2, ") && text.contains("the weight is ["), "{text}");
    }
    let text = error(&[floats(&[], &[1.0])], |x| x[0].layer_norm(1.0, 1e-5)).to_string();
    assert!(text.contains("`layer_norm` of a scalar") && text.contains("[.., width]"), "{text}");
    let text = error(&[ints(&[2], &[1.0, 2.0])], |x| x[0].layer_norm(1, 1e-5)).to_string();
    assert!(text.contains("`layer_norm` of i32[2]") && text.contains(".cast(DType::F32)"), "{text}");
}

#[test]
fn rms_norm_by_its_formula() {
    for shape in [&[5][..], &[3, 7], &[2, 1, 4], &[3, 1], &[0, 4], &[2, 0]] {
        let width = *shape.last().unwrap();
        let (x, gain) = (drawn(shape, 1), drawn(&[width], 2));
        let row = |row: &[f64]| {
            let root = (row.iter().map(|v| v * v).sum::<f64>() / width as f64 + 1e-6).sqrt();
            row.iter().zip(&gain.data).map(|(v, g)| v / root * g).collect::<Vec<_>>()
        };
        let want: Vec<f64> = x.data.chunks(width.max(1)).flat_map(row).collect();
        let got = value(&[x.clone(), gain.clone()], |x| x[0].rms_norm(x[1], 1e-6));
        assert_near(&got, shape, &want, 1e-12);
    }
    check_gradients(&[drawn(&[3, 4], 3), drawn(&[4], 4)], |x| x[0].rms_norm(x[1], 1e-3));
    check_gradients(&[drawn(&[2, 3], 5)], |x| x[0].rms_norm(1.0, 0.0));
}

#[test]
fn the_layer_has_a_weight_of_ones() {
    let layer = RmsNorm::new(3);
    assert_eq!(
        (&layer.weight.shape()[..], layer.weight.init(), layer.epsilon),
        (&[3][..], &Init::Ones, 1e-6)
    );
    let inputs = [f32("x", [2, 3])];
    let traced = trace(&layer, &inputs, false, |x| layer.forward(x[0]), |y| vec![y]).unwrap();
    assert_eq!(traced.params.iter().map(|p| p.0.as_str()).collect::<Vec<_>>(), ["weight"]);
    let narrow = trace(&layer, &[f32("x", [2, 1])], false, |x| layer.forward(x[0]), |y| vec![y]);
    let text = narrow.unwrap_err().to_string();
    assert!(text.contains("`rms_norm` of [2, 1] with a weight of [3]"), "{text}");
}
