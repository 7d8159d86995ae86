//! Elementwise ops, whose derivatives are defined in their tables ([`crate::ir`]). At kinks and ties they
//! follow the conventions of PyTorch.

use super::{Rule, Site, first, rest_none, some, zeros_like};
use crate::ir::{BinaryOp, Builder, CompareOp, CompositeOp, DType, Literal, OpKind, UnaryOp, ValueId};

/// Returns the rule of a function of one operand.
pub(super) fn unary(op: UnaryOp) -> Option<Rule<'static>> {
    let gradient = op.gradient()?;
    first(move |b, s| gradient(b, s.g(), s.x(0), s.y()))
}

/// Returns the rule of a composite function, where dx = g · slope.
pub(super) fn composite(op: CompositeOp) -> Option<Rule<'static>> {
    first(move |b, s| {
        let slope = op.slope(b, s.x(0), s.y());
        b.mul(s.g(), slope)
    })
}

/// Returns the rule of a function of two operands. It is not called for integers, which have no cotangent.
pub(super) fn binary(op: BinaryOp) -> Option<Rule<'static>> {
    let gradients = op.gradients()?;
    some(move |b, s| {
        let mut of = |i: usize| s.needs(i).then(|| gradients[i](b, s.g(), [s.x(0), s.x(1)], s.y()));
        Ok(vec![of(0), of(1)])
    })
}

/// Returns the rule of a selection, where da = g if the condition is true, and db = g otherwise.
pub(super) fn select() -> Option<Rule<'static>> {
    some(|b, s| {
        let zeros = zeros_like(b, s.g());
        if s.needs(2) && !s.needs(1) && is_rectifier(b, s) {
            // The result is kept for later ops, so comparing it avoids keeping the condition.
            let cut = b.compare(CompareOp::Le, s.y(), zeros);
            let db = b.select(cut, zeros, s.g());
            return Ok(rest_none(s, [None, None, Some(db)]));
        }
        let da = s.needs(1).then(|| b.select(s.x(0), s.g(), zeros));
        let db = s.needs(2).then(|| b.select(s.x(0), zeros, s.g()));
        Ok(rest_none(s, [None, da, db]))
    })
}

/// Returns `true` if the op is `x <= 0 ? 0 : x`, whose result is positive or NaN exactly where x is.
fn is_rectifier(b: &Builder<'_>, s: &Site<'_>) -> bool {
    let compared = b.graph.defining_op(s.x(0)).is_some_and(|op| {
        op.kind == OpKind::Compare(CompareOp::Le) && op.operands[0] == s.x(2) && is_zero(b, op.operands[1])
    });
    compared && is_zero(b, s.x(1))
}

/// Returns `true` if the value is a constant 0, possibly broadcast.
fn is_zero(b: &Builder<'_>, value: ValueId) -> bool {
    b.graph.defining_op(value).is_some_and(|op| match &op.kind {
        OpKind::Constant { data: Literal::Splat(number), .. } => number.as_f64() == 0.0,
        OpKind::Reshape { .. } | OpKind::Broadcast { .. } => is_zero(b, op.operands[0]),
        _ => false,
    })
}

/// Returns the rule of a cast between floats, where dx = g. No gradient flows through integers and bools.
pub(super) fn cast(to: DType) -> Option<Rule<'static>> {
    if !to.is_float() {
        return None;
    }
    first(|b, s| {
        let dtype = b.graph.ty(s.x(0)).dtype.computed();
        b.cast(s.g(), dtype)
    })
}
