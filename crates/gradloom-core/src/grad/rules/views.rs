//! Views and data movement: the adjoint moves each element of the cotangent back to where it came from.

use super::{Rule, first, some};
use crate::ir::{DType, Number, OpKind, inverse_permutation};

/// dx = g in the shape of x.
pub(super) fn reshape() -> Option<Rule<'static>> {
    first(|b, s| {
        let shape = b.shape(s.x(0));
        b.reshape(s.g(), shape)
    })
}

/// dx = g with its axes put back.
pub(super) fn permute(perm: &[usize]) -> Option<Rule<'_>> {
    first(|b, s| b.permute(s.g(), &inverse_permutation(perm)))
}

/// dx = g summed over the repeated axes.
pub(super) fn broadcast() -> Option<Rule<'static>> {
    first(|b, s| {
        let shape = b.shape(s.x(0));
        b.sum_to(s.g(), &shape)
    })
}

/// dx = g spread out by the step, with zeros for the elements that were left out.
pub(super) fn slice<'a>(start: &'a [usize], step: &'a [usize]) -> Option<Rule<'a>> {
    first(|b, s| {
        let (whole, part) = (b.shape(s.x(0)), b.shape(s.g()));
        let high = (0..whole.rank())
            .map(|a| match part[a] {
                0 => whole[a] - start[a],
                n => whole[a] - (start[a] + (n - 1) * step[a] + 1),
            })
            .collect();
        let interior = step.iter().map(|step| step - 1).collect();
        let value = Number::of(DType::F32, 0.0);
        b.op(OpKind::Pad { low: start.to_vec(), high, interior, value }, &[s.g()])
    })
}

/// dx = the elements of g where those of x went; nothing flows to the pad value, which is a constant.
pub(super) fn pad<'a>(low: &'a [usize], interior: &'a [usize]) -> Option<Rule<'a>> {
    first(|b, s| {
        let shape = b.shape(s.x(0));
        let step: Vec<_> = interior.iter().map(|gap| gap + 1).collect();
        let limit = (0..shape.rank())
            .map(|a| match shape[a] {
                0 => low[a],
                n => low[a] + (n - 1) * step[a] + 1,
            })
            .collect();
        b.op(OpKind::Slice { start: low.to_vec(), limit, step }, &[s.g()])
    })
}

/// dx_i = the part of g that came from x_i.
pub(super) fn concat(axis: usize) -> Option<Rule<'static>> {
    some(move |b, s| {
        let whole = b.shape(s.g());
        let mut offset = 0;
        let mut cotangents = Vec::with_capacity(s.op.operands.len());
        for (i, &operand) in s.op.operands.iter().enumerate() {
            let extent = b.graph.ty(operand).shape[axis];
            let part = s.needs(i).then(|| {
                let (mut start, mut limit) = (vec![0; whole.rank()], whole.to_vec());
                (start[axis], limit[axis]) = (offset, offset + extent);
                b.op(OpKind::Slice { start, limit, step: vec![1; whole.rank()] }, &[s.g()])
            });
            cotangents.push(part);
            offset += extent;
        }
        Ok(cotangents)
    })
}
