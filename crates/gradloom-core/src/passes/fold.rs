//! Constant folding, which replaces ops whose operands are all constants by constants, and constants with
//! equal elements by splats.
//!
//! The reference evaluator computes the results in float64 without rounding. Like all numbers in the IR, they
//! are rounded to float32 only when a backend fills the buffer, so a chain of folded ops is rounded once.
//! Products and attention of constants are not folded; they run once, when the program is loaded. An op that
//! would trap or overflow float32 is not folded, so that it does so when the step runs. No constant with more
//! than [`MAX_ELEMENTS`] elements is created, unless it is a splat.

use super::rewriter::{Candidate, rebuild};
use super::splat_of;
use crate::ir::{DType, Graph, Literal, Number, OpKind, ReduceOp, Shape, Type, ValueId};
use crate::reference::{HostTensor, apply_simple, is_simple};

/// Maximum number of elements in an operand or result of a folded op, except for splats.
pub const MAX_ELEMENTS: usize = 4096;

/// Folds constants in all blocks.
pub fn fold(graph: &Graph) -> Graph {
    rebuild(
        graph,
        |_| true,
        |builder, op| {
            let (ty, data) = constant_result(builder.graph, op)?;
            Some(vec![builder.op(OpKind::Constant { ty, data }, &[])])
        },
    )
}

/// Returns the result of an op with constant operands, if folding is worthwhile.
fn constant_result(graph: &Graph, op: &Candidate<'_>) -> Option<(Type, Literal)> {
    if let OpKind::Constant { ty, data: Literal::Dense(numbers) } = op.kind {
        return uniform(ty, numbers).map(|data| (ty.clone(), data));
    }
    if op.operands.is_empty() || !is_simple(op.kind) {
        return None;
    }
    let operands: Vec<(&Type, &Literal)> =
        op.operands.iter().map(|&v| constant(graph, v)).collect::<Option<_>>()?;
    let ty = crate::ir::infer(graph, op.kind, op.operands).ok()?.pop()?;
    if let Some(number) = uniform_result(graph, op, ty.dtype) {
        return Some((ty, Literal::Splat(number)));
    }
    let small = |ty: &Type| ty.elements() <= MAX_ELEMENTS;
    if !operands.iter().all(|(ty, _)| small(ty)) || !small(&ty) {
        return None;
    }
    evaluate(op.kind, &operands, &ty)
}

fn constant(graph: &Graph, value: ValueId) -> Option<(&Type, &Literal)> {
    match &graph.defining_op(value)?.kind {
        OpKind::Constant { ty, data } => Some((ty, data)),
        _ => None,
    }
}

/// Returns the common value of all elements of the result if it is known to be a splat. Does not evaluate
/// individual elements, so there is no size limit.
fn uniform_result(graph: &Graph, op: &Candidate<'_>, dtype: DType) -> Option<Number> {
    let numbers: Vec<Number> = op.operands.iter().map(|&v| splat_of(graph, v)).collect::<Option<_>>()?;
    match op.kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Compare(_) | OpKind::Select | OpKind::Cast { .. } => {
            let types: Vec<_> = op.operands.iter().map(|&v| Type::scalar(graph.ty(v).dtype)).collect();
            let data: Vec<_> = numbers.into_iter().map(Literal::Splat).collect();
            let scalars: Vec<_> = types.iter().zip(&data).collect();
            match evaluate(op.kind, &scalars, &Type::scalar(dtype))? {
                (_, Literal::Splat(number)) => Some(number),
                _ => None,
            }
        }
        OpKind::Reshape { .. }
        | OpKind::Permute { .. }
        | OpKind::Broadcast { .. }
        | OpKind::Slice { .. }
        | OpKind::Windows { .. } => Some(numbers[0]),
        OpKind::Reduce { op: ReduceOp::Max | ReduceOp::Min, axes } => {
            let shape: &Shape = &graph.ty(op.operands[0]).shape;
            axes.iter().all(|&axis| shape[axis] > 0).then_some(numbers[0])
        }
        OpKind::Pad { value, .. } => (numbers[0] == *value).then_some(*value),
        OpKind::Concat { .. } => numbers.iter().all(|n| *n == numbers[0]).then_some(numbers[0]),
        _ => None,
    }
}

/// Evaluates an op with a result of type `ty` on constants. Returns `None` if it traps or overflows float32.
fn evaluate(kind: &OpKind, operands: &[(&Type, &Literal)], ty: &Type) -> Option<(Type, Literal)> {
    let values: Vec<_> = operands.iter().map(|(ty, data)| HostTensor::from_literal(ty, data)).collect();
    let result = apply_simple(kind, &values.iter().collect::<Vec<_>>(), ty).ok()?;
    let numbers: Vec<Number> = (0..result.len()).map(|i| result.get(i)).collect();
    // A number beyond the range of float32 would overflow on a device and affect later ops. Leave such ops to
    // the device.
    let overflows = |&number| matches!(number, Number::Float(v) if v.is_finite() && !(v as f32).is_finite());
    if numbers.iter().any(overflows) {
        return None;
    }
    let data = uniform(&result.ty, &numbers).unwrap_or_else(|| Literal::Dense(numbers.into()));
    Some((result.ty, data))
}

/// Returns a splat if all elements are equal or if there are no elements.
fn uniform(ty: &Type, numbers: &[Number]) -> Option<Literal> {
    let first = numbers.first().copied().unwrap_or(Number::of(ty.dtype, 0.0));
    numbers.iter().all(|number| *number == first).then_some(Literal::Splat(first))
}
