//! Windows and rows at positions that are known only when the step runs. Reading and adding are each other's
//! adjoints.

use super::{Rule, first, rest_none, some, zeros_like};
use crate::ir::OpKind;

/// dx = zeros with the window replaced by g.
pub(super) fn dynamic_slice() -> Option<Rule<'static>> {
    first(|b, s| {
        let zeros = zeros_like(b, s.x(0));
        let operands = [&[zeros, s.g()], &s.op.operands[1..]].concat();
        b.op(OpKind::DynamicUpdateSlice, &operands)
    })
}

/// dx = g with the window replaced by zeros; the update's cotangent is the window of g.
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

/// dx = zeros with every row of g added to the row that was read.
pub(super) fn gather(batch: usize) -> Option<Rule<'static>> {
    first(move |b, s| {
        let zeros = zeros_like(b, s.x(0));
        b.op(OpKind::ScatterAdd { batch }, &[zeros, s.x(1), s.g()])
    })
}

/// dx = g; the cotangent of an update is the row of g that it was added to.
pub(super) fn scatter_add(batch: usize) -> Option<Rule<'static>> {
    some(move |b, s| {
        let du = s.needs(2).then(|| b.op(OpKind::Gather { batch }, &[s.g(), s.x(1)]));
        Ok(rest_none(s, [Some(s.g()), None, du]))
    })
}
