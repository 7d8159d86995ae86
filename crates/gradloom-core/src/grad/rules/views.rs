//! Views and data movement. The adjoint moves each element of the cotangent back to its source.

use super::{Rule, first, some};
use crate::ir::{DType, Number, OpKind, ValueId, inverse_permutation};

/// Returns the rule of a reshape, where dx is g in the shape of x.
pub(super) fn reshape() -> Option<Rule<'static>> {
    first(|b, s| {
        let shape = b.shape(s.x(0));
        b.reshape(s.g(), shape)
    })
}

/// Returns the rule of a permutation, where dx is g with the axes in their original order.
pub(super) fn permute(perm: &[usize]) -> Option<Rule<'_>> {
    first(|b, s| b.permute(s.g(), &inverse_permutation(perm)))
}

/// Returns the rule of a broadcast, where dx is g summed over the repeated axes.
pub(super) fn broadcast() -> Option<Rule<'static>> {
    first(|b, s| {
        let shape = b.shape(s.x(0));
        b.sum_to(s.g(), &shape)
    })
}

/// Returns the rule of a slice, where dx is g spread out by the step, with zeros in place of the omitted
/// elements.
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

/// Returns the rule of padding, where dx is the slice of g that corresponds to x. No gradient flows to the
/// padding value, which is a constant.
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

/// Returns the rule of a concatenation, where dx_i is the part of g that came from x_i.
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

/// Returns the rule of windows, where every element of g is added to its source in dx. The elements at one
/// position of all windows form a strided slice of x, and so do the elements of one window. The sum is over
/// whichever kind has fewer slices.
pub(super) fn windows<'a>(size: &'a [usize], step: &'a [usize], dilation: &'a [usize]) -> Option<Rule<'a>> {
    first(move |b, s| {
        let (whole, result) = (b.shape(s.x(0)), b.shape(s.g()));
        let (rank, axes) = (whole.rank(), size.len());
        let counts = result[rank - axes..rank].to_vec();
        let by_place = size.iter().product::<usize>() <= counts.iter().product();
        // Iterate over the axes of `chosen`. The elements of the other axes have the distance `apart` in x.
        let (chosen, others) = if by_place { (size, &counts[..]) } else { (&counts[..], size) };
        let (start, apart) = if by_place { (dilation, step) } else { (step, dilation) };
        let offset = if by_place { rank } else { rank - axes };
        let mut sum: Option<ValueId> = None;
        let mut index = vec![0; axes];
        loop {
            let (mut from, mut to) = (vec![0; result.rank()], result.to_vec());
            for (i, &at) in index.iter().enumerate() {
                (from[offset + i], to[offset + i]) = (at, at + 1);
            }
            let one = b.op(OpKind::Slice { start: from, limit: to, step: vec![1; result.rank()] }, &[s.g()]);
            let lead = &whole[..rank - axes];
            let part = b.reshape(one, [lead, others].concat());
            let (mut low, mut high, mut interior) = (vec![0; rank], vec![0; rank], vec![0; rank]);
            for i in 0..axes {
                let axis = rank - axes + i;
                low[axis] = index[i] * start[i];
                interior[axis] = if others[i] > 1 { apart[i] - 1 } else { 0 };
                high[axis] = whole[axis] - low[axis] - others[i] - (others[i] - 1) * interior[axis];
            }
            let value = Number::of(DType::F32, 0.0);
            let spread = b.op(OpKind::Pad { low, high, interior, value }, &[part]);
            sum = Some(sum.map_or(spread, |sum| b.add(sum, spread)));
            let Some(axis) = (0..axes).rev().find(|&axis| index[axis] + 1 < chosen[axis]) else { break };
            index[axis] += 1;
            index[axis + 1..].fill(0);
        }
        sum.expect("there is a window with an element")
    })
}
