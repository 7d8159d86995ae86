//! Bodies of real programs, compared with f64 results, and corner cases that random bodies rarely cover.

use super::{job, run};
use crate::device::machine;
use crate::fused::program::Program;
use crate::testing::{Random, Tensor, assert_close};
use crate::{InstructionSet, Loops};
use gradloom_codegen::cpu::{CpuCompiler, CpuKernel};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, Number, ReduceOp, Shape, UnaryOp};
use gradloom_core::kernel::{Body, Layout, Level, Node, NodeId, NodeKind, Store};

/// A builder of a body, node by node.
struct Builder(Body);

impl Builder {
    fn new(rows: usize, columns: usize) -> Self {
        Self(Body { rows, columns, nodes: Vec::new(), stores: Vec::new() })
    }

    fn node(&mut self, kind: NodeKind, dtype: DType, level: Level) -> NodeId {
        self.0.nodes.push(Node { kind, dtype, level });
        NodeId(self.0.nodes.len() as u32 - 1)
    }

    fn load(&mut self, read: usize, dtype: DType, level: Level) -> NodeId {
        self.node(NodeKind::Load(read), dtype, level)
    }

    fn number(&mut self, value: f64) -> NodeId {
        self.node(NodeKind::Constant(Number::Float(value)), DType::F32, Level::Uniform)
    }

    fn unary(&mut self, op: UnaryOp, a: NodeId) -> NodeId {
        self.node(NodeKind::Unary(op, a), DType::F32, self.0.node(a).level)
    }

    fn binary(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
        let level = self.0.node(a).level.max(self.0.node(b).level);
        self.node(NodeKind::Binary(op, [a, b]), DType::F32, level)
    }

    fn reduce(&mut self, op: ReduceOp, a: NodeId) -> NodeId {
        self.node(NodeKind::Reduce(op, a), self.0.node(a).dtype, Level::Row)
    }

    fn store(&mut self, node: NodeId, level: Level) {
        let write = self.0.stores.len();
        self.0.stores.push(Store::Value { node, level, write });
    }
}

fn floats(random: &mut Random, shape: &[usize]) -> Tensor {
    let shape = Shape::from(shape);
    let values: Vec<f32> = (0..shape.elements()).map(|_| 3.0 * random.float()).collect();
    Tensor::f32(shape, &values)
}

fn dense(shape: &[usize]) -> (DType, Layout, Option<usize>) {
    (DType::F32, Layout::contiguous(&shape.into()), None)
}

/// Builds (x - mean) · rsqrt(variance + 1e-5) · scale + shift, with the mean and the factor of each row.
fn layer_norm(rows: usize, columns: usize) -> Body {
    let mut b = Builder::new(rows, columns);
    let x = b.load(0, DType::F32, Level::Element);
    let n = b.number(columns as f64);
    let sum = b.reduce(ReduceOp::Sum, x);
    let mean = b.binary(BinaryOp::Div, sum, n);
    let centered = b.binary(BinaryOp::Sub, x, mean);
    let square = b.binary(BinaryOp::Mul, centered, centered);
    let squares = b.reduce(ReduceOp::Sum, square);
    let variance = b.binary(BinaryOp::Div, squares, n);
    let epsilon = b.number(1e-5);
    let variance = b.binary(BinaryOp::Add, variance, epsilon);
    let factor = b.unary(UnaryOp::Rsqrt, variance);
    let normal = b.binary(BinaryOp::Mul, centered, factor);
    let scale = b.load(1, DType::F32, Level::Element);
    let shift = b.load(2, DType::F32, Level::Element);
    let scaled = b.binary(BinaryOp::Mul, normal, scale);
    let result = b.binary(BinaryOp::Add, scaled, shift);
    b.store(result, Level::Element);
    b.store(mean, Level::Row);
    b.store(factor, Level::Row);
    b.0
}

