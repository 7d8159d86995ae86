//! Evaluates a body one element at a time.
//!
//! Elements are stored as f64, which can represent those of all dtypes used here. Functions of f32 are
//! rounded after every node, as in the kernels. Sums and products of f32 are computed in f64, so tests keep
//! them exact or allow for rounding.

use crate::InstructionSet;
use crate::elementwise::functions::function;
use crate::elementwise::{Operand, ResultRows};
use gradloom_codegen::cpu::functions::MapOp;
use gradloom_codegen::cpu::loops::OPERANDS;
use gradloom_codegen::cpu::loops::bits;
use gradloom_core::ir::{DType, Number, ReduceOp};
use gradloom_core::kernel::{Body, Level, Node, NodeKind, Store};

/// Returns the results in row-major order; `reads` are the operands in row-major order.
pub(super) fn interpret(body: &Body, reads: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = Vec::new();
    for node in &body.nodes {
        let elements = (0..body.elements(node.level)).map(|i| element(body, node, &values, reads, i));
        let elements = elements.collect();
        values.push(elements);
    }
    let mut stores: Vec<&Store> = body.stores.iter().collect();
    stores.sort_by_key(|store| store.write());
    let result = |store: &&Store| match **store {
        Store::Value { node, level, .. } => {
            let from = body.node(node).level;
            (0..body.elements(level)).map(|i| values[node.index()][place(body, i, level, from)]).collect()
        }
        Store::ColumnReduce { op, node, .. } => (0..body.columns)
            .map(|column| {
                let all = (0..body.rows).map(|row| values[node.index()][row * body.columns + column]);
                reduce(op, body.node(node).dtype, all)
            })
            .collect(),
    };
    stores.iter().map(result).collect()
}

/// Returns the index of the element of a value of level `of` that belongs to element `i` of a value of level
/// `level`.
fn place(body: &Body, i: usize, level: Level, of: Level) -> usize {
    match (level, of) {
        (_, Level::Uniform) => 0,
        (Level::Element, Level::Row) => i / body.columns,
        _ => i,
    }
}

fn element(body: &Body, node: &Node, values: &[Vec<f64>], reads: &[Vec<f64>], i: usize) -> f64 {
    let get = |operand: gradloom_core::kernel::NodeId| {
        values[operand.index()][place(body, i, node.level, body.node(operand).level)]
    };
    match &node.kind {
        NodeKind::Constant(number) => round(node.dtype, number.as_f64()),
        NodeKind::Load(read) => reads[*read][i],
        NodeKind::Column => (i % body.columns) as f64,
        NodeKind::Repeat(a) => get(*a),
        NodeKind::Accumulator => unreachable!("no product here"),
        NodeKind::Unary(op, a) => one(MapOp::Unary(*op, node.dtype), node.dtype, &[get(*a)]),
        NodeKind::Binary(op, [a, b]) => one(MapOp::Binary(*op, node.dtype), node.dtype, &[get(*a), get(*b)]),
        NodeKind::Compare(op, [a, b]) => {
            let (a, b) = (get(*a), get(*b));
            f64::from(u8::from(op.holds(&a, &b)))
        }
        NodeKind::Select([condition, a, b]) => {
            if get(*condition) != 0.0 {
                get(*a)
            } else {
                get(*b)
            }
        }
        NodeKind::Cast(a) => match node.dtype {
            DType::F32 => round(DType::F32, get(*a)),
            dtype @ (DType::F16 | DType::BF16) => dtype.rounded(get(*a)),
            DType::I32 if body.node(*a).dtype == DType::U32 => f64::from(get(*a) as u32 as i32),
            DType::I32 => f64::from(get(*a) as i32),
            DType::U32 if body.node(*a).dtype == DType::I32 => f64::from(get(*a) as i32 as u32),
            DType::U32 => f64::from(get(*a) as u32),
            DType::Bool => f64::from(u8::from(get(*a) != 0.0)),
            DType::U8 => f64::from(get(*a) as i64 as u8),
            DType::I64 => unreachable!("kernels see words"),
        },
        NodeKind::CheckIndex { index, .. } => get(*index),
        NodeKind::CheckDivisor(divisor) => get(*divisor),
        NodeKind::Reduce(op, a) => {
            let row = &values[a.index()][i * body.columns..(i + 1) * body.columns];
            reduce(*op, node.dtype, row.iter().copied())
        }
    }
}

/// Rounds a value to the precision of the dtype.
fn round(dtype: DType, value: f64) -> f64 {
    if dtype == DType::F32 { f64::from(value as f32) } else { value }
}

/// Computes an elementwise op on one element with the op's own loop, so that the bits match those of the
/// fused kernel.
fn one(op: MapOp, dtype: DType, operands: &[f64]) -> f64 {
    let elements: Vec<u32> = operands.iter().map(|&x| bits(Number::of(dtype, x), dtype)).collect();
    let mut all = [Operand::none(); OPERANDS];
    for (operand, element) in all.iter_mut().zip(&elements) {
        *operand = Operand::row(std::ptr::from_ref(element).cast());
    }
    let mut result = 0u32;
    let target = ResultRows { start: std::ptr::from_mut(&mut result).cast(), row_stride: 0 };
    // SAFETY: each operand and the result have one element of its dtype; every machine supports the baseline.
    unsafe { function(op, InstructionSet::Baseline)(1, 1, &all, target) };
    match dtype {
        DType::F32 => f64::from(f32::from_bits(result)),
        DType::F16 | DType::BF16 => dtype.of_narrow_bits(result as u16).into(),
        DType::I32 => f64::from(result.cast_signed()),
        DType::U32 | DType::Bool | DType::U8 | DType::I64 => f64::from(result),
    }
}

fn reduce(op: ReduceOp, dtype: DType, all: impl Iterator<Item = f64>) -> f64 {
    let identity = op.identity(dtype).as_f64();
    if dtype == DType::F32 {
        return round(dtype, all.fold(identity, |sum, v| op.combiner().float(sum, v)));
    }
    let wrap =
        |value: i64| if dtype == DType::I32 { i64::from(value as i32) } else { i64::from(value as u32) };
    let combine = |sum, v| wrap(op.combiner().int(sum, v as i64).expect("combiners take all integers"));
    all.fold(identity as i64, combine) as f64
}
