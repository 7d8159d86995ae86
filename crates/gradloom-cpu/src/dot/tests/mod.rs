//! Compares products with loops in f64, for random axes and layouts.

mod epilogues;
mod rounded;
mod stored;

use super::*;
use crate::Loops;
use crate::prepare::{prepare, prepare_at};
use crate::testing::{Job, Random, Tensor, assert_near};
use gradloom_codegen::product::{DotProblem, copied_layout, dot_copies};
use gradloom_core::ir::{DType, DotAxes, Graph, OpKind, Shape};
use gradloom_core::kernel::{Body, Layout};
use gradloom_device::host::Pool;

/// Maximum number of threads that a test uses.
const THREADS: usize = 3;

fn case(axes: &DotAxes, lhs: Tensor, rhs: Tensor) -> Job {
    let (left, right) = (&lhs.layout, &rhs.layout);
    let problem = DotProblem::new(axes, left, right);
    let problem =
        problem.or_else(|| Some(DotProblem::packing(axes, left, right)?.0)).expect("operands that fit");
    let batch: Vec<usize> = axes.lhs_batch.iter().map(|&a| lhs.layout.shape[a]).collect();
    let shape: Shape = [batch, vec![problem.m, problem.n]].concat().into();
    let mut case = Job::of_op(OpKind::Dot(axes.clone()), vec![lhs, rhs], &[(DType::F32, shape)]);
    case.workspace = workspace(&case.launch(), THREADS);
    case
}

fn workspace(launch: &Launch, threads: usize) -> usize {
    gradloom_codegen::cpu::dot_workspace(
        &launch.kernel,
        &launch.reads,
        &launch.writes,
        &launch.may_alias,
        launch.schedule.operands(),
        threads,
    )
}

/// Returns the axes of a product of two matrices.
fn matrix_axes() -> DotAxes {
    DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() }
}

/// Returns a matrix in a random layout, row-major or column-major.
fn matrix(random: &mut Random, [rows, columns]: [usize; 2], by_columns: bool) -> Tensor {
    let order = if by_columns { [1, 0] } else { [0, 1] };
    Tensor::in_order(random, &[rows, columns].into(), &order)
}

/// Computes the product in f64 from its definition, over all index tuples of batch, free and contracted axes.
fn expected(axes: &DotAxes, lhs: &Tensor, rhs: &Tensor) -> Vec<f64> {
    let extents =
        |operand: &Tensor, list: &[usize]| list.iter().map(|&a| operand.layout.shape[a]).collect::<Vec<_>>();
    let free = |operand: &Tensor, batch: &[usize], contract: &[usize]| {
        DotAxes::free(operand.layout.shape.rank(), batch, contract)
    };
    let lhs_free = free(lhs, &axes.lhs_batch, &axes.lhs_contract);
    let rhs_free = free(rhs, &axes.rhs_batch, &axes.rhs_contract);
    let (lhs_values, rhs_values) = (lhs.values(), rhs.values());
    let (lhs_strides, rhs_strides) = (lhs.layout.shape.strides(), rhs.layout.shape.strides());
    let step = |index: &[usize], list: &[usize], strides: &[usize]| -> usize {
        index.iter().zip(list).map(|(i, &a)| i * strides[a]).sum()
    };
    let mut result = Vec::new();
    for b in tuples(&extents(lhs, &axes.lhs_batch)) {
        for i in tuples(&extents(lhs, &lhs_free)) {
            for j in tuples(&extents(rhs, &rhs_free)) {
                let l0 = step(&b, &axes.lhs_batch, &lhs_strides) + step(&i, &lhs_free, &lhs_strides);
                let r0 = step(&b, &axes.rhs_batch, &rhs_strides) + step(&j, &rhs_free, &rhs_strides);
                let sum = tuples(&extents(lhs, &axes.lhs_contract)).into_iter().map(|p| {
                    lhs_values[l0 + step(&p, &axes.lhs_contract, &lhs_strides)]
                        * rhs_values[r0 + step(&p, &axes.rhs_contract, &rhs_strides)]
                });
                result.push(sum.sum());
            }
        }
    }
    result
}

/// Returns all index tuples below the extents, in row-major order.
fn tuples(extents: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &extent in extents {
        all = all.iter().flat_map(|t| (0..extent).map(move |i| [&t[..], &[i]].concat())).collect();
    }
    all
}

/// Returns the copy that lowering makes of an operand that the kernel cannot read in place.
fn copied(operand: Tensor, order: Option<Vec<usize>>) -> Tensor {
    let Some(order) = order else { return operand };
    let permuted = Tensor { layout: operand.layout.permute(&order), ..operand.clone() };
    let words = permuted.elements();
    Tensor { layout: copied_layout(&operand.layout.shape, &order), words, ..operand }
}

fn shuffled(random: &mut Random, count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    (1..count).for_each(|i| all.swap(i, random.below(i + 1)));
    all
}

