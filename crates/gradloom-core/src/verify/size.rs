//! Bounds the number of ops that the blocks of a graph become when they are expanded.
//!
//! In: a graph whose ops have passed their shape rules. Out: nothing, or the op whose block makes too many
//! ops. Stages behind this one take time and memory in proportion to the ops, so a few lines of text must not
//! stand for more than they can take.

use super::VerifyError;
use crate::collections::IdMap;
use crate::ir::{BlockId, Graph, Op, OpKind};

/// Ops that all blocks of a graph together may become at most, each counted as often as it is run. Ops
/// outside of blocks are not counted; one with many operands or axes counts for several, and a block without
/// ops for one.
pub const MAX_EXPANDED_OPS: usize = 1 << 18;

/// Operands and axes that count for one op.
const FEW: usize = 16;

/// Returns the number of ops that an op counts for.
fn weight(graph: &Graph, op: &Op) -> usize {
    let axes: usize = op.results.iter().map(|&value| graph.ty(value).shape.rank()).sum();
    1 + (op.operands.len() + axes) / FEW
}

/// Checks a graph whose reachable blocks these are, each after those that it runs.
pub(super) fn check(graph: &Graph, callees_first: &[BlockId]) -> Result<(), VerifyError> {
    let mut ops_of: IdMap<BlockId, usize> = IdMap::new();
    for &block in callees_first {
        let mut total: usize = 0;
        for &id in &graph.blocks[block].ops {
            let op = &graph.ops[id];
            let Some(callee) = op.kind.block() else {
                let outside = block == graph.entry;
                total = total.saturating_add(if outside { 0 } else { weight(graph, op) });
                continue;
            };
            let once = ops_of[&callee].max(1);
            let expanded = match op.kind {
                // Each trip takes slices of what is stacked apart, and those that it leaves are put together.
                OpKind::Repeat { trip, .. } => {
                    let all = op.operands.iter().chain(&op.results);
                    let slices: usize = all.map(|&value| 2 + graph.ty(value).shape.rank() / FEW).sum();
                    once.saturating_add(slices).saturating_mul(trip)
                }
                _ => once,
            };
            total = total.saturating_add(expanded);
            if total > MAX_EXPANDED_OPS {
                let times = match op.kind {
                    OpKind::Repeat { trip, .. } => format!(" {trip} times"),
                    _ => String::new(),
                };
                let message = format!(
                    "{} runs block {}, {once} ops once expanded,{times}: more than {MAX_EXPANDED_OPS} ops \
                     from blocks; take fewer trips \
                     or smaller blocks",
                    op.kind.name(),
                    graph.block_text(callee),
                );
                return Err(VerifyError::in_op(graph, id, message));
            }
        }
        ops_of.insert(block, total);
    }
    Ok(())
}
