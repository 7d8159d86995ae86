//! Rotary position embedding.

use super::{assert_near, check_gradients, drawn, error, floats, ints, value};

/// Rotates each pair of elements of the two halves by its angle.
fn turned(x: &[f64], time: usize, depth: usize, base: f64) -> Vec<f64> {
    let half = depth / 2;
    let mut y = vec![0.0; x.len()];
    for row in 0..x.len() / depth.max(1) {
        for i in 0..half {
            let angle = (row % time) as f64 / base.powf(2.0 * i as f64 / depth as f64);
            let (a, b) = (x[row * depth + i], x[row * depth + half + i]);
            y[row * depth + i] = a * angle.cos() - b * angle.sin();
            y[row * depth + half + i] = b * angle.cos() + a * angle.sin();
        }
    }
    y
}

#[test]
fn pairs_turn_by_their_angles() {
    for shape in [&[5, 6][..], &[1, 2], &[2, 3, 7, 4], &[300, 2], &[3, 0], &[0, 4], &[2, 0, 3, 2]] {
        let [.., time, depth] = *shape else { unreachable!() };
        for base in [10_000.0, 3.0] {
            let x = drawn(shape, 8);
            let want = turned(&x.data, time, depth, base);
            // The tolerance is that of f32, the dtype of the constant cosines and sines.
            assert_near(&value(&[x], |x| x[0].rope(base)), shape, &want, 2e-7);
        }
    }
    check_gradients(&[drawn(&[2, 3, 4], 9)], |x| x[0].rope(10_000.0));
}

#[test]
fn products_depend_on_distances_alone() {
    // Queries and keys are the same at every position, so scores depend on the rotation alone.
    let (q, k) = (drawn(&[1, 6], 1), drawn(&[1, 6], 2));
    let scores = value(&[q, k], |x| {
        let [q, k] = [x[0], x[1]].map(|t| t.broadcast_to([5, 6]).rope(100.0));
        q.matmul(k.transpose(0, 1))
    });
    let scores = scores.to_f64();
    for i in 1..4 {
        for j in 1..4 {
            assert!((scores[i * 5 + j] - scores[(i + 1) * 5 + j + 1]).abs() < 1e-6, "{i} {j}");
        }
    }
    assert!((scores[1] - scores[5]).abs() > 1e-3, "before and after differ");
}

#[test]
fn what_does_not_fit_is_named() {
    for (x, base, want) in [
        (floats(&[2, 3], &[0.0; 6]), 10.0, "`rope` of [2, 3]: the depth 3 (last axis) is odd"),
        (floats(&[4], &[0.0; 4]), 10.0, "it takes [.., time, depth]"),
        (ints(&[2, 2], &[0.0; 4]), 10.0, "`rope` of i32[2, 2]"),
        (floats(&[2, 2], &[0.0; 4]), 0.0, "the base is finite and above 0"),
        (floats(&[2, 2], &[0.0; 4]), f64::NAN, "`rope`: the base is NaN"),
    ] {
        let text = error(&[x], |x| x[0].rope(base)).to_string();
        assert!(text.contains(want), "{text}");
    }
}

#[test]
fn as_many_positions_as_no_memory_holds_are_refused() {
    let x = || gradloom_core::trace::full(gradloom_core::ir::DType::F32, [1 << 40, 2], 0.0);
    let text = error(&[], |_| x().rope(10_000.0)).to_string();
    assert!(text.contains("take fewer positions"), "{text}");
}
