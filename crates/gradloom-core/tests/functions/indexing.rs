//! Picking elements along an axis.

use super::{Value, assert_near, check_gradients, drawn, error, floats, ints, run, value};
use gradloom_core::error::ErrorKind;
use gradloom_testing::random::Random;

fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect()
}

/// Computes `y[.., k, ..] = x[.., index[.., k, ..], ..]`, position by position.
fn picked(x: &Value, index: &Value, axis: usize) -> Vec<f64> {
    let (from, to) = (strides(&x.ty.shape), strides(&index.ty.shape));
    let at = |flat: usize| -> usize {
        let position = |a: usize| flat / to[a] % index.ty.shape[a];
        (0..to.len()).map(|a| from[a] * if a == axis { index.data[flat] as usize } else { position(a) }).sum()
    };
    (0..index.data.len()).map(|flat| x.data[at(flat)]).collect()
}

#[test]
fn every_axis_of_odd_shapes() {
    for (shape, count) in [(&[3, 1, 5][..], 4), (&[7], 1), (&[2, 3, 2, 3], 5), (&[1, 1], 2), (&[4, 3], 0)] {
        for axis in 0..shape.len() {
            let x = drawn(shape, 5);
            let mut extents = shape.to_vec();
            extents[axis] = count;
            let mut random = Random::new(6);
            let picks: Vec<f64> =
                (0..extents.iter().product()).map(|_| random.below(shape[axis]) as f64).collect();
            let index = ints(&extents, &picks);
            let want = picked(&x, &index, axis);
            for axis in [axis as isize, axis as isize - shape.len() as isize] {
                let got = value(&[x.clone(), index.clone()], |x| x[0].take_along_axis(x[1], axis));
                assert_near(&got, &extents, &want, 0.0);
            }
            check_gradients(&[x, index], |x| x[0].take_along_axis(x[1], axis as isize));
        }
    }
}

#[test]
fn nothing_can_be_picked_of_nothing() {
    let x = [floats(&[2, 0], &[]), ints(&[2, 0], &[])];
    assert_near(&value(&x, |x| x[0].take_along_axis(x[1], 1)), &[2, 0], &[], 0.0);
    let x = [floats(&[0, 3], &[]), ints(&[0, 2], &[])];
    assert_near(&value(&x, |x| x[0].take_along_axis(x[1], 1)), &[0, 2], &[], 0.0);
}

#[test]
fn an_index_out_of_range_fails_the_step() {
    for wrong in [-1.0, 3.0] {
        let x = [drawn(&[2, 3], 1), ints(&[2, 1], &[0.0, wrong])];
        let error = run(&x, |x| vec![x[0].take_along_axis(x[1], -1)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let x = drawn(&[2, 3], 1);
    for (index, axis, want) in [
        (ints(&[3, 1], &[0.0; 3]), 1, "`take_along_axis` of [2, 3] along axis 1 with an index i32[3, 1]"),
        (ints(&[2], &[0.0; 2]), 1, "the index is i32, and has the extents of [2, 3] except along the axis"),
        (floats(&[2, 1], &[0.0; 2]), 1, "with an index f32[2, 1]"),
        (ints(&[2, 1], &[0.0; 2]), 2, "`take_along_axis`: axis 2 is out of range"),
    ] {
        let text = error(&[x.clone(), index], |x| x[0].take_along_axis(x[1], axis)).to_string();
        assert!(text.contains(want), "{text}");
    }
}
