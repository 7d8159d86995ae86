//! Compares products of operands that are rounded to bf16 with sums in f64 of the rounded operands.

use super::*;
use crate::device::machine;
use crate::testing::element_bits;
use gradloom_codegen::cpu::{CpuCompiler, panels};
use gradloom_core::ir::half::{from_bf16, to_bf16};
use gradloom_core::kernel::Schedule;

/// Distance between 1 and the next f32.
const EPSILON: f64 = f32::EPSILON as f64;

/// Returns a copy of a tensor of f32 with `f` of each element.
fn map(tensor: &Tensor, f: impl Fn(f32) -> f32) -> Tensor {
    let mut copy = tensor.clone();
    for p in tensor.positions() {
        copy.set(p, f(f32::from_bits(tensor.bits(p))).to_bits());
    }
    copy
}

fn rounded(x: f32) -> f32 {
    from_bf16(to_bf16(x))
}

/// Returns the launch of a product in bf16, and the product with the scratch of that launch.
fn in_bf16(axes: &DotAxes, lhs: Tensor, rhs: Tensor) -> (Launch, Job) {
    let mut case = case(axes, lhs, rhs);
    case.schedule = Schedule::Rounded(DType::BF16);
    case.workspace = workspace(&case.launch(), THREADS);
    (case.launch(), case)
}

/// Checks a product with every instruction set on 1, 2 and 3 threads. Returns the number of elements that are
/// nearer to the product of rounded operands than to that of the operands as they are, by a factor of 4.
fn check(what: &str, axes: &DotAxes, lhs: &Tensor, rhs: &Tensor) -> usize {
    let (launch, case) = in_bf16(axes, lhs.clone(), rhs.clone());
    let Launch { kernel, reads, writes, may_alias, schedule, .. } = &launch;
    let rounds = DotPlan::new(kernel, reads, writes, may_alias, schedule.operands()).unwrap().rounds;
    let terms = axes.lhs_contract.iter().map(|&axis| lhs.layout.shape[axis]).product::<usize>();
    let [l, r] = [lhs, rhs].map(|operand| if rounds { map(operand, rounded) } else { operand.clone() });
    let (wanted, exact) = (expected(axes, &l, &r), expected(axes, lhs, rhs));
    let sizes = expected(axes, &map(&l, f32::abs), &map(&r, f32::abs));
    let mut different = 0;
    for level in InstructionSet::available() {
        let kernel = prepare_at(&launch, &Graph::new(), level, Loops::Native);
        let results = case.run_on_all_pools(&*kernel).unwrap();
        assert_eq!(results[0].len(), wanted.len(), "{what}");
        for (i, &bits) in results[0].iter().enumerate() {
            let (got, bound) = (f64::from(f32::from_bits(bits)), terms as f64 * EPSILON * sizes[i]);
            let off = (got - wanted[i]).abs();
            assert!(
                off <= bound,
                "{what}, {level:?}: element {i} is {got}, expected {} ± {bound}",
                wanted[i]
            );
            different += usize::from((got - exact[i]).abs() > 4.0 * off);
        }
    }
    different
}

#[test]
fn sizes_around_those_of_registers_and_pairs() {
    let (mut random, mut different) = (Random(4), 0);
    for size in 0..=70 {
        let other = [5 + random.below(66), random.below(71)];
        let all = [[size, other[1], other[0]], [other[0], size, other[1]], [other[0], other[1], size]];
        for (i, [m, n, k]) in all.into_iter().enumerate() {
            let lhs = matrix(&mut random, [m, k], (size + i) % 2 == 0);
            let rhs = matrix(&mut random, [k, n], (size / 2 + i) % 2 == 0);
            different += check(&format!("{m}x{n}x{k}"), &matrix_axes(), &lhs, &rhs);
        }
    }
    assert!(different > 1000, "only {different} elements show that operands are rounded");
}

