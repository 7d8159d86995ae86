//! Replaces functions that are made of other ops by those: no device computes them.

use super::rewriter::rebuild;
use crate::ir::{Graph, OpKind};

/// The graph without composite functions.
pub fn expand(graph: &Graph) -> Graph {
    if !graph.ops.iter().any(|(_, op)| matches!(op.kind, OpKind::Composite(_))) {
        return graph.clone();
    }
    rebuild(
        graph,
        |_| true,
        |builder, candidate| match candidate.kind {
            OpKind::Composite(op) => Some(vec![op.expand(builder, candidate.operands[0])]),
            _ => None,
        },
    )
}
