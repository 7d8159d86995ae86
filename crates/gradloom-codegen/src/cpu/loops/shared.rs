//! Merges equal nodes of a body.
//!
//! In: a body. Out: the same body, in which each node that computes the same as an earlier one repeats that
//! node, and its uses become uses of the earlier one. Such nodes exist because fusion joins ops, each of
//! which has separate checks, column numbers and conversions. Invariant: nodes keep their indices, by which
//! error messages are sorted.

use gradloom_core::kernel::{Body, NodeId, NodeKind, Store};
use std::collections::HashMap;

pub(super) fn with_shared_nodes(body: &Body) -> Body {
    let mut body = body.clone();
    // For each node, the first node that equals it.
    let mut first: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    let mut known = HashMap::new();
    for (i, node) in body.nodes.iter_mut().enumerate() {
        node.kind.operands_mut().iter_mut().for_each(|operand| *operand = first[operand.index()]);
        let id = *known.entry(node.clone()).or_insert(NodeId::new(i));
        first.push(id);
        if id.index() < i {
            node.kind = NodeKind::Repeat(id);
        }
    }
    for store in &mut body.stores {
        match store {
            Store::Value { node, .. } | Store::ColumnReduce { node, .. } => *node = first[node.index()],
        }
    }
    body
}
