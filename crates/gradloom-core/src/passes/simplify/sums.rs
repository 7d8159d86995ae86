//! Sums with the cotangent of a gathered tensor.

use super::super::rewriter::Candidate;
use super::super::{definition, splat_of};
use crate::ir::{BinaryOp, Builder, Id, Number, OpKind, ScatterOp, ValueId};

/// Simplifies `scatter_add(0, index, updates) + x` to `scatter_add(x, index, updates)`, unless the scatter
/// has other uses.
///
/// This occurs in the gradient of a table that is both gathered from and used in a product (tied embeddings).
/// The updates are then added to `x` one by one instead of to each other first, which may round differently.
pub(super) fn add_to_scattered(b: &mut Builder<'_>, uses: &[usize], op: &Candidate<'_>) -> Option<ValueId> {
    if *op.kind != OpKind::Binary(BinaryOp::Add) {
        return None;
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let Some((kind @ OpKind::Scatter { op: ScatterOp::Add, .. }, x)) =
            definition(b.graph, op.operands[from])
        else {
            continue;
        };
        let zeros = matches!(splat_of(b.graph, x[0]), Some(Number::Float(0.0) | Number::Int(0)));
        if zeros && uses[op.old.operands[from].index()] == 1 {
            let (kind, operands) = (kind.clone(), [op.operands[to], x[1], x[2]]);
            return Some(b.op(kind, &operands));
        }
    }
    None
}
