//! Compares products whose right operands are stored in blocks or as 16-bit floats with f64 products of the
//! decoded operands.

use super::*;
use crate::testing::element_bits;
use gradloom_core::ir::BlockFormat;

/// Returns `rows` rows of random blocks that hold `elements` numbers each, and the decoded numbers.
fn blocks(random: &mut Random, format: BlockFormat, rows: usize, elements: usize) -> (Tensor, Vec<f64>) {
    let size = format.block_bytes();
    let row = format.bytes_of(elements).unwrap();
    let mut bytes: Vec<u8> = (0..rows * row).map(|_| random.below(256) as u8).collect();
    for block in bytes.chunks_exact_mut(size) {
        // Use scales of either sign and of magnitude about 2^-6.
        let scale = 0x2000 + random.below(0x800) + random.below(2) * 0x8000;
        block[..2].copy_from_slice(&(scale as u16).to_le_bytes());
    }
    let numbers = bytes.chunks_exact(size).flat_map(|block| format.decode(block)).map(f64::from).collect();
    let bits: Vec<u32> = bytes.into_iter().map(u32::from).collect();
    (element_bits(DType::U8, [rows, row], &bits), numbers)
}

/// Checks `[m, k] x [k, n]`, where `right[j, p]` is the decoded right operand.
fn check(lhs: Tensor, axes: &DotAxes, rhs: Tensor, blocks: Option<BlockFormat>, right: &[f64], what: &str) {
    let (m, k) = (lhs.layout.shape[0], lhs.layout.shape[1]);
    let n = right.len() / k.max(1);
    let left = lhs.values();
    let at = |i, j| (0..k).map(|p| left[i * k + p] * right[j * k + p]).sum();
    let expected: Vec<f64> = (0..m).flat_map(|i| (0..n).map(move |j| at(i, j))).collect();
    let mut case = Job::of_op(OpKind::Dot(axes.clone()), vec![lhs, rhs], &[(DType::F32, [m, n].into())]);
    let launch = |case: &Job| {
        let mut launch = case.launch();
        launch.reads[1].blocks = blocks;
        launch
    };
    case.workspace = workspace(&launch(&case), THREADS);
    for level in InstructionSet::available() {
        let kernel = prepare_at(&launch(&case), &Graph::new(), level, Loops::Native);
        let result = case.run_on_all_pools(&*kernel).unwrap();
        assert_near(&format!("{what}, {level:?}"), &result[0], &expected, 1e-4);
    }
}

/// Extents (m, n, k): few and many rows, edges of groups and panels, several blocks of contracted indices, a
/// single column.
const EXTENTS: [[usize; 3]; 9] = [
    [1, 1, 32],
    [1, 70, 96],
    [2, 37, 64],
    [3, 9, 800],
    [4, 300, 160],
    [5, 70, 32],
    [33, 131, 416],
    [70, 1, 96],
    [300, 260, 1056],
];

#[test]
fn weights_in_blocks() {
    let mut random = Random(8);
    let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![1], ..DotAxes::default() };
    for format in BlockFormat::ALL {
        for [m, n, k] in EXTENTS {
            // Use some column-major left operands, because rows need not be contiguous.
            let by_columns = random.below(3) == 0;
            let lhs = matrix(&mut random, [m, k], by_columns);
            let (rhs, right) = blocks(&mut random, format, n, k);
            check(lhs, &axes, rhs, Some(format), &right, &format!("{format} {m}x{n}x{k} {by_columns}"));
        }
    }
}

#[test]
fn floats_of_16_bits_in_every_layout() {
    let mut random = Random(9);
    let by_rows = matrix_axes();
    let by_columns = DotAxes { rhs_contract: vec![1], ..matrix_axes() };
    for dtype in [DType::F16, DType::BF16] {
        for [m, n, k] in EXTENTS.map(|[m, n, k]| [m, n, k - 1]) {
            for (axes, shape) in [(&by_columns, [n, k]), (&by_rows, [k, n])] {
                let values: Vec<f32> = (0..n * k).map(|_| random.float()).collect();
                let bits: Vec<u32> = values.iter().map(|&x| dtype.narrow_bits(x).into()).collect();
                let number = |i: usize| f64::from(dtype.of_narrow_bits(bits[i] as u16));
                let right: Vec<f64> = match axes.rhs_contract == [1] {
                    true => (0..n * k).map(number).collect(),
                    false => (0..n).flat_map(|j| (0..k).map(move |p| p * n + j)).map(number).collect(),
                };
                let lhs_by_columns = random.below(2) == 0;
                let lhs = matrix(&mut random, [m, k], lhs_by_columns);
                let rhs = element_bits(dtype, shape, &bits);
                check(lhs, axes, rhs, None, &right, &format!("{dtype} {m}x{n}x{k} as {shape:?}"));
            }
        }
    }
}

/// A block whose scale is NaN makes its own column of the result NaN, and no other.
#[test]
fn not_a_number_spreads_along_its_column() {
    let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![1], ..DotAxes::default() };
    for format in BlockFormat::ALL {
        for m in [1, 40] {
            let mut random = Random(10);
            let (mut rhs, _) = blocks(&mut random, format, 50, 64);
            let at = 7 * 2 * format.block_bytes();
            rhs.set(at + 1, 0x7e);
            let lhs = Tensor::dense(&mut random, &[m, 64].into());
            let shapes = [(DType::F32, [m, 50].into())];
            let mut case = Job::of_op(OpKind::Dot(axes.clone()), vec![lhs, rhs], &shapes);
            let mut launch = case.launch();
            launch.reads[1].blocks = Some(format);
            case.workspace = workspace(&launch, THREADS);
            launch.workspace = case.workspace as u64;
            let kernel = prepare(&launch, &Graph::new());
            for (i, &bits) in case.run_on_all_pools(&*kernel).unwrap()[0].iter().enumerate() {
                assert_eq!(f32::from_bits(bits).is_nan(), i % 50 == 7, "{format}, element {i}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "dot: lowering left operands that must be copied first")]
fn blocks_that_are_not_whole_are_refused() {
    let mut random = Random(11);
    let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![1], ..DotAxes::default() };
    let (rhs, _) = blocks(&mut random, BlockFormat::Q8_0, 3, 64);
    let lhs = Tensor::dense(&mut random, &[2, 96].into());
    let mut launch =
        Job::of_op(OpKind::Dot(axes.clone()), vec![lhs, rhs], &[(DType::F32, [2, 3].into())]).launch();
    launch.reads[1].blocks = Some(BlockFormat::Q8_0);
    prepare(&launch, &Graph::new());
}
