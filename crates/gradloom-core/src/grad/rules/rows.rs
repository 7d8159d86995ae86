//! Cumulative reductions along rows, and sorting of rows.

use super::{Rule, Site, first, rest_none, some, zeros_like};
use crate::ir::{Builder, CompareOp, DType, Number, OpKind, ReduceOp, ScatterOp, ValueId};

/// Returns the rule of a cumulative reduction.
pub(super) fn cumulate(op: ReduceOp, reverse: bool) -> Option<Rule<'static>> {
    first(move |b, s| match op {
        // dx_i is the sum of g over all results that depend on x_i.
        ReduceOp::Sum => sum_back(b, s.g(), reverse),
        ReduceOp::Prod => prod(b, s, reverse),
        ReduceOp::Max | ReduceOp::Min => extreme(b, s, reverse),
    })
}

/// Appends cumulative sums in the opposite direction.
fn sum_back(b: &mut Builder<'_>, x: ValueId, reverse: bool) -> ValueId {
    b.op(OpKind::Cumulate { op: ReduceOp::Sum, reverse: !reverse }, &[x])
}

/// Appends dx_i = (product of the elements before x_i) · S_i with `S_i = g_i + x_next · S_next`, which is the
/// sum over the results from i on of g times the product of the elements between. Without divisions and
/// selections, this and its derivatives are also valid at zeros.
fn prod(b: &mut Builder<'_>, s: &Site<'_>, reverse: bool) -> ValueId {
    let (x, mut sums) = (s.x(0), s.g());
    let n = *b.shape(x).last().expect("rows have an axis");
    if n == 0 {
        return zeros_like(b, x);
    }
    // Compute the sums by doubling: the sum over the next 2 · distance results is the sum over the first half
    // plus the sum over the second half times the product of the elements between.
    let part = |b: &mut Builder<'_>, x: ValueId, from: usize, to: usize| {
        let mut limit = b.shape(x).to_vec();
        let rank = limit.len();
        let mut start = vec![0; rank];
        // In reverse, the next elements have lower indices.
        let length = limit[rank - 1];
        (start[rank - 1], limit[rank - 1]) = if reverse { (length - to, length - from) } else { (from, to) };
        b.op(OpKind::Slice { start, limit, step: vec![1; rank] }, &[x])
    };
    let mut products = part(b, x, 1, n);
    let mut distance = 1;
    while distance < n {
        let rest = n - distance;
        let behind = part(b, sums, distance, n);
        let change = b.mul(products, behind);
        let change = shifted(b, change, distance, 0.0, !reverse);
        sums = b.add(sums, change);
        if distance < rest {
            let (near, far) = (part(b, products, 0, rest - distance), part(b, products, distance, rest));
            products = b.mul(near, far);
        }
        distance *= 2;
    }
    let before = others(b, x, reverse);
    b.mul(before, sums)
}

/// Appends, for each element of a row, the product of the elements before it, or after it if `reverse` is
/// set.
pub(super) fn others(b: &mut Builder<'_>, x: ValueId, reverse: bool) -> ValueId {
    let shape = b.shape(x);
    let (axis, n) = (shape.rank() - 1, *shape.last().expect("rows have an axis"));
    if n == 1 {
        return b.splat_like(x, 1.0);
    }
    let (mut start, mut limit) = (vec![0; axis + 1], shape.to_vec());
    if reverse {
        start[axis] = 1;
    } else {
        limit[axis] = n - 1;
    }
    let met = b.op(OpKind::Slice { start, limit, step: vec![1; axis + 1] }, &[x]);
    let met = b.op(OpKind::Cumulate { op: ReduceOp::Prod, reverse }, &[met]);
    shifted(b, met, 1, 1.0, reverse)
}

/// Pads each row with `by` elements of this value, after the others if `behind` is set, otherwise before
/// them.
fn shifted(b: &mut Builder<'_>, x: ValueId, by: usize, value: f64, behind: bool) -> ValueId {
    let rank = b.shape(x).rank();
    let (none, mut more) = (vec![0; rank], vec![0; rank]);
    more[rank - 1] = by;
    let (low, high) = if behind { (none.clone(), more) } else { (more, none.clone()) };
    let value = Number::of(b.ty(x).dtype, value);
    b.op(OpKind::Pad { low, high, interior: none, value }, &[x])
}

/// Appends dx, in which every g_k is added to the element equal to y_k. If several elements up to k are
/// equal, g_k is added to the last one in the direction of the reduction.
fn extreme(b: &mut Builder<'_>, s: &Site<'_>, reverse: bool) -> ValueId {
    let x = s.x(0);
    let ty = crate::ir::Type::new(DType::I32, b.shape(x));
    let axis = ty.shape.rank() - 1;
    let last = b.splat(&ty, ty.shape[axis].saturating_sub(1) as f64);
    let first = b.splat(&ty, 0.0);
    let places = b.op(OpKind::Iota { ty, axis }, &[]);
    let is_it = b.compare(CompareOp::Eq, x, s.y());
    let (op, start) = if reverse { (ReduceOp::Min, last) } else { (ReduceOp::Max, first) };
    let met = b.select(is_it, places, start);
    let index = b.op(OpKind::Cumulate { op, reverse }, &[met]);
    let zeros = zeros_like(b, x);
    b.op(OpKind::Scatter { op: ScatterOp::Add, batch: axis }, &[zeros, index, s.g()])
}

/// Returns the rule of a sort, where every element of g is added to the element of dx that was sorted to its
/// position.
pub(super) fn sort() -> Option<Rule<'static>> {
    some(|b, s| {
        let Some(g) = s.cotangents[0] else { return Ok(vec![None]) };
        let zeros = zeros_like(b, s.x(0));
        let batch = b.shape(s.x(0)).rank() - 1;
        let dx = b.op(OpKind::Scatter { op: ScatterOp::Add, batch }, &[zeros, s.op.results[1], g]);
        Ok(rest_none(s, [Some(dx)]))
    })
}
