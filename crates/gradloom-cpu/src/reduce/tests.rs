//! Compares reductions of every dtype, over every set of axes of many layouts, with f64 and 64-bit integer
//! arithmetic.

use super::*;
use crate::reduce::combine::{Reducer, with_reducer};
use crate::testing::{Case, Random, Tensor, assert_close};
use gradloom_core::ir::{ArgReduceOp, DType, Number, OpKind, ReduceOp, Shape};
use gradloom_core::kernel::Layout;

/// Groups the row-major elements of a tensor by the output that they are reduced to, in row-major order.
fn groups(x: &Tensor, axes: &[usize]) -> (Shape, Vec<Vec<f64>>) {
    let shape = x.layout.shape.without(axes);
    let mut groups = vec![Vec::new(); shape.elements()];
    let mut strides = shape.strides().into_iter();
    let strides =
        (0..x.layout.shape.rank()).map(|a| if axes.contains(&a) { 0 } else { strides.next().unwrap() });
    let places = Layout { offset: 0, shape: x.layout.shape.clone(), strides: strides.collect() };
    for (value, place) in x.values().into_iter().zip(places.positions()) {
        groups[place].push(value);
    }
    (shape, groups)
}

fn reference(op: ReduceOp, dtype: DType, group: &[f64]) -> f64 {
    let any_nan = group.iter().any(|v| v.is_nan());
    let least = |dtype| match dtype {
        DType::F32 => f64::NEG_INFINITY,
        DType::I32 => f64::from(i32::MIN),
        _ => 0.0,
    };
    let greatest = |dtype| match dtype {
        DType::F32 => f64::INFINITY,
        DType::I32 => f64::from(i32::MAX),
        _ => f64::from(u32::MAX),
    };
    let wrap =
        |value: i64| if dtype == DType::I32 { f64::from(value as i32) } else { f64::from(value as u32) };
    match op {
        ReduceOp::Sum if dtype == DType::F32 => group.iter().sum(),
        ReduceOp::Prod if dtype == DType::F32 => group.iter().product(),
        ReduceOp::Sum => wrap(group.iter().fold(0, |sum, &v| sum + v as i64)),
        ReduceOp::Prod => {
            wrap(group.iter().fold(1i64, |product, &v| i64::from(product.wrapping_mul(v as i64) as u32)))
        }
        _ if any_nan => f64::NAN,
        ReduceOp::Max => group.iter().copied().fold(least(dtype), f64::max),
        ReduceOp::Min => group.iter().copied().fold(greatest(dtype), f64::min),
    }
}

fn subsets(rank: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1usize << rank).map(move |bits| (0..rank).filter(|a| bits >> a & 1 == 1).collect())
}

fn shapes() -> Vec<Shape> {
    let lists: [&[usize]; 8] =
        [&[], &[1], &[1500], &[70, 33], &[3, 1, 40], &[2, 300, 9], &[4, 0, 3], &[600, 20]];
    lists.into_iter().map(Shape::from).collect()
}

#[test]
fn every_reduction_over_every_set_of_axes() {
    let mut random = Random(1);
    for &op in ReduceOp::ALL {
        for dtype in [DType::F32, DType::I32, DType::U32] {
            for shape in shapes() {
                for axes in subsets(shape.rank()) {
                    let mut x = Tensor::random(&mut random, dtype, &shape);
                    if dtype == DType::F32 && matches!(op, ReduceOp::Sum | ReduceOp::Prod) {
                        // Use numbers near 1, so that products neither overflow nor vanish.
                        let values: Vec<f32> =
                            (0..shape.elements()).map(|_| 1.0 + 0.01 * random.float()).collect();
                        x = Tensor::f32(shape.clone(), &values);
                    }
                    let (result, groups) = groups(&x, &axes);
                    if result.elements() == 0 {
                        continue;
                    }
                    let expected: Vec<f64> = groups.iter().map(|group| reference(op, dtype, group)).collect();
                    let kind = OpKind::Reduce { op, axes: axes.clone() };
                    let case = Case::new(kind, vec![x], dtype, result);
                    let got = case.run_loop().unwrap();
                    let tolerance = match op {
                        ReduceOp::Sum => 3e-7,
                        ReduceOp::Prod => 1e-4,
                        ReduceOp::Max | ReduceOp::Min => 0.0,
                    };
                    assert_close(&format!("{op:?} {dtype}{shape} over {axes:?}"), &got, &expected, tolerance);
                }
            }
        }
    }
}

