//! Common subexpression elimination, which keeps the first of several ops that compute the same result from
//! the same operands.
//!
//! The order of the operands of commutative ops is ignored, and `a > b` is the same as `b < a`. Leaves and
//! random bits are equal if all their attributes and operands are. Equal random bits can be merged, since the
//! generator is a function of these.

use super::rewriter::{Candidate, rebuild};
use crate::collections::{bucket, sort};
use crate::ir::{BlockId, CompareOp, Graph, OpKind, ValueId};
use std::iter;

/// Merges equal ops within each block.
pub fn cse(graph: &Graph) -> Graph {
    let mut seen: Vec<Seen> = Vec::new();
    // The last op seen in each bucket of a hash table.
    let mut last: Vec<Option<usize>> = vec![None; graph.ops.len()];
    rebuild(
        graph,
        |_| true,
        |builder, op| {
            // The block is part of the key because a value of one block cannot be used in another.
            let key = key(builder.graph.cursor, op);
            let last = bucket(&key, &mut last);
            let mut alike = iter::successors(*last, |&known| seen[known].before);
            if let Some(known) = alike.find(|&known| seen[known].key == key) {
                return Some(seen[known].results.clone());
            }
            let results = builder.all(op.kind.clone(), op.operands);
            seen.push(Seen { key, results: results.clone(), before: last.replace(seen.len()) });
            Some(results)
        },
    )
}

/// An op that was seen, with the index of the previous op in its bucket.
struct Seen {
    key: Key,
    results: Vec<ValueId>,
    before: Option<usize>,
}

type Key = (BlockId, OpKind, Vec<ValueId>);

fn key(block: BlockId, op: &Candidate<'_>) -> Key {
    let (mut kind, mut operands) = (op.kind.clone(), op.operands.to_vec());
    match kind {
        OpKind::Binary(binary) if binary.is_commutative() => sort(&mut operands),
        OpKind::Compare(CompareOp::Eq | CompareOp::Ne) => sort(&mut operands),
        OpKind::Compare(CompareOp::Gt) => {
            kind = OpKind::Compare(CompareOp::Lt);
            operands.reverse();
        }
        OpKind::Compare(CompareOp::Ge) => {
            kind = OpKind::Compare(CompareOp::Le);
            operands.reverse();
        }
        _ => {}
    }
    (block, kind, operands)
}