#[test]
fn blocks_of_contracted_indices_and_parts_of_sums() {
    let shapes = [
        (200, 100, 131, false, false),
        (120, 80, 801, false, true),
        (70, 131, 261, true, false),
        (300, 100, 41, true, true),
        (33, 40, 1501, true, false),
        (500, 1, 100, false, false),
        (4, 300, 301, false, true),
        (5, 300, 301, false, true),
        (60, 600, 20, false, false),
    ];
    let mut random = Random(2);
    for (m, n, k, lhs_by_columns, rhs_by_columns) in shapes {
        let lhs = matrix(&mut random, [m, k], lhs_by_columns);
        let rhs = matrix(&mut random, [k, n], rhs_by_columns);
        let different = check(&format!("{m}x{n}x{k}"), &matrix_axes(), &lhs, &rhs);
        // Products of few rows are not rounded, nor are those with one column, whose transpose has one row.
        assert_eq!(different > 0, m > 4 && n > 1, "{m}x{n}x{k}");
    }
}

/// Returns the plan of a product in bf16.
fn plan(axes: &DotAxes, lhs: &Tensor, rhs: &Tensor) -> DotPlan {
    let (launch, _) = in_bf16(axes, lhs.clone(), rhs.clone());
    let Launch { kernel, reads, writes, may_alias, schedule, .. } = &launch;
    DotPlan::new(kernel, reads, writes, may_alias, schedule.operands()).unwrap()
}

#[test]
fn operands_that_several_tasks_read_are_packed_once() {
    let (mut random, mut seen) = (Random(6), Vec::new());
    for [m, n, k] in [[301, 302, 161], [97, 300, 21], [620, 30, 33], [20, 30, 40]] {
        for by_columns in [[true, false], [false, true]] {
            let lhs = matrix(&mut random, [m, k], by_columns[0]);
            let rhs = matrix(&mut random, [k, n], by_columns[1]);
            seen.push(plan(&matrix_axes(), &lhs, &rhs).shares);
            check(&format!("{m}x{n}x{k}, {by_columns:?}"), &matrix_axes(), &lhs, &rhs);
        }
    }
    for wanted in [[false, false], [false, true], [true, false], [true, true]] {
        assert!(seen.contains(&wanted), "no product shares {wanted:?}");
    }
}

#[test]
fn batches_and_stepped_operands_are_packed_once() {
    let (mut random, mut seen) = (Random(8), [0; 3]);
    for (outer, m, n, k) in [(1, 600, 40, 21), (3, 600, 40, 7), (1, 120, 300, 21), (3, 120, 300, 7)] {
        let lhs = Tensor::strided(&mut random, &[2, m, outer * k].into());
        // A window, whose contracted indices have two strides if there are several outer ones.
        let rhs = Tensor::dense(&mut random, &[2, outer, k + 2, n].into());
        let window = rhs.layout.slice(&[0, 0, 1, 0], &[2, outer, k + 1, n], &[1; 4]);
        let rhs = Tensor { layout: window, ..rhs };
        let lhs = Tensor { layout: split(&lhs.layout, outer), ..lhs };
        let axes = DotAxes {
            lhs_batch: vec![0],
            rhs_batch: vec![0],
            lhs_contract: vec![2, 3],
            rhs_contract: vec![1, 2],
        };
        let plan = plan(&axes, &lhs, &rhs);
        let kinds = [plan.shares[0], plan.shares[1], plan.shares[1] && plan.stepped.is_some()];
        (0..3).for_each(|i| seen[i] += usize::from(kinds[i]));
        check(&format!("2 of {m}x{n}, {outer} times {k}"), &axes, &lhs, &rhs);
    }
    assert!(seen.iter().all(|&seen| seen > 0), "{seen:?} operands are packed once");
}

