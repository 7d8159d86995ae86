//! Compares cumulative reductions and sorts with their definitions: short and long rows, in any layout, with
//! ties, NaN and infinities.

use super::{prepare_cumulate, prepare_sort};
use crate::testing::{Job, Random, Tensor, assert_near};
use gradloom_codegen::cpu::{Rows, SortPlan, cumulate_workspace};
use gradloom_core::ir::{DType, OpKind, ReduceOp, Shape};
use std::cmp::Ordering;

/// Rows and extents: single elements, part of a block, short rows, several pieces.
const SHAPES: [[usize; 2]; 8] =
    [[1, 1], [3, 5], [7, 64], [40, 300], [2, 4096], [3, 4097], [1, 100_000], [2, 70_001]];

fn operands(random: &mut Random, dtype: DType, shape: &Shape) -> [Tensor; 2] {
    [Tensor::contiguous(random, dtype, shape), Tensor::random(random, dtype, shape)]
}

#[test]
fn cumulative_reductions() {
    let mut random = Random(31);
    for [rows, extent] in SHAPES {
        let shape = Shape::from([rows, extent]);
        for dtype in [DType::F32, DType::I32, DType::U32] {
            for x in operands(&mut random, dtype, &shape) {
                for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
                    for reverse in [false, true] {
                        check_cumulate(&x, op, reverse);
                    }
                }
            }
        }
    }
}

fn check_cumulate(x: &Tensor, op: ReduceOp, reverse: bool) {
    let shape = x.layout.shape.clone();
    let extent = shape[shape.rank() - 1];
    let mut expected = x.values();
    for row in expected.chunks_mut(extent) {
        let mut sum = op.identity(x.dtype).as_f64();
        for i in 0..extent {
            let at = if reverse { extent - 1 - i } else { i };
            sum = match x.dtype {
                DType::F32 => op.combiner().float(sum, row[at]),
                _ => {
                    let wide = op.combiner().int(sum as i64, row[at] as i64).unwrap();
                    if x.dtype == DType::I32 { f64::from(wide as i32) } else { f64::from(wide as u32) }
                }
            };
            row[at] = sum;
        }
    }
    // Round to f32, whose range a product of floats may exceed.
    expected.iter_mut().filter(|_| x.dtype == DType::F32).for_each(|x| *x = f64::from(*x as f32));
    let kind = OpKind::Cumulate { op, reverse };
    let mut job = Job::of_op(kind, vec![x.clone()], &[(x.dtype, shape)]);
    job.workspace = cumulate_workspace(&job.launch().reads[0]);
    let got = job.run(|launch, level, _| prepare_cumulate(launch, op, reverse, level)).unwrap();
    for (i, (&got, &expected)) in got[0].iter().zip(&expected).enumerate() {
        let same = got == expected || got.is_nan() && expected.is_nan();
        let near = x.dtype == DType::F32 && (got - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        assert!(same || near, "{op:?} {reverse} of {:?}: element {i} is {got}, not {expected}", x.layout);
    }
}

#[test]
fn rows_in_order() {
    let mut random = Random(32);
    for [rows, extent] in SHAPES {
        for dtype in [DType::F32, DType::I32, DType::U32] {
            let shape = Shape::from([rows, extent]);
            for (round, mut x) in operands(&mut random, dtype, &shape).into_iter().enumerate() {
                if round == 0 {
                    special(&mut x);
                }
                for count in [1, 2, extent / 64, extent / 2, extent] {
                    if (1..=extent).contains(&count) {
                        check_sort(&x, count, false);
                        check_sort(&x, count, true);
                    }
                }
            }
        }
    }
}

/// Inserts ties and special floats into a contiguous operand.
fn special(x: &mut Tensor) {
    let numbers = [f32::NAN, f32::INFINITY, -0.0, 0.0, f32::NEG_INFINITY, -f32::NAN];
    for place in x.positions() {
        match place % 29 {
            at if x.dtype == DType::F32 && at < numbers.len() => x.words[place] = numbers[at].to_bits(),
            7..12 => x.words[place] = 3,
            _ => {}
        }
    }
}

fn check_sort(x: &Tensor, count: usize, descending: bool) {
    let shape = x.layout.shape.clone();
    let (rows, extent) = (shape[0], shape[1]);
    let (values, bits) = (x.values(), x.elements());
    let (mut expected, mut indices) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let value = |i: &usize| values[row * extent + i];
        let mut order: Vec<usize> = (0..extent).collect();
        order.sort_by(|a, b| {
            let (a, b) = (value(a), value(b));
            let ascending = a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
            if descending { Ordering::reverse(ascending) } else { ascending }
        });
        expected.extend(order[..count].iter().map(|i| bits[row * extent + i]));
        indices.extend(order[..count].iter().map(|&i| i as u32));
    }
    let kind = OpKind::Sort { count, descending };
    let results = [(x.dtype, Shape::from([rows, count])), (DType::I32, Shape::from([rows, count]))];
    let mut job = Job::of_op(kind, vec![x.clone()], &results);
    let plan = Rows::of(&job.launch().reads[0]);
    job.workspace = SortPlan::new(plan, count).workspace(plan, count);
    let kernel = |level| prepare_sort(&job.launch(), count, descending, level);
    for level in crate::InstructionSet::available() {
        let got = job.run_on_all_pools(&*kernel(level)).unwrap();
        let what = || format!("{count} of {:?}, descending {descending}", x.layout);
        assert!(got[1] == indices, "indices of {}", what());
        assert!(got[0] == expected, "elements of {}", what());
    }
}

#[test]
fn a_long_sum_loses_nothing() {
    let elements = 3_000_000;
    let x = Tensor::f32([elements], &vec![0.1; elements]);
    let kind = OpKind::Cumulate { op: ReduceOp::Sum, reverse: false };
    let mut job = Job::of_op(kind, vec![x], &[(DType::F32, [elements].into())]);
    job.workspace = cumulate_workspace(&job.launch().reads[0]);
    let kernel = prepare_cumulate(&job.launch(), ReduceOp::Sum, false, crate::InstructionSet::detect());
    let got = job.run_on_all_pools(&*kernel).unwrap();
    let expected: Vec<f64> = (1..=elements).map(|i| i as f64 * f64::from(0.1f32)).collect();
    assert_near("sum", &got[0], &expected, 1e-7);
}
