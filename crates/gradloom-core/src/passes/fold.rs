//! Constant folding: ops whose operands are all constants become constants, and tables of one number become
//! that number.
//!
//! The reference evaluator computes them in float64 and nothing is rounded: like every number in the IR, the
//! result meets float32 only when a backend fills its buffer, so a chain of folded ops is rounded once.
//! Products and attention of constants stay: they run once, when a program is loaded. Always holds: an op
//! that would trap, or overflow float32, stays, so that it traps when the step runs; no constant of more than
//! [`MAX_ELEMENTS`] elements comes into being, unless all its elements are one number.

use super::rewriter::{Candidate, rebuild};
use super::splat_of;
use crate::ir::{Builder, Graph, Literal, Number, OpKind, ReduceOp, Shape, Type, ValueId};
use crate::reference::{HostTensor, apply_simple, is_simple};

/// Elements that a folded op may read in one operand, or write in one result.
pub const MAX_ELEMENTS: usize = 4096;

/// Folds constants in all blocks.
pub fn fold(graph: &Graph) -> Graph {
    rebuild(
        graph,
        |_| true,
        |builder, op| {
            let constants = constant_results(builder.graph, op)?;
            let add = |(ty, data)| builder.op(OpKind::Constant { ty, data }, &[]);
            Some(constants.into_iter().map(add).collect())
        },
    )
}

/// Returns the results of an op whose operands are constants, where folding is worth it.
fn constant_results(graph: &Graph, op: &Candidate<'_>) -> Option<Vec<(Type, Literal)>> {
    if let OpKind::Constant { ty, data: Literal::Dense(numbers) } = op.kind {
        return uniform(ty, numbers).map(|data| vec![(ty.clone(), data)]);
    }
    if op.operands.is_empty() || !is_simple(op.kind) {
        return None;
    }
    let operands: Vec<(&Type, &Literal)> =
        op.operands.iter().map(|&v| constant(graph, v)).collect::<Option<_>>()?;
    let result = crate::ir::infer(graph, op.kind, op.operands).ok()?;
    if let Some(number) = uniform_result(graph, op) {
        return Some(vec![(result[0].clone(), Literal::Splat(number))]);
    }
    let small = |ty: &Type| ty.elements() <= MAX_ELEMENTS;
    if !operands.iter().all(|(ty, _)| small(ty)) || !result.iter().all(small) {
        return None;
    }
    evaluate(op.kind, &operands)
}

fn constant(graph: &Graph, value: ValueId) -> Option<(&Type, &Literal)> {
    match &graph.defining_op(value)?.kind {
        OpKind::Constant { ty, data } => Some((ty, data)),
        _ => None,
    }
}

/// Returns the number that all elements of the result are, found without looking at them one by one, so at
/// any size.
fn uniform_result(graph: &Graph, op: &Candidate<'_>) -> Option<Number> {
    let numbers: Vec<Number> = op.operands.iter().map(|&v| splat_of(graph, v)).collect::<Option<_>>()?;
    match op.kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Compare(_) | OpKind::Select | OpKind::Cast { .. } => {
            let types: Vec<_> = op.operands.iter().map(|&v| Type::scalar(graph.ty(v).dtype)).collect();
            let data: Vec<_> = numbers.into_iter().map(Literal::Splat).collect();
            let scalars: Vec<_> = types.iter().zip(&data).collect();
            match evaluate(op.kind, &scalars)?.as_slice() {
                [(_, Literal::Splat(number))] => Some(*number),
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

/// Runs one op on constants; `None` if it traps.
fn evaluate(kind: &OpKind, operands: &[(&Type, &Literal)]) -> Option<Vec<(Type, Literal)>> {
    let mut graph = Graph::new();
    let mut builder = Builder::new(&mut graph, None);
    let leaves: Vec<_> = operands
        .iter()
        .map(|&(ty, data)| builder.op(OpKind::Constant { ty: ty.clone(), data: data.clone() }, &[]))
        .collect();
    builder.all(kind.clone(), &leaves);
    let (_, op) = graph.entry_ops().last()?;
    let values: Vec<_> = operands.iter().map(|(ty, data)| HostTensor::from_literal(ty, data)).collect();
    let results = apply_simple(&graph, op, &values.iter().collect::<Vec<_>>()).ok()?;
    let constants: Vec<_> = results.iter().map(literal).collect();
    // A number that float32 cannot hold would overflow on a device, and what follows with it: leave that to
    // the device.
    let overflows = |number| matches!(number, Number::Float(v) if v.is_finite() && !(v as f32).is_finite());
    let fits = |(ty, data): &(Type, Literal)| match data {
        Literal::Splat(number) => !overflows(*number),
        Literal::Dense(_) => !(0..ty.elements()).any(|i| overflows(data.get(i))),
    };
    constants.iter().all(fits).then_some(constants)
}

/// Returns a tensor as a constant's type and data.
fn literal(tensor: &HostTensor) -> (Type, Literal) {
    let numbers: Vec<Number> = (0..tensor.len()).map(|i| tensor.get(i)).collect();
    let data = uniform(&tensor.ty, &numbers).unwrap_or_else(|| Literal::Dense(numbers.into()));
    (tensor.ty.clone(), data)
}

/// Returns the data of a constant whose elements are all the same, or that has none.
fn uniform(ty: &Type, numbers: &[Number]) -> Option<Literal> {
    let first = numbers.first().copied().unwrap_or(Number::of(ty.dtype, 0.0));
    numbers.iter().all(|number| *number == first).then_some(Literal::Splat(first))
}
