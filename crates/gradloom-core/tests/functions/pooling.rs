//! Maximum pooling: of equal elements, the first in row-major order gets the gradient, and padding gets none.

use super::{Value, floats, run_as};
use gradloom_core::trace::{PoolOptions, Tensor, gradients};
use gradloom_testing::random::Random;

/// Computes the maximum of each window of an image, and the gradient of `sum(y · (1, 2, ..))`, by PyTorch's
/// loop: a later element wins if it is larger, or if it is the first NaN.
fn by_loops(image: &[f64], [height, width]: [usize; 2], windows: &[[usize; 4]]) -> (Vec<f64>, Vec<f64>) {
    let (mut values, mut slopes) = (Vec::new(), vec![0.0; height * width]);
    for (number, &[top, bottom, left, right]) in windows.iter().enumerate() {
        let places = (top..bottom).flat_map(|row| (left..right).map(move |column| row * width + column));
        let best = places.reduce(|a, b| {
            let wins = image[b] > image[a] || (image[b].is_nan() && !image[a].is_nan());
            if wins { b } else { a }
        });
        let best = best.expect("a window has elements");
        values.push(image[best]);
        slopes[best] += 1.0 + number as f64;
    }
    (values, slopes)
}

fn found(image: &Value, f: impl Fn(Tensor) -> Tensor) -> [Vec<f64>; 2] {
    let results = run_as(false, std::slice::from_ref(image), |x| {
        let y = f(x[0]);
        let count = y.shape().elements();
        let weights: Vec<f32> = (0..count).map(|i| 1.0 + i as f32).collect();
        let weights = gradloom_core::trace::literal(&weights, y.shape());
        // Multiply only finite elements in the first term, and only the other elements in the second, so that
        // the gradient with respect to each element is its weight.
        let loss =
            (y.is_finite().select(y, 0.0) * weights).sum() + y.is_finite().select(0.0, y * weights).sum();
        vec![y, gradients(loss, [x[0]])[0]]
    });
    let results = results.unwrap_or_else(|error| panic!("{error}"));
    [results[0].to_f64(), results[1].to_f64()]
}

#[track_caller]
fn assert_same(got: &[f64], want: &[f64], what: &str) {
    let same =
        got.len() == want.len() && got.iter().zip(want).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
    assert!(same, "{what}: {got:?}, not {want:?}");
}

/// Draws an image with few distinct elements, so that there are ties.
fn image(random: &mut Random, shape: [usize; 2]) -> Value {
    let kinds = [-1.0, 0.0, 0.0, 2.0, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NAN, f64::INFINITY];
    // Images of finite numbers, of finite numbers and -inf, and of all kinds.
    let among = [4, 6, 6, 8][(random.uniform(0.0, 4.0)) as usize];
    let mut pick = || kinds[random.uniform(0.0, among as f64) as usize];
    let data: Vec<f64> = (0..shape[0] * shape[1]).map(|_| pick()).collect();
    floats(&[1, 1, shape[0], shape[1]], &data)
}

#[test]
fn the_first_of_equals_gets_the_gradient() {
    let mut random = Random::new(44);
    let mut count = 0;
    for height in 1..5 {
        for width in 1..5 {
            for (size, stride) in [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 3)] {
                for padding in 0..=size / 2 {
                    if size > height.min(width) + 2 * padding {
                        continue;
                    }
                    let along = |extent: usize| {
                        let last = (extent + 2 * padding - size) / stride;
                        let clip = move |at: usize| at.saturating_sub(padding).min(extent);
                        (0..=last).map(move |i| [clip(i * stride), clip(i * stride + size)])
                    };
                    let windows: Vec<[usize; 4]> = along(height)
                        .flat_map(|[top, bottom]| {
                            along(width).map(move |[left, right]| [top, bottom, left, right])
                        })
                        .collect();
                    for _ in 0..4 {
                        let x = image(&mut random, [height, width]);
                        let options = || PoolOptions::new().stride(stride).padding(padding);
                        let [values, slopes] = found(&x, |x| x.max_pool2d(size, options()));
                        let want = by_loops(&x.data, [height, width], &windows);
                        let what = format!("{:?} by {size}, {stride}, {padding}", x.data);
                        assert_same(&values, &want.0, &what);
                        let finite =
                            want.0.iter().all(|value| value.is_finite() || *value == f64::NEG_INFINITY);
                        if finite {
                            assert_same(&slopes, &want.1, &what);
                        }
                        count += 1;
                    }
                }
            }
        }
    }
    println!("{count} images");
}

#[test]
fn adaptive_windows_have_the_same_rule() {
    let mut random = Random::new(45);
    let mut count = 0;
    for height in 1..6 {
        for width in 1..6 {
            for (rows, columns) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (2, 3), (7, 1)] {
                let along = |extent: usize, n: usize| {
                    (0..n).map(move |i| [i * extent / n, ((i + 1) * extent).div_ceil(n)])
                };
                let windows: Vec<[usize; 4]> = along(height, rows)
                    .flat_map(|[top, bottom]| {
                        along(width, columns).map(move |[left, right]| [top, bottom, left, right])
                    })
                    .collect();
                for _ in 0..3 {
                    let x = image(&mut random, [height, width]);
                    let [values, slopes] = found(&x, |x| x.adaptive_max_pool2d([rows, columns]));
                    let want = by_loops(&x.data, [height, width], &windows);
                    let what = format!("{:?} to {rows}, {columns}", x.data);
                    assert_same(&values, &want.0, &what);
                    if want.0.iter().all(|value| value.is_finite() || *value == f64::NEG_INFINITY) {
                        assert_same(&slopes, &want.1, &what);
                    }
                    count += 1;
                }
            }
        }
    }
    println!("{count} images");
}

#[test]
fn a_row_is_pooled_by_the_same_rule() {
    let x = floats(&[1, 1, 4], &[f64::NEG_INFINITY, f64::NEG_INFINITY, 1.0, 1.0]);
    let [values, slopes] = found(&x, |x| x.max_pool1d(2, PoolOptions::new().stride(2).padding(1)));
    assert_eq!(values, [f64::NEG_INFINITY, 1.0, 1.0]);
    assert_eq!(slopes, [1.0, 0.0, 2.0, 3.0]);
}
