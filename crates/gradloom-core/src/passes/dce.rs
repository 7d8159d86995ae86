//! Dead code elimination, which removes ops that no output, update or guard needs.
//!
//! Inputs are kept because they are part of the call's signature. Unused ops are removed even if they could
//! trap, for example because of an index out of range.

use super::rewriter::rebuild;
use crate::ir::{Definition, Graph, Id, OpId, OpKind, ValueId};

/// Removes unneeded ops from all blocks.
pub fn dce(graph: &Graph) -> Graph {
    let needed = needed_ops(graph);
    rebuild(graph, |id: OpId| needed[id.index()], |_, _| None)
}

/// Returns, for each op by id, whether it is needed.
fn needed_ops(graph: &Graph) -> Vec<bool> {
    let mut needed = vec![false; graph.ops.len()];
    let mut waiting: Vec<ValueId> = Vec::new();
    waiting.extend(graph.outputs.iter().map(|o| o.value));
    waiting.extend(graph.guards.iter().map(|g| g.value));
    for update in &graph.updates {
        waiting.extend([update.target, update.value]);
        waiting.extend(update.region.iter().flatten());
    }
    for (id, op) in graph.entry_ops().filter(|(_, op)| matches!(op.kind, OpKind::Input { .. })) {
        needed[id.index()] = true;
        debug_assert!(op.operands.is_empty());
    }
    while let Some(value) = waiting.pop() {
        // A block parameter needs the op that runs the block, which is already marked as needed.
        let Definition::Result(id, _) = graph.values[value].definition else { continue };
        if std::mem::replace(&mut needed[id.index()], true) {
            continue;
        }
        let op = &graph.ops[id];
        waiting.extend(&op.operands);
        if let Some(block) = op.kind.block() {
            waiting.extend(&graph.blocks[block].results);
        }
    }
    needed
}
