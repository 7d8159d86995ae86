//! Joining of zero-padded terms, such as the cotangents of the parts of a tensor.

use super::super::definition;
use super::{Term, take};
use crate::collections::{sort, sort_by_key};
use crate::ir::{Builder, Number, OpKind, ValueId};

/// Removes terms from a sum that are zero-padded along one axis, do not overlap, and together fill it, and
/// returns their concatenation: `pad(a) + pad(b) + .. = concat(a, b, ..)`.
///
/// The cotangents of the parts of a split have this form, such as queries, keys and values of attention, or
/// the steps of a sequence. If the sum has at most one other term, at most two terms are nonzero at every
/// element, so its result is bitwise identical, except that a `-0` to which no other term is added remains
/// `-0`.
pub(super) fn join(b: &mut Builder<'_>, terms: &mut Vec<Term>) -> Option<ValueId> {
    let rank = b.graph.ty(terms.first()?.new).shape.rank();
    let (axis, parts) = (0..rank).find_map(|axis| Some((axis, parts_along(b, axis, terms)?)))?;
    let values: Vec<_> = parts.iter().map(|part| part.value).collect();
    let mut indices: Vec<_> = parts.iter().map(|part| part.term).collect();
    sort(&mut indices);
    take(terms, &indices);
    Some(b.op(OpKind::Concat { axis }, &values))
}

/// A value that is zero-padded along one axis, with the index of its term.
struct Part {
    term: usize,
    value: ValueId,
    from: usize,
    to: usize,
}

/// Returns the terms that are padded only along `axis` and together fill it exactly, in order.
fn parts_along(b: &Builder<'_>, axis: usize, terms: &[Term]) -> Option<Vec<Part>> {
    let mut parts: Vec<Part> =
        terms.iter().enumerate().filter_map(|(i, term)| part_along(b, axis, i, term.new)).collect();
    sort_by_key(&mut parts, |part| part.from);
    let mut reached = 0;
    parts.retain(|part| {
        let follows = part.from == reached;
        reached = if follows { part.to } else { reached };
        follows
    });
    (parts.len() > 1 && reached == b.graph.ty(terms[0].new).shape[axis]).then_some(parts)
}

fn part_along(b: &Builder<'_>, axis: usize, term: usize, value: ValueId) -> Option<Part> {
    let (OpKind::Pad { low, high, interior, value: number }, x) = definition(b.graph, value)? else {
        return None;
    };
    let zero = *number == Number::Float(0.0) || *number == Number::Int(0);
    let elsewhere = (0..low.len()).any(|a| a != axis && (low[a], high[a], interior[a]) != (0, 0, 0));
    let extent = b.graph.ty(x[0]).shape[axis];
    let dense = interior[axis] == 0 && extent > 0;
    (zero && dense && !elsewhere).then(|| Part { term, value: x[0], from: low[axis], to: low[axis] + extent })
}
