//! Merges equal nodes of a body.
//!
//! In: a body. Out: the same body, in which each node that computes the same as an earlier one repeats that
//! node, and its uses become uses of the earlier one. Such nodes exist because fusion joins ops that each
//! bring their checks, column numbers and conversions. Always holds: nodes keep their indices, by which
//! messages are sorted.

use gradloom_core::kernel::{Body, NodeId, NodeKind, Store};
use std::collections::HashMap;

pub(super) fn with_shared_nodes(body: &Body) -> Body {
    let mut body = body.clone();
    // The first node that equals each node.
    let mut first: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    let mut known = HashMap::new();
    for (i, node) in body.nodes.iter_mut().enumerate() {
        replace_operands(&mut node.kind, &first);
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

fn replace_operands(kind: &mut NodeKind, by: &[NodeId]) {
    let replace = |id: &mut NodeId| *id = by[id.index()];
    match kind {
        NodeKind::Constant(_) | NodeKind::Load(_) | NodeKind::Column | NodeKind::Accumulator => {}
        NodeKind::Unary(_, a)
        | NodeKind::Cast(a)
        | NodeKind::CheckIndex { index: a, .. }
        | NodeKind::Repeat(a)
        | NodeKind::Reduce(_, a) => replace(a),
        NodeKind::Binary(_, all) | NodeKind::Compare(_, all) => all.iter_mut().for_each(replace),
        NodeKind::Select(all) => all.iter_mut().for_each(replace),
    }
}
