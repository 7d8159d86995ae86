//! Limits the number of ops to which the blocks of a graph expand.
//!
//! The error names the op whose block exceeds the limit. Later stages take time and memory proportional to
//! the number of ops, so a short text must not expand to more ops than they can process. The ops must have
//! passed their shape rules.

use super::VerifyError;
use crate::collections::IdMap;
use crate::ir::{BlockId, Graph, Op, OpKind};

/// Maximum number of ops to which all blocks of a graph may expand, where each op counts once per execution.
/// Ops outside blocks are not counted. An op with many operands or axes counts as several, and a block
/// without ops counts as one.
pub const MAX_EXPANDED_OPS: usize = 1 << 18;

/// Number of operands and axes that count as one additional op.
const FEW: usize = 16;

/// Returns the number of ops that an op counts as.
fn weight(graph: &Graph, op: &Op) -> usize {
    let axes: usize = op.results.iter().map(|&value| graph.ty(value).shape.rank()).sum();
    1 + (op.operands.len() + axes) / FEW
}

/// Checks that the reachable blocks of a graph expand to at most [`MAX_EXPANDED_OPS`] ops. In
/// `callees_first`, each block follows the blocks that it runs.
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
                // Each iteration slices the stacked operands, and the stacked results are concatenated from
                // slices.
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
