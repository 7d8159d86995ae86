//! Windows and rows at positions that are known only at run time. Reading and adding are adjoint to each
//! other.

use super::{Rule, first, rest_none, some, zeros_like};
use crate::ir::{CompareOp, DType, OpKind, ScatterOp, Type};

/// Returns the rule of a dynamic slice, where dx is zeros with the window replaced by g.
pub(super) fn dynamic_slice() -> Option<Rule<'static>> {
    first(|b, s| {
        let zeros = zeros_like(b, s.x(0));
        let operands = [&[zeros, s.g()], &s.op.operands[1..]].concat();
        b.op(OpKind::DynamicUpdateSlice, &operands)
    })
}

/// Returns the rule of a dynamic update, where dx is g with the window replaced by zeros, and the update's
/// cotangent is the window of g.
pub(super) fn dynamic_update_slice() -> Option<Rule<'static>> {
    some(|b, s| {
        let starts = &s.op.operands[2..];
        let dx = s.needs(0).then(|| {
            let zeros = zeros_like(b, s.x(1));
            b.op(OpKind::DynamicUpdateSlice, &[&[s.g(), zeros], starts].concat())
        });
        let du = s.needs(1).then(|| {
            let sizes = b.shape(s.x(1)).to_vec();
            b.op(OpKind::DynamicSlice { sizes }, &[&[s.g()], starts].concat())
        });
        Ok(rest_none(s, [dx, du]))
    })
}

/// Returns the rule of a gather, where dx is zeros with every row of g added to the row from which it was
/// read.
pub(super) fn gather(batch: usize) -> Option<Rule<'static>> {
    first(move |b, s| {
        let zeros = zeros_like(b, s.x(0));
        b.op(OpKind::Scatter { op: ScatterOp::Add, batch }, &[zeros, s.x(1), s.g()])
    })
}

/// Returns the rule of an adding scatter, where dx = g, and the cotangent of an update is the row of g to
/// which it was added.
pub(super) fn scatter_add(batch: usize) -> Option<Rule<'static>> {
    some(move |b, s| {
        let du = s.needs(2).then(|| b.op(OpKind::Gather { batch }, &[s.g(), s.x(1)]));
        Ok(rest_none(s, [Some(s.g()), None, du]))
    })
}

/// Returns the rule of a replacing scatter, where dx is g with the replaced rows set to 0. The cotangent of
/// an update is the row of g that it replaced, or 0 if a later update replaced that row again.
pub(super) fn scatter(batch: usize) -> Option<Rule<'static>> {
    let set = move || OpKind::Scatter { op: ScatterOp::Set, batch };
    some(move |b, s| {
        let index = s.x(1);
        let dx = s.needs(0).then(|| {
            let zeros = zeros_like(b, s.x(2));
            b.op(set(), &[s.g(), index, zeros])
        });
        let du = s.needs(2).then(|| {
            // Number the updates, so that each row contains the number of its last update.
            let ty = Type::new(DType::I32, b.shape(index));
            let flat = Type::new(DType::I32, [ty.elements()]);
            let numbers = b.op(OpKind::Iota { ty: flat, axis: 0 }, &[]);
            let numbers = b.reshape(numbers, ty.shape);
            let rows = Type::new(DType::I32, &b.shape(s.x(0))[..=batch]);
            let none = b.splat(&rows, -1.0);
            let last = b.op(set(), &[none, index, numbers]);
            let last = b.op(OpKind::Gather { batch }, &[last, index]);
            let is_last = b.compare(CompareOp::Eq, last, numbers);
            let g = b.op(OpKind::Gather { batch }, &[s.g(), index]);
            let shape = b.shape(g);
            let rank = b.shape(index).rank();
            let kept: Vec<usize> =
                (0..shape.rank()).map(|axis| if axis < rank { shape[axis] } else { 1 }).collect();
            let is_last = b.reshape(is_last, kept);
            let is_last = b.broadcast(is_last, &shape);
            let zeros = zeros_like(b, g);
            b.select(is_last, g, zeros)
        });
        Ok(rest_none(s, [dx, None, du]))
    })
}