#[test]
fn large_reductions_are_split_and_stay_exact_to_the_last_digits() {
    let mut random = Random(2);
    let cases: [(&[usize], &[usize]); 5] = [
        (&[1_000_003], &[0]),
        (&[9000, 40], &[0]),
        (&[40, 9000], &[1]),
        (&[3, 50_000, 2], &[1]),
        (&[300, 3, 300], &[0, 2]),
    ];
    for (shape, axes) in cases {
        let shape = Shape::from(shape);
        let values: Vec<f32> = (0..shape.elements()).map(|_| random.float().abs()).collect();
        let x = Tensor::f32(shape.clone(), &values);
        let (result, groups) = groups(&x, axes);
        let expected: Vec<f64> = groups.iter().map(|group| group.iter().sum()).collect();
        let kind = OpKind::Reduce { op: ReduceOp::Sum, axes: axes.to_vec() };
        let case = Case::new(kind, vec![x], DType::F32, result);
        let got = case.run_loop().unwrap();
        assert_close(&format!("sum {shape} over {axes:?}"), &got, &expected, 3e-7);
    }
}

#[test]
fn a_nan_anywhere_gives_nan() {
    for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum, ReduceOp::Prod] {
        for at in [0, 31, 32, 599, 1023, 1535] {
            let values: Vec<f32> = (0..1536).map(|i| if i == at { f32::NAN } else { 1.0 }).collect();
            for (shape, axes) in [([1, 1536], [1]), ([1536, 1], [0]), ([96, 16], [0])] {
                let x = Tensor::f32(shape, &values);
                let result = Shape::from(shape).without(&axes);
                let case = Case::new(OpKind::Reduce { op, axes: axes.to_vec() }, vec![x], DType::F32, result);
                let got = case.run_loop().unwrap();
                let nans: Vec<usize> = (0..got.len()).filter(|&i| got[i].is_nan()).collect();
                assert_eq!(
                    nans,
                    [if got.len() == 1 { 0 } else { at % 16 }],
                    "{op:?} {shape:?} with a NaN at {at}"
                );
            }
        }
    }
}

fn arg_reference(op: ArgReduceOp, group: &[f64]) -> f64 {
    let mut best = 0;
    for (i, &v) in group.iter().enumerate() {
        let b = group[best];
        let ahead = match op {
            ArgReduceOp::ArgMax => v > b,
            ArgReduceOp::ArgMin => v < b,
        };
        if ahead || (v.is_nan() && !b.is_nan()) {
            best = i;
        }
    }
    best as f64
}

#[test]
fn positions_of_extreme_elements() {
    let mut random = Random(3);
    for op in [ArgReduceOp::ArgMax, ArgReduceOp::ArgMin] {
        for dtype in [DType::F32, DType::I32, DType::U32] {
            for shape in shapes().into_iter().filter(|shape| shape.elements() > 0) {
                for axis in 0..shape.rank() {
                    let x = Tensor::random(&mut random, dtype, &shape);
                    let (result, groups) = groups(&x, &[axis]);
                    let expected: Vec<f64> = groups.iter().map(|group| arg_reference(op, group)).collect();
                    let case = Case::new(OpKind::ArgReduce { op, axis }, vec![x], DType::I32, result);
                    let got = case.run(|launch, level| prepare_arg(launch, op, axis, level)).unwrap();
                    assert_close(&format!("{op:?} {dtype}{shape} over {axis}"), &got, &expected, 0.0);
                }
            }
        }
    }
}

#[test]
fn the_first_of_equals_and_the_first_nan_win() {
    let argmax = |values: &[f32]| {
        let case = Case::new(
            OpKind::ArgReduce { op: ArgReduceOp::ArgMax, axis: 0 },
            vec![Tensor::f32([values.len()], values)],
            DType::I32,
            Shape::scalar(),
        );
        case.run(|launch, level| prepare_arg(launch, ArgReduceOp::ArgMax, 0, level)).unwrap()[0]
    };
    assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1.0);
    assert_eq!(argmax(&[-0.0, 0.0]), 0.0);
    assert_eq!(argmax(&[f32::NEG_INFINITY; 40]), 0.0);
    assert_eq!(argmax(&[1.0, f32::NAN, f32::INFINITY, f32::NAN]), 1.0);
}

#[test]
fn reducers_start_from_the_identity_of_the_table() {
    for &op in ReduceOp::ALL {
        for dtype in [DType::F32, DType::I32, DType::U32] {
            let own = with_reducer!(op, dtype, F => F::IDENTITY.to_string());
            let of_table = match op.identity(dtype) {
                Number::Float(number) => number.to_string(),
                Number::Int(number) => number.to_string(),
                Number::Bool(_) => unreachable!("reductions are of numbers"),
            };
            assert_eq!(own, of_table, "{} of {dtype}", op.name());
        }
    }
}
