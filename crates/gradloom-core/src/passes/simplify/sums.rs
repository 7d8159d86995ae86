//! Sums of cotangents that do not overlap, as in the gradient of split or gathered tensors.

use super::super::rewriter::Candidate;
use super::super::splat_of;
use super::{definition, emit};
use crate::collections::sort_by_key;
use crate::ir::{BinaryOp, Builder, Id, Number, OpKind, ScatterOp, ValueId};

/// `pad(a) + pad(b) + ..` with zeros, where the parts do not overlap and together fill one axis:
/// `concat(a, b, ..)`.
///
/// This is how the cotangents of the parts of a split come together (queries, keys and values of attention).
/// One other summand may be among them. Reordering the sum is exact: at every element, all summands but two
/// are 0 (and `-0`, to which nothing is added any more, stays `-0`).
pub(super) fn add_of_pads(b: &mut Builder<'_>, op: BinaryOp, x: ValueId, y: ValueId) -> Option<ValueId> {
    if op != BinaryOp::Add {
        return None;
    }
    let summands = summands(b, x, y);
    let rank = b.graph.ty(x).shape.rank();
    let (axis, parts) = (0..rank).find_map(|axis| Some((axis, parts_along(b, axis, &summands)?)))?;
    let others: Vec<_> = summands.into_iter().filter(|s| parts.iter().all(|p| p.summand != *s)).collect();
    let values: Vec<_> = parts.iter().map(|p| p.value).collect();
    match others[..] {
        [] => Some(emit(b, OpKind::Concat { axis }, &values)),
        [other] => {
            let joined = emit(b, OpKind::Concat { axis }, &values);
            Some(emit(b, OpKind::Binary(BinaryOp::Add), &[other, joined]))
        }
        _ => None,
    }
}

/// A value that is padded with zeros along one axis.
struct SumPart {
    summand: ValueId,
    value: ValueId,
    from: usize,
    to: usize,
}

/// More summands than this are not searched: the next add would search them again.
const MAX_SUMMANDS: usize = 64;

/// The summands of `x + y`, in order; of a longer sum, those of its last additions.
fn summands(b: &Builder<'_>, x: ValueId, y: ValueId) -> Vec<ValueId> {
    // A stack of its own, not recursion: a sum may be as deep as the program is long.
    let mut open = vec![y, x];
    let mut summands = Vec::new();
    while let Some(value) = open.pop() {
        match definition(b, value) {
            Some((OpKind::Binary(BinaryOp::Add), x)) if summands.len() + open.len() + 1 < MAX_SUMMANDS => {
                open.extend([x[1], x[0]]);
            }
            _ => summands.push(value),
        }
    }
    summands
}

/// The summands that are padded along `axis` alone, in order, if together they fill the axis exactly.
fn parts_along(b: &Builder<'_>, axis: usize, summands: &[ValueId]) -> Option<Vec<SumPart>> {
    let mut parts: Vec<SumPart> = summands.iter().filter_map(|&s| part_along(b, axis, s)).collect();
    sort_by_key(&mut parts, |part| part.from);
    let extent = b.graph.ty(summands[0]).shape[axis];
    let mut reached = 0;
    for part in &parts {
        if part.from != reached {
            return None;
        }
        reached = part.to;
    }
    (parts.len() > 1 && reached == extent).then_some(parts)
}

fn part_along(b: &Builder<'_>, axis: usize, summand: ValueId) -> Option<SumPart> {
    let (OpKind::Pad { low, high, interior, value }, x) = definition(b, summand)? else { return None };
    let zero = *value == Number::Float(0.0) || *value == Number::Int(0);
    let elsewhere = (0..low.len()).any(|a| a != axis && (low[a], high[a], interior[a]) != (0, 0, 0));
    let extent = b.graph.ty(x[0]).shape[axis];
    let dense = interior[axis] == 0 && extent > 0;
    (zero && dense && !elsewhere).then(|| SumPart {
        summand,
        value: x[0],
        from: low[axis],
        to: low[axis] + extent,
    })
}

/// `scatter_add(0, index, updates) + x`: `scatter_add(x, index, updates)`, unless the former is needed by
/// itself.
///
/// This is the gradient of a table that is both gathered from and multiplied with (tied embeddings). The
/// updates are then added to `x` one by one instead of to each other first, which may round differently.
pub(super) fn add_to_scattered(b: &mut Builder<'_>, uses: &[usize], op: &Candidate<'_>) -> Option<ValueId> {
    if *op.kind != OpKind::Binary(BinaryOp::Add) {
        return None;
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let Some((kind @ OpKind::Scatter { op: ScatterOp::Add, .. }, x)) = definition(b, op.operands[from])
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
