//! Dead code: ops that no output, update or guard needs.
//!
//! Inputs stay, being the signature of the call. An op that could fail on its operands (an index out of
//! range) goes with the rest when nothing reads its results.

use super::rewriter::rebuild;
use crate::ir::{Definition, Graph, Id, OpId, OpKind, ValueId};

/// Removes what nothing needs, in all blocks.
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
        // A parameter of a block needs the op that runs the block, which is needed already.
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
