//! Decides which values are kept from one pass over a row to the next, if rows are too long for whole-row
//! registers.
//!
//! In: a body. Out: for each node, a flag that is true if a row of it is kept, in memory that stays in a
//! second-level cache. Invariant: a kept value is cheaper to read than to recompute, and is used in more than
//! one pass. All kept rows together take at most [`KEPT_BYTES`].

use gradloom_core::ir::CostClass;
use gradloom_core::kernel::{Body, Level, NodeKind, Store};

/// Maximum size of all kept rows together, in bytes.
const KEPT_BYTES: usize = 256 * 1024;

/// Returns a flag for each node, which is true if a row of it is kept.
pub(super) fn keeps(body: &Body, needed: &[bool]) -> Vec<bool> {
    let passes = passes(body, needed);
    let row = (4 * body.columns).max(1);
    let mut room = KEPT_BYTES / row;
    let keep = |(node, passes): (usize, &Option<(usize, usize)>)| {
        let is_used_again = passes.is_some_and(|(first, last)| first < last);
        let kept = room > 0 && is_used_again && is_worth_keeping(&body.nodes[node].kind);
        room -= usize::from(kept);
        kept
    };
    passes.iter().enumerate().map(keep).collect()
}

/// Returns, for each needed element-level node, the first and the last pass that need it.
fn passes(body: &Body, needed: &[bool]) -> Vec<Option<(usize, usize)>> {
    let stages = body.reduction_depths();
    let last = stages.iter().copied().max().unwrap_or(0) + 1;
    let mut passes: Vec<Option<(usize, usize)>> = vec![None; body.nodes.len()];
    let extend = |passes: &mut Vec<Option<(usize, usize)>>, node: usize, from: usize, to: usize| {
        let (first, last) = passes[node].unwrap_or((from, to));
        passes[node] = Some((first.min(from), last.max(to)));
    };
    for store in &body.stores {
        if matches!(store, Store::Value { level: Level::Element, .. } | Store::ColumnReduce { .. }) {
            extend(&mut passes, store.node().index(), last, last);
        }
    }
    for (i, node) in body.nodes.iter().enumerate().rev().filter(|(i, _)| needed[*i]) {
        let used = match node.kind {
            NodeKind::Reduce(..) => Some((stages[i], stages[i])),
            _ => passes[i],
        };
        let Some((from, to)) = used else { continue };
        for operand in node.kind.operands() {
            if body.node(*operand).level == Level::Element {
                extend(&mut passes, operand.index(), from, to);
            }
        }
    }
    passes
}

/// Returns `true` if computing an element takes longer than reading it from a second-level cache.
fn is_worth_keeping(kind: &NodeKind) -> bool {
    match kind {
        NodeKind::Unary(op, _) => op.cost_class() > CostClass::Simple,
        NodeKind::Binary(op, _) => op.cost_class() > CostClass::Simple,
        _ => false,
    }
}
