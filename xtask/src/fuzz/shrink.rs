//! Shrinks a graph to a smaller one that fails in the same stage.

use super::check::Subject;
use gradloom_core::ir::{Graph, OpKind};
use gradloom_core::passes::dce::dce;
use gradloom_core::verify::verify;

/// Removes outputs, updates and guards, and replaces ops by inputs, while the graph still fails.
pub(super) fn shrink(subject: &Subject, fails: impl Fn(&Subject) -> bool) -> Graph {
    let mut best = subject.graph.clone();
    loop {
        let before = size(&best);
        // The part after a removed one gets its number, and is tried in the next round.
        for part in 0.. {
            let Some(smaller) = without(&best, part) else { break };
            let fewer = size(&smaller) < size(&best) && verify(&smaller).is_ok();
            if fewer && fails(&Subject { graph: smaller.clone(), ..subject.clone() }) {
                best = smaller;
            }
        }
        if size(&best) == before {
            return best;
        }
    }
}

fn size(graph: &Graph) -> usize {
    // Count an input less than any op, because it is simpler.
    let weight = |kind: &OpKind| if matches!(kind, OpKind::Input { .. }) { 1 } else { 2 };
    let ops: usize = graph.entry_ops().map(|(_, op)| weight(&op.kind)).sum();
    ops + graph.outputs.len() + graph.updates.len() + graph.guards.len()
}

/// Returns the graph without the part with this number: outputs first, then updates, guards, and ops from the
/// last to the first.
fn without(graph: &Graph, part: usize) -> Option<Graph> {
    let mut smaller = graph.clone();
    let mut part = part;
    if part < smaller.outputs.len() {
        smaller.outputs.remove(part);
        return Some(dce(&smaller));
    }
    part -= smaller.outputs.len();
    if part < smaller.updates.len() {
        smaller.updates.remove(part);
        return Some(dce(&smaller));
    }
    part -= smaller.updates.len();
    if part < smaller.guards.len() {
        smaller.guards.remove(part);
        return Some(dce(&smaller));
    }
    part -= smaller.guards.len();
    let (id, op) = graph.entry_ops().rev().nth(part)?;
    if op.results.len() == 1 && !op.kind.is_external_leaf() {
        let ty = graph.ty(op.results[0]).clone();
        let cut = &mut smaller.ops[id];
        cut.kind = OpKind::Input { name: format!("cut{}", op.results[0]), ty };
        cut.operands.clear();
    }
    Some(without_unused_inputs(&dce(&smaller)))
}

/// Removes inputs without uses, which the passes keep because callers supply them.
fn without_unused_inputs(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    let mut used: Vec<_> = graph.entry_ops().flat_map(|(_, op)| op.operands.clone()).collect();
    used.extend(graph.outputs.iter().map(|output| output.value));
    used.extend(graph.guards.iter().map(|guard| guard.value));
    for update in &graph.updates {
        used.push(update.value);
        used.extend(update.region.iter().flatten());
    }
    let unused: Vec<_> = graph
        .entry_ops()
        .filter(|(_, op)| matches!(op.kind, OpKind::Input { .. }) && !used.contains(&op.results[0]))
        .map(|(id, _)| id)
        .collect();
    let entry = graph.entry;
    graph.blocks[entry].ops.retain(|id| !unused.contains(id));
    graph
}