#[test]
fn random_axes_and_layouts() {
    let mut random = Random(1);
    let mut copies = [0; 3];
    for round in 0..400 {
        let largest = if round % 4 == 0 { 12 } else { 5 };
        let mut some = |most: usize| -> Vec<usize> {
            let count = random.below(most + 1);
            (0..count).map(|_| if random.below(15) == 0 { 0 } else { 1 + random.below(largest) }).collect()
        };
        let (batch, m, n, k) = (some(2), some(2), some(2), some(2));
        // Distribute the axes of each kind over the operand's axes at random.
        let mut scatter = |free: &[usize]| {
            let extents = [&batch[..], free, &k[..]].concat();
            let place = shuffled(&mut random, extents.len());
            let mut shape = vec![0; extents.len()];
            place.iter().zip(&extents).for_each(|(&axis, &extent)| shape[axis] = extent);
            let contract = place[batch.len() + free.len()..].to_vec();
            (Shape::from(shape), place[..batch.len()].to_vec(), contract)
        };
        let (lhs_shape, lhs_batch, lhs_contract) = scatter(&m);
        let (rhs_shape, rhs_batch, rhs_contract) = scatter(&n);
        let axes = DotAxes { lhs_batch, rhs_batch, lhs_contract, rhs_contract };
        let lhs = Tensor::strided(&mut random, &lhs_shape);
        let rhs = Tensor::strided(&mut random, &rhs_shape);
        let expected = expected(&axes, &lhs, &rhs);

        // If the left operand fits, a right operand in any layout is packed without a copy.
        if DotProblem::packing(&axes, &lhs.layout, &rhs.layout).is_some() {
            let case = case(&axes, lhs.clone(), rhs.clone());
            for level in InstructionSet::available() {
                let kernel = prepare_at(&case.launch(), &Graph::new(), level, Loops::Native);
                let result = case.run_on(&*kernel, &Pool::new(2)).unwrap()[0].elements();
                assert_near(&format!("round {round}, packed, {level:?}: {axes:?}"), &result, &expected, 1e-5);
            }
        }
        let needed = dot_copies(&axes, &lhs.layout, &rhs.layout);
        copies[usize::from(needed.lhs.is_some()) + usize::from(needed.rhs.is_some())] += 1;
        let case = case(&axes, copied(lhs, needed.lhs), copied(rhs, needed.rhs));
        for level in InstructionSet::available() {
            let kernel = prepare_at(&case.launch(), &Graph::new(), level, Loops::Native);
            let result = case.run_on(&*kernel, &Pool::new(2)).unwrap()[0].elements();
            assert_near(&format!("round {round}, {level:?}: {axes:?}"), &result, &expected, 1e-5);
        }
    }
    assert!(copies.iter().all(|&count| count > 20), "too few rounds with 0, 1 or 2 copies: {copies:?}");
}

/// Checks a product of matrices with every instruction set on 1, 2 and 3 threads.
fn check(random: &mut Random, [m, n, k]: [usize; 3], lhs_by_columns: bool, rhs_by_columns: bool) {
    let axes = matrix_axes();
    let lhs = matrix(random, [m, k], lhs_by_columns);
    let rhs = matrix(random, [k, n], rhs_by_columns);
    let (l, r) = (lhs.values(), rhs.values());
    let at = |i, j| (0..k).map(|p| l[i * k + p] * r[p * n + j]).sum();
    let expected: Vec<f64> = (0..m).flat_map(|i| (0..n).map(move |j| at(i, j))).collect();
    let case = case(&axes, lhs, rhs);
    for level in InstructionSet::available() {
        let result =
            case.run_on_all_pools(&*prepare_at(&case.launch(), &Graph::new(), level, Loops::Native)).unwrap();
        let what = format!("{m}x{n}x{k} {lhs_by_columns} {rhs_by_columns}, {level:?}");
        assert_near(&what, &result[0], &expected, 1e-4);
    }
}

#[test]
fn sizes_around_those_of_registers() {
    let mut random = Random(4);
    for size in 1..=70 {
        let other = [1 + random.below(70), 1 + random.below(70)];
        for (i, extents) in
            [[size, other[0], other[1]], [other[0], size, other[1]], [other[0], other[1], size]]
                .into_iter()
                .enumerate()
        {
            check(&mut random, extents, (size + i) % 2 == 0, (size / 2 + i) % 2 == 0);
        }
    }
}

#[test]
fn large_products_agree_on_all_pools() {
    // Each case is (m, n, k, left column-major, right column-major). The cases cover both kinds of panels,
    // edges, several blocks of the contracted index, split-K sums and vectors.
    let shapes = [
        (300, 200, 130, false, false),
        (300, 200, 600, false, true),
        (70, 331, 260, true, false),
        (600, 300, 40, true, true),
        (33, 40, 5000, true, false),
        (1, 3000, 301, false, false),
        (1, 700, 301, false, true),
        (3, 700, 301, false, true),
        (2000, 1, 300, false, false),
        (2000, 1, 300, true, false),
        (900, 3, 1, false, false),
        (60, 4200, 20, false, false),
        (1, 1, 5000, false, false),
    ];
    let mut random = Random(2);
    for (m, n, k, lhs_by_columns, rhs_by_columns) in shapes {
        check(&mut random, [m, n, k], lhs_by_columns, rhs_by_columns);
    }
}

