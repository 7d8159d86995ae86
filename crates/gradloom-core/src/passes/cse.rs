//! Common subexpressions: of ops that compute the same from the same operands, the first one stays.
//!
//! Operands of commutative ops count as a set. Leaves are the same if their names (and types) are, and random
//! bits if their sites and keys are, since the generator is a function of those.

use super::rewriter::{Candidate, rebuild};
use crate::collections::{IdMap, hash, sort};
use crate::ir::{BlockId, CompareOp, Graph, OpKind, ValueId};

/// Merges equal ops within each block.
pub fn cse(graph: &Graph) -> Graph {
    // What was seen, by the hash of its key.
    let mut seen: IdMap<u64, Vec<(Key, Vec<ValueId>)>> = IdMap::new();
    rebuild(
        graph,
        |_| true,
        |builder, op| {
            // A value of one block cannot be used in another.
            let key = key(builder.graph.cursor, op);
            let alike = seen.get_or_insert_with(hash(&key), Vec::new);
            if let Some((_, first)) = alike.iter().find(|(known, _)| *known == key) {
                return Some(first.clone());
            }
            let results = builder.all(op.kind.clone(), op.operands);
            alike.push((key, results.clone()));
            Some(results)
        },
    )
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
