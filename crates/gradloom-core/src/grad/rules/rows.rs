//! Cumulative reductions along rows, and rows in order.

use super::{Rule, Site, first, rest_none, some, zeros_like};
use crate::ir::{BinaryOp, Builder, CompareOp, DType, OpKind, ReduceOp, ScatterOp, ValueId};

/// The rule of a cumulative reduction.
pub(super) fn cumulate(op: ReduceOp, reverse: bool) -> Option<Rule<'static>> {
    first(move |b, s| match op {
        // dx_i: the sum of g over all results that x_i is part of.
        ReduceOp::Sum => sum_back(b, s.g(), reverse),
        ReduceOp::Prod => prod(b, s, reverse),
        ReduceOp::Max | ReduceOp::Min => extreme(b, s, reverse),
    })
}

/// Sums from the other end.
fn sum_back(b: &mut Builder<'_>, x: ValueId, reverse: bool) -> ValueId {
    b.op(OpKind::Cumulate { op: ReduceOp::Sum, reverse: !reverse }, &[x])
}

/// dx_i = sum over the results k from i on of g_k times the product of the elements of y_k other than x_i:
///
/// - before the first zero: `sum(g_k · y_k) / x_i`, as later y are 0;
/// - at the first zero: `sum(g_k · p_k)`, with p the products of the elements but for this zero;
/// - behind it: 0.
fn prod(b: &mut Builder<'_>, s: &Site<'_>, reverse: bool) -> ValueId {
    let x = s.x(0);
    let (ones, zeros) = (b.splat_like(x, 1.0), zeros_like(b, x));
    let is_zero = b.compare(CompareOp::Eq, x, zeros);
    let counted = b.select(is_zero, ones, zeros);
    let count = b.op(OpKind::Cumulate { op: ReduceOp::Sum, reverse }, &[counted]);
    let is_before = b.compare(CompareOp::Lt, count, ones);
    let is_one = b.compare(CompareOp::Eq, count, ones);
    let is_first = b.binary(BinaryOp::And, is_zero, is_one);

    let through = b.mul(s.g(), s.y());
    let through = sum_back(b, through, reverse);
    let divisor = b.select(is_zero, ones, x);
    let before = b.div(through, divisor);

    let others = b.select(is_first, ones, x);
    let product = b.op(OpKind::Cumulate { op: ReduceOp::Prod, reverse }, &[others]);
    let around = b.mul(s.g(), product);
    let around = sum_back(b, around, reverse);
    let rest = b.select(is_first, around, zeros);
    b.select(is_before, before, rest)
}

/// dx = every g_k added to the element that is y_k; of equals, to the one that the walk met last.
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

/// dx = every g added to the element that came there.
pub(super) fn sort() -> Option<Rule<'static>> {
    some(|b, s| {
        let Some(g) = s.cotangents[0] else { return Ok(vec![None]) };
        let zeros = zeros_like(b, s.x(0));
        let batch = b.shape(s.x(0)).rank() - 1;
        let dx = b.op(OpKind::Scatter { op: ScatterOp::Add, batch }, &[zeros, s.op.results[1], g]);
        Ok(rest_none(s, [Some(dx)]))
    })
}
