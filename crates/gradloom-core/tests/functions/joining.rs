//! Stacking tensors.

use super::{assert_near, check_gradients, drawn, error, floats, ints, value};
use gradloom_core::ir::DType;
use gradloom_core::trace::stack;

/// Stacks two tensors along a new axis before axis `at`.
fn stacked(shape: &[usize], at: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let inner: usize = shape[at..].iter().product::<usize>().max(1);
    a.chunks(inner).zip(b.chunks(inner)).flat_map(|(a, b)| [a, b].concat()).collect()
}

#[test]
fn every_axis_from_both_ends() {
    for shape in [&[3, 1, 5][..], &[1], &[], &[2, 0, 3], &[0]] {
        let (a, b) = (drawn(shape, 1), drawn(shape, 2));
        for at in 0..=shape.len() {
            let mut wanted = shape.to_vec();
            wanted.insert(at, 2);
            let want = stacked(shape, at, &a.data, &b.data);
            for axis in [at as isize, at as isize - shape.len() as isize - 1] {
                let got = value(&[a.clone(), b.clone()], |x| stack(axis, x));
                assert_near(&got, &wanted, &want, 0.0);
            }
        }
    }
}

#[test]
fn one_tensor_and_other_dtypes() {
    let got = value(&[ints(&[2], &[3.0, 4.0])], |x| stack(-1, x));
    assert_eq!(got.ty.dtype, DType::I32);
    assert_near(&got, &[2, 1], &[3.0, 4.0], 0.0);
    check_gradients(&[drawn(&[2, 3], 3), drawn(&[2, 3], 4)], |x| stack(1, x) * stack(1, &[x[1], x[0]]));
}

#[test]
fn what_does_not_fit_is_named() {
    let (a, b) = (floats(&[2, 3], &[0.0; 6]), floats(&[3, 2], &[0.0; 6]));
    let whole = ints(&[2, 3], &[0.0; 6]);
    for (values, axis, want) in [
        (vec![a.clone(), b], 0, "`stack` of f32[2, 3] and f32[3, 2]"),
        (vec![a.clone(), whole], 0, "`stack` of f32[2, 3] and i32[2, 3]"),
        (vec![a.clone()], 3, "axes of the result are 0 to 2, or -3 to -1"),
        (vec![a], -4, "axis -4 is out of range for a new axis of [2, 3]"),
        (vec![], 0, "give at least one"),
    ] {
        let text = error(&values, |x| stack(axis, x)).to_string();
        assert!(text.contains(want), "{text}");
    }
}
