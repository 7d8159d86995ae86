//! Products against loops in float64, over random axes and layouts.

use super::*;
use crate::cpu::Pool;
use crate::cpu::strided::{Case, Operand, Random, assert_close};
use gradloom_codegen::cpu::{copied_layout, dot_copies, dot_workspace};
use gradloom_core::ir::{DType, OpKind, Shape};

fn case(axes: &DotAxes, lhs: Operand, rhs: Operand) -> Case {
    let problem = DotProblem::new(axes, &lhs.layout, &rhs.layout).expect("operands that fit");
    let batch: Vec<usize> = axes.lhs_batch.iter().map(|&a| lhs.layout.shape[a]).collect();
    let shape: Shape = [batch, vec![problem.m, problem.n]].concat().into();
    Case {
        kind: OpKind::Dot(axes.clone()),
        reads: vec![lhs, rhs],
        results: vec![(DType::F32, shape)],
        workspace: dot_workspace(&problem),
    }
}

/// The product in float64, from the definition: all index tuples of batch, free and contracted axes.
fn expected(axes: &DotAxes, lhs: &Operand, rhs: &Operand) -> Vec<f64> {
    let extents =
        |operand: &Operand, list: &[usize]| list.iter().map(|&a| operand.layout.shape[a]).collect::<Vec<_>>();
    let free = |operand: &Operand, batch: &[usize], contract: &[usize]| {
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

/// All index tuples below the extents, in row-major order.
fn tuples(extents: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &extent in extents {
        all = all.iter().flat_map(|t| (0..extent).map(move |i| [&t[..], &[i]].concat())).collect();
    }
    all
}

/// What lowering does for an operand that does not fit.
fn copied(operand: Operand, order: Option<Vec<usize>>) -> Operand {
    let Some(order) = order else { return operand };
    let permuted = Operand { layout: operand.layout.permute(&order), ..operand.clone() };
    let buffer = permuted.positions().into_iter().map(|p| operand.buffer[p]).collect();
    Operand { layout: copied_layout(&operand.layout.shape, &order), buffer, ..operand }
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
        // Axes of each kind, scattered over the operand's axes.
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
        let lhs = Operand::random(&mut random, &lhs_shape);
        let rhs = Operand::random(&mut random, &rhs_shape);
        let expected = expected(&axes, &lhs, &rhs);

        let needed = dot_copies(&axes, &lhs.layout, &rhs.layout);
        copies[usize::from(needed.lhs.is_some()) + usize::from(needed.rhs.is_some())] += 1;
        let case = case(&axes, copied(lhs, needed.lhs), copied(rhs, needed.rhs));
        let kernel = prepare_dot(&case.launch(), &axes);
        let result = case.run(&*kernel, &Pool::new(2)).unwrap();
        assert_close(&format!("round {round}: {axes:?}"), &result[0], &expected, 1e-5);
    }
    assert!(copies.iter().all(|&count| count > 20), "too few rounds with 0, 1 or 2 copies: {copies:?}");
}

#[test]
fn large_products_agree_on_all_pools() {
    // (m, n, k, left transposed, right transposed): panels of both kinds, edges, split sums, matrix-vector products.
    let shapes = [
        (300, 200, 130, false, false),
        (300, 200, 130, false, true),
        (70, 331, 260, true, false),
        (33, 40, 5000, true, false),
        (1, 3000, 301, false, false),
        (1, 700, 301, false, true),
        (2000, 1, 300, false, false),
        (900, 3, 1, false, false),
    ];
    let mut random = Random(2);
    for (m, n, k, lhs_transposed, rhs_transposed) in shapes {
        let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() };
        let mut operand = |rows: usize, columns: usize, transposed: bool| {
            let order = if transposed { [1, 0] } else { [0, 1] };
            Operand::in_order(&mut random, &[rows, columns].into(), &order)
        };
        let (lhs, rhs) = (operand(m, k, lhs_transposed), operand(k, n, rhs_transposed));
        let case = case(&axes, lhs, rhs);
        let kernel = prepare_dot(&case.launch(), &axes);
        let result = case.run_on_all_pools(&*kernel).unwrap();
        let (lhs, rhs) = (case.reads[0].values(), case.reads[1].values());
        let at = |i, j| (0..k).map(|p| lhs[i * k + p] * rhs[p * n + j]).sum();
        let expected: Vec<f64> = (0..m).flat_map(|i| (0..n).map(move |j| at(i, j))).collect();
        assert_close(&format!("{m}x{n}x{k}"), &result[0], &expected, 1e-4);
    }
}

#[test]
fn an_empty_sum_is_zero_and_an_empty_result_is_nothing() {
    let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() };
    for (m, n, k) in [(3, 50, 0), (0, 4, 5), (4, 0, 5), (0, 0, 0)] {
        let mut random = Random(3);
        let lhs = Operand::dense(&mut random, &[m, k].into());
        let rhs = Operand::dense(&mut random, &[k, n].into());
        let case = case(&axes, lhs, rhs);
        let kernel = prepare_dot(&case.launch(), &axes);
        assert_eq!(case.run_on_all_pools(&*kernel).unwrap()[0], vec![0; m * n]);
    }
}

#[test]
fn not_a_number_spreads() {
    let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() };
    for size in [2, 40] {
        let mut lhs = vec![0.0; size * size];
        lhs[0] = f32::NAN;
        let rhs = vec![0.0; size * size];
        let case = case(&axes, Operand::f32([size, size], &lhs), Operand::f32([size, size], &rhs));
        let kernel = prepare_dot(&case.launch(), &axes);
        let result = &case.run_on_all_pools(&*kernel).unwrap()[0];
        for (i, &bits) in result.iter().enumerate() {
            assert_eq!(f32::from_bits(bits).is_nan(), i < size, "element {i} of {size}x{size}");
        }
    }
}
