//! The cost of recomputing an op, for comparison between ops.
//!
//! The cost is the number of arithmetic operations, with weights for expensive functions. An op that only
//! moves elements costs one operation per element. Actual times depend on fusion and caching, but their order
//! hardly does: elementwise ops and reductions are cheap relative to the bytes that they produce, whereas
//! products and attention are not.

use crate::ir::{CostClass, Graph, Op, OpKind};

/// Returns the number of operations required to compute the results of an op.
pub(super) fn operations(graph: &Graph, op: &Op) -> f64 {
    let elements = |value| graph.ty(value).shape.iter().map(|&extent| extent as f64).product::<f64>();
    let results: f64 = op.results.iter().map(|&value| elements(value)).sum();
    match &op.kind {
        OpKind::Unary(function) => results * weight(function.cost_class()),
        OpKind::Binary(function) => results * weight(function.cost_class()),
        // Ten rounds, each with two multiplications and a few other operations, produce four words (Salmon et
        // al., SC'11).
        OpKind::RandomBits { ones, .. } => results * 20.0 * f64::from(ones.digits),
        OpKind::Reduce { .. } | OpKind::ArgReduce { .. } => elements(op.operands[0]),
        // Four passes over the digits of each element.
        OpKind::Sort { .. } => 4.0 * elements(op.operands[0]),
        OpKind::Dot(axes) => {
            let shape = &graph.ty(op.operands[0]).shape;
            2.0 * results * axes.lhs_contract.iter().map(|&axis| shape[axis] as f64).product::<f64>()
        }
        OpKind::Attention(spec) | OpKind::AttentionGrad(spec) => {
            let shapes: Vec<_> = op.operands.iter().map(|&operand| &graph.ty(operand).shape).collect();
            let flops = match op.kind {
                OpKind::Attention(_) => spec.flops(&shapes),
                _ => spec.gradient_flops(&shapes),
            };
            flops as f64
        }
        OpKind::Scatter { .. } | OpKind::DynamicUpdateSlice => results + elements(op.operands[1]),
        _ => results,
    }
}

/// Returns `true` if an op should be recomputed only if cheaper ops are not sufficient.
pub(super) fn is_expensive(op: &Op) -> bool {
    matches!(op.kind, OpKind::Dot(_) | OpKind::Attention(_) | OpKind::AttentionGrad(_))
}

fn weight(class: CostClass) -> f64 {
    match class {
        CostClass::Simple => 1.0,
        CostClass::Divide => 4.0,
        CostClass::Function | CostClass::Branches | CostClass::Loop => 10.0,
    }
}