#[test]
fn an_empty_sum_is_zero_and_an_empty_result_is_nothing() {
    let axes = matrix_axes();
    for (m, n, k) in [(3, 50, 0), (0, 4, 5), (4, 0, 5), (0, 0, 0)] {
        let mut random = Random(3);
        let lhs = Tensor::dense(&mut random, &[m, k].into());
        let rhs = Tensor::dense(&mut random, &[k, n].into());
        let case = case(&axes, lhs, rhs);
        let kernel = prepare(&case.launch(), &Graph::new());
        assert_eq!(case.run_on_all_pools(&*kernel).unwrap()[0], vec![0; m * n]);
    }
}

#[test]
fn not_a_number_and_infinity_times_zero_spread() {
    let axes = matrix_axes();
    for (size, special) in [(2, f32::NAN), (40, f32::NAN), (5, f32::INFINITY), (70, f32::NEG_INFINITY)] {
        let mut lhs = vec![0.0; size * size];
        lhs[0] = special;
        let rhs = vec![0.0; size * size];
        let case = case(&axes, Tensor::f32([size, size], &lhs), Tensor::f32([size, size], &rhs));
        let kernel = prepare(&case.launch(), &Graph::new());
        let result = &case.run_on_all_pools(&*kernel).unwrap()[0];
        for (i, &bits) in result.iter().enumerate() {
            assert_eq!(f32::from_bits(bits).is_nan(), i < size, "element {i} of {size}x{size}");
        }
    }
}

/// The windows of a convolution are the right operand of its result and of its weight's gradient. They are
/// read in place if they consist of runs that fill vectors, and packed otherwise.
#[test]
fn windows_in_place_and_packed() {
    let mut random = Random(5);
    let (mut in_place, mut packed) = (0, 0);
    // Each case has output and input channels, extents of the kernel, extents of the result, and a stride.
    let shapes = [
        ([32, 5], [3, 3], [8, 32], 1),
        ([64, 64], [3, 3], [4, 16], 1),
        ([13, 40], [3, 3], [5, 28], 1),
        ([7, 3], [1, 5], [3, 45], 1),
        ([2, 3], [3, 1], [3, 14], 1),
        ([1, 2], [2, 2], [40, 48], 1),
        ([40, 6], [3, 3], [9, 7], 1),
        ([40, 3], [3, 3], [9, 32], 2),
    ];
    for ([out, channels], [height, width], [rows, columns], step) in shapes {
        let (images, stride) = (2, (columns - 1) * step + width + random.below(3));
        let plane = ((rows - 1) * step + height) * stride;
        let windows = Layout {
            offset: random.below(4),
            shape: [images, channels, height, width, rows, columns].into(),
            strides: vec![channels * plane, plane, stride, 1, step * stride, step],
        };
        let image = Tensor::dense(&mut random, &[windows.end() + 3].into());
        let windows = Tensor { layout: windows, ..image };
        let weight = Tensor::dense(&mut random, &[out, channels, height, width].into());
        let gradient = Tensor::dense(&mut random, &[images, out, rows, columns].into());
        let gradient = Tensor { layout: gradient.layout.permute(&[1, 0, 2, 3]), ..gradient };
        let forward =
            DotAxes { lhs_contract: vec![1, 2, 3], rhs_contract: vec![1, 2, 3], ..DotAxes::default() };
        let backward =
            DotAxes { lhs_contract: vec![1, 2, 3], rhs_contract: vec![0, 4, 5], ..DotAxes::default() };
        let copied = copied(gradient, Some(vec![0, 1, 2, 3]));
        for (axes, lhs) in [(forward, weight), (backward, copied)] {
            let expected = expected(&axes, &lhs, &windows);
            let case = case(&axes, lhs, windows.clone());
            for level in InstructionSet::available() {
                let kernel = prepare_at(&case.launch(), &Graph::new(), level, Loops::Native);
                let launch = case.launch();
                let plan = DotPlan::new(
                    &launch.kernel,
                    &launch.reads,
                    &launch.writes,
                    &launch.may_alias,
                    DType::F32,
                );
                *if plan.unwrap().packs_right { &mut packed } else { &mut in_place } += 1;
                let result = case.run_on_all_pools(&*kernel).unwrap();
                let what = format!("{out} of {channels}, {rows}x{columns}, step {step}, {level:?}: {axes:?}");
                assert_near(&what, &result[0], &expected, 1e-4);
            }
        }
    }
    assert!(in_place > 0 && packed > 0, "{in_place} in place, {packed} packed");
}
