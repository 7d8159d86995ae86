//! Replaces ops that no device implements by equivalent ops: composite functions, convolutions, 64-bit
//! numbers, and collective ops of a world of one rank.

mod convolution;
mod words;

use super::rewriter::rebuild;
use crate::ir::{DType, Graph, OpKind};
pub(crate) use convolution::padded;

/// Returns the graph with composite functions, convolutions, 64-bit numbers, and collective ops of one rank
/// expanded.
pub fn expand(graph: &Graph) -> Graph {
    let expands = |kind: &OpKind| {
        matches!(kind, OpKind::Composite(_) | OpKind::Conv(_) | OpKind::Collective { ranks: 1, .. })
    };
    let has_i64 = graph.values.iter().any(|(_, value)| value.ty.dtype == DType::I64);
    if !has_i64 && !graph.ops.iter().any(|(_, op)| expands(&op.kind)) {
        return graph.clone();
    }
    let mut expanded = rebuild(
        graph,
        |_| true,
        |builder, candidate| match (candidate.kind, candidate.operands) {
            (OpKind::Composite(op), &[x]) => Some(vec![op.expand(builder, x)]),
            (OpKind::Conv(spec), &[x, weights]) => Some(vec![convolution::expand(builder, spec, x, weights)]),
            (OpKind::Collective { ranks: 1, .. }, operands) => Some(operands.to_vec()),
            (kind, operands) if has_i64 => words::expand(builder, kind, operands).map(|x| vec![x]),
            _ => None,
        },
    );
    if has_i64 {
        words::expand_updates(&mut expanded);
    }
    expanded
}