#[test]
fn layer_norm_of_short_and_long_rows() {
    let mut random = Random(1);
    for (rows, columns) in [(40, 64), (7, 65), (20, 768), (3, 20_000), (2, 50_257), (1, 1)] {
        let x = floats(&mut random, &[rows, columns]);
        let repeated = |mut tensor: Tensor| {
            tensor.layout = tensor.layout.broadcast(&[rows, columns].into());
            tensor
        };
        let (scale, shift) = (floats(&mut random, &[1, columns]), floats(&mut random, &[1, columns]));
        let mut expected = [Vec::new(), Vec::new(), Vec::new()];
        for row in x.values().chunks(columns) {
            let mean = row.iter().sum::<f64>() / columns as f64;
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / columns as f64;
            let factor = 1.0 / (variance + 1e-5).sqrt();
            let columns = row.iter().zip(scale.values()).zip(shift.values());
            expected[0].extend(columns.map(|((v, scale), shift)| (v - mean) * factor * scale + shift));
            expected[1].push(mean);
            expected[2].push(factor);
        }
        let body = layer_norm(rows, columns);
        let reads = vec![x, repeated(scale), repeated(shift)];
        let got =
            run(&job(&body, reads, vec![dense(&[rows, columns]), dense(&[rows]), dense(&[rows])])).unwrap();
        for (got, expected) in got.iter().zip(&expected) {
            // Sums of numbers of both signs cancel, so the error is compared with the size of the terms.
            let lift = |values: &[f64]| values.iter().map(|v| v + 20.0).collect::<Vec<_>>();
            assert_close(&format!("{rows} x {columns}"), &lift(got), &lift(expected), 1e-6);
        }
    }
}

/// Builds the cross-entropy loss of each row of logits against its label, and the softmax minus one at the
/// label.
fn cross_entropy(rows: usize, columns: usize) -> Body {
    let mut b = Builder::new(rows, columns);
    let x = b.load(0, DType::F32, Level::Element);
    let label = b.load(1, DType::I32, Level::Row);
    let max = b.reduce(ReduceOp::Max, x);
    let shifted = b.binary(BinaryOp::Sub, x, max);
    let exponential = b.unary(UnaryOp::Exp, shifted);
    let sum = b.reduce(ReduceOp::Sum, exponential);
    let logarithm = b.unary(UnaryOp::Log, sum);
    let probability = b.binary(BinaryOp::Div, exponential, sum);
    let (zero, one) = (b.number(0.0), b.number(1.0));
    let less = b.binary(BinaryOp::Sub, probability, one);
    // Each selection has its own comparison, because each gradient rule adds one and the fusion pass keeps
    // them all.
    let mut select = |chosen, others| {
        let column = b.node(NodeKind::Column, DType::I32, Level::Element);
        let hit = b.node(NodeKind::Compare(CompareOp::Eq, [column, label]), DType::Bool, Level::Element);
        b.node(NodeKind::Select([hit, chosen, others]), DType::F32, Level::Element)
    };
    let (picked, gradient) = (select(shifted, zero), select(less, probability));
    let picked = b.reduce(ReduceOp::Sum, picked);
    let loss = b.binary(BinaryOp::Sub, logarithm, picked);
    b.store(loss, Level::Row);
    b.store(gradient, Level::Element);
    b.0
}

#[test]
fn cross_entropy_of_short_and_long_rows_and_of_labels_out_of_range() {
    let mut random = Random(6);
    for (rows, columns) in [(40, 70), (9, 1), (30, 256), (5, 9000), (3, 50_257)] {
        let x = floats(&mut random, &[rows, columns]);
        // The last row's label is not a column, and selects nothing.
        let label = |row: usize| if row + 1 == rows { usize::MAX } else { 7919 * row % columns };
        let labels = Tensor::of_bits(DType::I32, &[rows][..], (0..rows).map(|row| label(row) as u32));
        let mut expected = [Vec::new(), Vec::new()];
        for (row, values) in x.values().chunks(columns).enumerate() {
            let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = values.iter().map(|v| (v - max).exp()).sum();
            expected[0].push(sum.ln() - values.get(label(row)).map_or(0.0, |v| v - max));
            let hit = |column: usize| f64::from(u8::from(column == label(row)));
            expected[1].extend(values.iter().enumerate().map(|(c, v)| (v - max).exp() / sum - hit(c)));
        }
        let body = cross_entropy(rows, columns);
        let got = run(&job(&body, vec![x, labels], vec![dense(&[rows]), dense(&[rows, columns])])).unwrap();
        // Losses near 0 are differences, so the error is compared with the size of the operands.
        let lift = |values: &[f64]| values.iter().map(|v| v + 2.0).collect::<Vec<_>>();
        for (got, expected) in got.iter().zip(&expected) {
            assert_close(&format!("{rows} x {columns}"), &lift(got), &lift(expected), 3e-6);
        }
    }
}

