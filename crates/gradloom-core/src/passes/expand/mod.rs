//! Replaces ops that no device computes by those that they are made of: composite functions, convolutions.

mod convolution;

use super::rewriter::rebuild;
use crate::ir::{Graph, OpKind};
pub(crate) use convolution::padded;

/// The graph without ops that are made of others.
pub fn expand(graph: &Graph) -> Graph {
    let expands = |kind: &OpKind| matches!(kind, OpKind::Composite(_) | OpKind::Conv(_));
    if !graph.ops.iter().any(|(_, op)| expands(&op.kind)) {
        return graph.clone();
    }
    rebuild(
        graph,
        |_| true,
        |builder, candidate| match (candidate.kind, candidate.operands) {
            (OpKind::Composite(op), &[x]) => Some(vec![op.expand(builder, x)]),
            (OpKind::Conv(spec), &[x, weights]) => Some(vec![convolution::expand(builder, spec, x, weights)]),
            _ => None,
        },
    )
}