/// Checks elements of a product of row-major matrices at random positions.
fn check_samples(random: &mut Random, extents: [usize; 3]) {
    let [m, n, k] = extents;
    let (lhs, rhs) = (matrix(random, [m, k], true), matrix(random, [k, n], false));
    let (launch, case) = in_bf16(&matrix_axes(), lhs.clone(), rhs.clone());
    let [lhs, rhs] = [&lhs, &rhs].map(|operand| map(operand, rounded).values());
    for level in InstructionSet::available() {
        let kernel = prepare_at(&launch, &Graph::new(), level, Loops::Native);
        let result = case.run_on(&*kernel, &Pool::new(2)).unwrap()[0].elements();
        for _ in 0..500 {
            let (r, c) = (random.below(m), random.below(n));
            let terms = (0..k).map(|p| lhs[r * k + p] * rhs[p * n + c]);
            let (wanted, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            let (got, bound) = (f64::from(f32::from_bits(result[r * n + c])), k as f64 * EPSILON * size);
            let is_near = (got - wanted).abs() <= bound;
            assert!(is_near, "{extents:?}, {level:?}: ({r}, {c}) is {got}, expected {wanted} ± {bound}");
        }
    }
}

#[test]
fn packed_operands_of_several_blocks_of_contracted_indices() {
    let mut random = Random(10);
    let matrices = |[m, n, k]: [usize; 3]| {
        let random = &mut Random(1);
        plan(&matrix_axes(), &matrix(random, [m, k], true), &matrix(random, [k, n], false))
    };
    let [blocks, parts] = [[700, 600, 801], [384, 384, 8191]];
    assert_eq!(matrices(blocks).shares, [true; 2]);
    assert!(matrices(blocks).pack_tasks().iter().any(|task| task.depth.start > 0));
    assert!(matrices(parts).schedule.parts() > 1 && matrices(parts).shares != [false; 2]);
    check_samples(&mut random, blocks);
    check_samples(&mut random, parts);
}

#[test]
fn packing_starts_on_parts_of_operands() {
    let mut random = Random(12);
    let [lhs, rhs] = [matrix(&mut random, [700, 900], false), matrix(&mut random, [900, 600], false)];
    let (launch, _) = in_bf16(&matrix_axes(), lhs, rhs);
    let machine = machine(InstructionSet::detect(), Loops::Native);
    let panels = panels(&launch, &CpuCompiler::new(machine).launch(&launch), 0);
    for operand in 0..2 {
        let elements = launch.reads[operand].layout.shape.elements();
        let own = panels.iter().filter_map(|panel| panel.reads[operand].clone());
        let own: Vec<Range<usize>> = own.filter(|range| !range.is_empty()).collect();
        assert!(
            own.len() > 2 && own.iter().all(|range| range.len() < elements / 3 * 2),
            "{own:?} of {elements}"
        );
    }
    assert!(panels.iter().all(|panel| panel.writes == [Some(0..0)]));
}

#[test]
fn operands_with_any_strides() {
    let (mut random, mut different) = (Random(7), 0);
    let batch = |operand: Vec<usize>, contract: Vec<usize>| (operand, contract);
    for round in 0..100 {
        let [b, m, n, k] =
            [1 + random.below(3), 5 + random.below(20), 1 + random.below(40), 1 + random.below(9)];
        let (lhs_batch, lhs_contract) = batch(vec![0], vec![2]);
        // In half of the rounds, the contracted index of the right operand has two strides.
        let outer = if round % 2 == 0 { 1 } else { 3 };
        let lhs = Tensor::strided(&mut random, &[b, m, outer * k].into());
        let rhs = Tensor::strided(&mut random, &[b, outer, k, n].into());
        let lhs = Tensor { layout: split(&lhs.layout, outer), ..lhs };
        let axes = DotAxes {
            lhs_batch,
            rhs_batch: vec![0],
            lhs_contract: [lhs_contract, vec![3]].concat(),
            rhs_contract: vec![1, 2],
        };
        if DotProblem::packing(&axes, &lhs.layout, &rhs.layout).is_some() {
            different += check(&format!("round {round}"), &axes, &lhs, &rhs);
        }
    }
    assert!(different > 1000, "only {different} elements show that operands are rounded");
}

/// Splits the last axis of a layout into `outer` times the rest.
fn split(layout: &Layout, outer: usize) -> Layout {
    let (mut shape, mut strides) = (layout.shape.to_vec(), layout.strides.clone());
    let (extent, stride) = (shape[2] / outer, strides[2]);
    shape[2] = outer;
    strides[2] = extent * stride;
    shape.push(extent);
    strides.push(stride);
    Layout { shape: shape.into(), strides, ..layout.clone() }
}

/// Runs a product of row-major matrices with every instruction set; the elements.
fn products(lhs: &[f32], rhs: &[f32], [m, n, k]: [usize; 3]) -> Vec<(InstructionSet, Vec<f32>)> {
    let (launch, case) = in_bf16(&matrix_axes(), Tensor::f32([m, k], lhs), Tensor::f32([k, n], rhs));
    let run = |level| {
        let kernel = prepare_at(&launch, &Graph::new(), level, Loops::Native);
        let results = case.run_on_all_pools(&*kernel).unwrap();
        (level, results[0].iter().map(|&bits| f32::from_bits(bits)).collect())
    };
    InstructionSet::available().into_iter().map(run).collect()
}

#[test]
fn not_a_number_and_infinity_come_through() {
    for k in [1, 2, 7, 40] {
        let (m, n) = (6, 19);
        for (special, other) in [
            (f32::NAN, 1.0),
            (f32::from_bits(0x7f80_0001), 1.0),
            (f32::INFINITY, 0.0),
            (f32::INFINITY, 2.0),
            (f32::NEG_INFINITY, 2.0),
            (f32::MAX, 1.0),
        ] {
            let mut lhs = vec![1.0; m * k];
            lhs[k - 1] = special;
            let rhs = vec![other; k * n];
            for (level, result) in products(&lhs, &rhs, [m, n, k]) {
                let wanted = rounded(special) * other;
                for (i, &x) in result.iter().enumerate() {
                    let wanted = if i < n { wanted } else { k as f32 * other };
                    let same = x == wanted || x.is_nan() && wanted.is_nan();
                    assert!(same, "{special} in {k} terms, {level:?}: element {i} is {x}, expected {wanted}");
                }
            }
        }
    }
}

#[test]
fn ties_go_to_even_and_numbers_below_the_normal_ones_are_small() {
    // 1 + 2^-8 and 1 + 3·2^-8 lie in the middle of two bf16.
    let of_bits = |bits| f32::from_bits(bits);
    for (x, wanted) in [(0x3f80_8000, 0x3f80_0000), (0x3f81_8000, 0x3f82_0000), (0x3f80_8001, 0x3f81_0000)] {
        for (level, result) in products(&[of_bits(x); 6 * 3], &[1.0; 3 * 2], [6, 2, 3]) {
            assert!(result.iter().all(|&sum| sum == 3.0 * of_bits(wanted)), "{level:?}: {result:?}");
        }
    }
    // The instructions of AVX512_BF16 and AMX_BF16 take numbers below 2^-126 as zero.
    for (level, result) in products(&[2f32.powi(-130); 5], &[1.0; 2], [5, 2, 1]) {
        let flushed = level >= InstructionSet::Avx512Bf16;
        let wanted = if flushed { 0.0 } else { 2f32.powi(-130) };
        assert_eq!(result, [wanted; 10], "{level:?}");
    }
}

#[test]
fn stored_operands_are_rounded() {
    let mut random = Random(9);
    for (dtype, by_columns, m, n) in [
        (DType::F16, false, 9, 45),
        (DType::F16, true, 650, 100),
        (DType::BF16, true, 9, 45),
        (DType::BF16, false, 650, 100),
    ] {
        let lhs = Tensor::dense(&mut random, &[m, 37].into());
        let shape = if by_columns { [n, 37] } else { [37, n] };
        let bits: Vec<u16> = (0..37 * n).map(|_| dtype.narrow_bits(random.float())).collect();
        let wide: Vec<f32> = bits.iter().map(|&bits| dtype.of_narrow_bits(bits)).collect();
        let bits: Vec<u32> = bits.into_iter().map(u32::from).collect();
        let (rhs, wide) = (element_bits(dtype, shape, &bits), Tensor::f32(shape, &wide));
        let of_columns = |tensor: Tensor| match by_columns {
            true => Tensor { layout: tensor.layout.permute(&[1, 0]), ..tensor },
            false => tensor,
        };
        let [rhs, wide] = [rhs, wide].map(of_columns);
        let (axes, [l, r]) = (matrix_axes(), [&lhs, &wide].map(|operand| map(operand, rounded)));
        let wanted = expected(&axes, &l, &r);
        assert_eq!(plan(&axes, &lhs, &rhs).shares[1], m > 9);
        let (launch, case) = in_bf16(&axes, lhs, rhs);
        for level in InstructionSet::available() {
            let kernel = prepare_at(&launch, &Graph::new(), level, Loops::Native);
            let result = case.run_on_all_pools(&*kernel).unwrap();
            assert_near(&format!("{dtype}, {level:?}"), &result[0], &wanted, 1e-5);
        }
    }
}