#[test]
fn sums_of_many_columns_and_rows_are_accurate() {
    let mut random = Random(2);
    for (rows, columns) in [(20_000, 3), (3000, 65), (5, 3000), (1, 1), (4096, 1)] {
        let mut b = Builder::new(rows, columns);
        let x = b.load(0, DType::F32, Level::Element);
        let square = b.binary(BinaryOp::Mul, x, x);
        let sum = b.reduce(ReduceOp::Sum, square);
        b.store(sum, Level::Row);
        b.0.stores.push(Store::ColumnReduce { op: ReduceOp::Sum, node: square, write: 1, parts: 1 });
        let x = floats(&mut random, &[rows, columns]);
        let squares: Vec<f64> = x.values().iter().map(|v| v * v).collect();
        let by_row: Vec<f64> = squares.chunks(columns).map(|row| row.iter().sum()).collect();
        let by_column: Vec<f64> = (0..columns).map(|c| squares[c..].iter().step_by(columns).sum()).collect();
        let got = run(&job(&b.0, vec![x], vec![dense(&[rows]), dense(&[columns])])).unwrap();
        assert_close("rows", &got[0], &by_row, 1e-6);
        assert_close("columns", &got[1], &by_column, 3e-6);
    }
}

#[test]
fn operands_may_trade_places() {
    let mut random = Random(3);
    for (rows, columns, level) in [(30, 70, Level::Element), (1, 5000, Level::Element), (40, 3, Level::Row)] {
        let mut b = Builder::new(rows, columns);
        let (x, y) = (b.load(0, DType::F32, level), b.load(1, DType::F32, level));
        b.store(y, level);
        b.store(x, level);
        let shape = if level == Level::Row { vec![rows] } else { vec![rows, columns] };
        let reads = vec![floats(&mut random, &shape), floats(&mut random, &shape)];
        let expected = [reads[1].values(), reads[0].values()];
        let layout = Layout::contiguous(&shape[..].into());
        let results = vec![(DType::F32, layout.clone(), Some(0)), (DType::F32, layout, Some(1))];
        assert_eq!(run(&job(&b.0, reads, results)).unwrap(), expected);
    }
}

#[test]
fn a_number_may_be_counted_in_place() {
    let mut b = Builder::new(100, 100);
    let step = b.load(0, DType::F32, Level::Uniform);
    let one = b.number(1.0);
    let next = b.binary(BinaryOp::Add, step, one);
    let x = b.load(1, DType::F32, Level::Element);
    let sum = b.binary(BinaryOp::Add, x, step);
    b.store(next, Level::Uniform);
    b.store(sum, Level::Element);
    let reads = vec![Tensor::f32(Shape::scalar(), &[7.0]), floats(&mut Random(4), &[100, 100])];
    let expected: Vec<f64> = reads[1].values().iter().map(|v| f64::from(*v as f32 + 7.0)).collect();
    let results = vec![(DType::F32, Layout::contiguous(&Shape::scalar()), Some(0)), dense(&[100, 100])];
    assert_eq!(run(&job(&b.0, reads, results)).unwrap(), [vec![8.0], expected]);
}

#[test]
fn empty_reductions_give_the_neutral_element() {
    for (op, neutral) in [(ReduceOp::Sum, 0.0), (ReduceOp::Prod, 1.0), (ReduceOp::Max, f64::NEG_INFINITY)] {
        let mut b = Builder::new(3, 0);
        let x = b.load(0, DType::F32, Level::Element);
        let reduced = b.reduce(op, x);
        b.store(reduced, Level::Row);
        let reads = vec![floats(&mut Random(5), &[3, 0])];
        assert_eq!(run(&job(&b.0, reads, vec![dense(&[3])])).unwrap(), [[neutral; 3]]);

        let mut b = Builder::new(0, 3);
        let x = b.load(0, DType::F32, Level::Element);
        b.0.stores.push(Store::ColumnReduce { op, node: x, write: 0, parts: 1 });
        let reads = vec![floats(&mut Random(5), &[0, 3])];
        assert_eq!(run(&job(&b.0, reads, vec![dense(&[3])])).unwrap(), [[neutral; 3]]);
    }
}

