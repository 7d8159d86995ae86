//! Ops over the values of all ranks.

use super::{Rule, some};
use crate::ir::{CollectiveOp, OpKind, ValueId};

/// Returns the rule of a collective op. Every rank differentiates the sum of the losses of all ranks, and all
/// ranks differentiate the same ops in the same order, so each cotangent goes back the way that its operand
/// came.
pub(super) fn rule(op: CollectiveOp, ranks: usize, rounded: bool) -> Option<Rule<'static>> {
    some(move |b, s| {
        let known: Vec<ValueId> = s.cotangents.iter().copied().flatten().collect();
        let kind = OpKind::Collective { op: op.transposed(), ranks, rounded };
        let mut back = b.all(kind, &known).into_iter();
        Ok(s.cotangents.iter().map(|cotangent| cotangent.and_then(|_| back.next())).collect())
    })
}