#[test]
fn the_first_index_out_of_range_is_named() {
    for (rows, columns, level, shape) in [
        (6, 700, Level::Row, vec![2, 3]),
        (3, 2, Level::Element, vec![3, 2]),
        (3, 2, Level::Element, vec![2, 3]),
        (1, 1, Level::Uniform, vec![]),
    ] {
        for wrong in [-1, 4, i32::MIN, i32::MAX] {
            let mut b = Builder::new(rows, columns);
            let index = b.load(0, DType::I32, level);
            let checked = b.node(NodeKind::CheckIndex { index, extent: 4 }, DType::I32, level);
            let float = b.node(NodeKind::Cast(checked), DType::F32, level);
            b.store(float, level);
            let elements: usize = shape.iter().product();
            let at = elements.saturating_sub(2);
            let values = (0..elements).map(|i| if i >= at { wrong } else { 3 } as u32);
            let reads = vec![Tensor::of_bits(DType::I32, &shape[..], values)];
            let trap = run(&job(&b.0, reads, vec![dense(&shape)])).unwrap_err();
            let position: Vec<usize> = match shape[..] {
                [] => vec![],
                [_, inner] => vec![at / inner, at % inner],
                _ => unreachable!("shapes have rank 0 or 2"),
            };
            let expected = format!(
                "index {wrong} at position {position:?} of the indices is out of range: there are 4 rows \
                 (0..4)"
            );
            assert_eq!(trap.message, expected);
        }
    }
}

#[test]
fn not_a_number_stays_in_its_row_and_column() {
    let (rows, columns) = (20, 300);
    let mut values: Vec<f32> = vec![1.0; rows * columns];
    values[7 * columns + 299] = f32::NAN;
    for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
        let mut b = Builder::new(rows, columns);
        let x = b.load(0, DType::F32, Level::Element);
        let row = b.reduce(op, x);
        b.store(row, Level::Row);
        b.0.stores.push(Store::ColumnReduce { op, node: x, write: 1, parts: 1 });
        let reads = vec![Tensor::f32([rows, columns], &values)];
        let got = run(&job(&b.0, reads, vec![dense(&[rows]), dense(&[columns])])).unwrap();
        let nans = |values: &[f64]| (0..values.len()).filter(|&i| values[i].is_nan()).collect::<Vec<_>>();
        assert_eq!((nans(&got[0]), nans(&got[1])), (vec![7], vec![299]), "{op:?}");
    }
}

/// Returns the instructions of each pass of a body that remain interpreted at a level, or `None` if there is
/// no machine code.
fn interpreted(
    body: &Body,
    reads: Vec<Tensor>,
    shapes: &[&[usize]],
    level: InstructionSet,
) -> Option<Vec<Vec<usize>>> {
    let job = job(body, reads, shapes.iter().map(|shape| dense(shape)).collect());
    match CpuCompiler::new(machine(level, Loops::Native)).launch(&job.launch()) {
        CpuKernel::Loop(program) => {
            Program::new(program, &job.launch(), level).native.map(|n| n.interpreted())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn normalisations_run_as_machine_code_and_sines_do_not() {
    let mut random = Random(8);
    let x = || floats(&mut Random(9), &[20, 768]);
    let reads = vec![x(), floats(&mut random, &[20, 768]), floats(&mut random, &[20, 768])];
    let mut b = Builder::new(20, 768);
    let loaded = b.load(0, DType::F32, Level::Element);
    let square = b.binary(BinaryOp::Mul, loaded, loaded);
    let sine = b.unary(UnaryOp::Sin, square);
    let sum = b.binary(BinaryOp::Add, sine, loaded);
    b.store(sum, Level::Element);
    for level in InstructionSet::available().into_iter().filter(|level| *level >= InstructionSet::Avx2) {
        let of_norm = interpreted(&layer_norm(20, 768), reads.clone(), &[&[20, 768], &[20], &[20]], level);
        assert_eq!(of_norm, Some(vec![Vec::new(); 3]), "{level:?}");
        // Only the second of three is interpreted: the square before it and the sum after it are compiled.
        let of_sine = interpreted(&b.0, vec![x()], &[&[20, 768]], level);
        assert_eq!(of_sine, Some(vec![vec![1]]), "{level:?}");
    }
}
