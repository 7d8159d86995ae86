//! Convolution, whose cotangents are computed by a convolution and a matrix product over windows.

use super::{Rule, some};
use crate::ir::{Builder, ConvSpec, DType, DotAxes, Literal, Number, OpKind, ReduceOp, Shape, Type, ValueId};
use crate::passes::expand::padded;

/// Returns the rule of a convolution. dx is the convolution of g, dilated with zeros, with the reversed
/// weights. dw is the product of g with windows of x, summed over the batch and positions.
pub(super) fn rule(spec: &ConvSpec) -> Option<Rule<'_>> {
    some(move |b, s| {
        let (x, weights, g) = (s.x(0), s.x(1), s.g());
        let dx = s.needs(0).then(|| of_input(b, spec, &b.shape(x), weights, g));
        let dw = s.needs(1).then(|| of_weights(b, spec, x, &b.shape(weights), g));
        Ok(vec![dx, dw])
    })
}

fn of_input(b: &mut Builder<'_>, spec: &ConvSpec, x: &Shape, weights: ValueId, g: ValueId) -> ValueId {
    let (ws, gs, axes) = (b.shape(weights), b.shape(g), spec.stride.len());
    if x.elements() == 0 {
        // The cotangent of an empty x is empty. The general case does not cover it, because the weights do
        // not fit into g if all positions lie in the padding.
        let ty = Type::new(DType::F32, x.clone());
        let zero = Literal::Splat(Number::of(DType::F32, 0.0));
        return b.op(OpKind::Constant { ty, data: zero }, &[]);
    }
    // Insert zeros between and around the elements, so that every element of x has a sum, and cut off the
    // elements outside x.
    let (mut low, mut high, mut interior) = (vec![0; axes + 2], vec![0; axes + 2], vec![0; axes + 2]);
    let (mut start, mut limit) = (vec![0; axes + 2], vec![0; axes + 2]);
    (limit[0], limit[1]) = (gs[0], gs[1]);
    for i in 0..axes {
        let axis = i + 2;
        interior[axis] = if gs[axis] > 1 { spec.stride[i] - 1 } else { 0 };
        let (reach, spread) = (spec.dilation[i] * (ws[axis] - 1), gs[axis] + (gs[axis] - 1) * interior[axis]);
        let after = (x[axis] + spec.low[i]).saturating_sub(spread);
        (low[axis], start[axis]) = (reach.saturating_sub(spec.low[i]), spec.low[i].saturating_sub(reach));
        high[axis] = after;
        limit[axis] = start[axis] + x[axis] + reach;
    }
    let value = Number::of(DType::F32, 0.0);
    let padded = b.op(OpKind::Pad { low, high, interior, value }, &[g]);
    let cut = b.op(OpKind::Slice { start, limit, step: vec![1; axes + 2] }, &[padded]);
    let reversed = in_reverse(b, weights);
    // Swap the inputs and outputs of each group.
    let (outputs, channels) = (ws[0] / spec.groups, ws[1]);
    let apart = b.reshape(reversed, [&[spec.groups, outputs, channels], &ws[2..]].concat());
    let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..axes + 3).collect();
    let turned = b.permute(apart, &order);
    let turned = b.reshape(turned, [&[spec.groups * channels, outputs], &ws[2..]].concat());
    let zeros = vec![0; axes];
    let back = ConvSpec {
        stride: vec![1; axes],
        low: zeros.clone(),
        high: zeros,
        dilation: spec.dilation.clone(),
        groups: spec.groups,
    };
    b.op(OpKind::Conv(back), &[cut, turned])
}

/// Returns the weights with all spatial axes reversed.
fn in_reverse(b: &mut Builder<'_>, weights: ValueId) -> ValueId {
    let shape = b.shape(weights);
    let places: usize = shape[2..].iter().product();
    if places == 1 {
        return weights;
    }
    let rows = b.reshape(weights, [shape[0] * shape[1], places]);
    let columns = b.permute(rows, &[1, 0]);
    let order = (0..places).rev().map(|place| Number::Int(place as i64)).collect();
    let ty = Type::new(DType::I32, [places]);
    let order = b.op(OpKind::Constant { ty, data: Literal::Dense(order) }, &[]);
    let reversed = b.op(OpKind::Gather { batch: 0 }, &[columns, order]);
    let rows = b.permute(reversed, &[1, 0]);
    b.reshape(rows, shape)
}

fn of_weights(b: &mut Builder<'_>, spec: &ConvSpec, x: ValueId, weights: &Shape, g: ValueId) -> ValueId {
    let (xs, gs, axes) = (b.shape(x), b.shape(g), spec.stride.len());
    let padded = padded(b, spec, x);
    // Each kernel position has one window, which contains the elements of x that its weights multiply.
    let (size, step, dilation) = (gs[2..].to_vec(), spec.dilation.clone(), spec.stride.clone());
    let windows = b.op(OpKind::Windows { size, step, dilation }, &[padded]);
    // Drop the surplus windows, which exist if the stride does not divide the padded extent.
    let found = b.shape(windows);
    let mut limit = found.to_vec();
    limit[2..axes + 2].copy_from_slice(&weights[2..]);
    let seen = match limit == found[..] {
        true => windows,
        false => {
            let (start, step) = (vec![0; found.rank()], vec![1; found.rank()]);
            b.op(OpKind::Slice { start, limit, step }, &[windows])
        }
    };
    let groups = spec.groups;
    let seen = b.reshape(seen, [&[xs[0], groups, xs[1] / groups], &weights[2..], &gs[2..]].concat());
    let g = b.reshape(g, [&[gs[0], groups, gs[1] / groups], &gs[2..]].concat());
    let positions = |first: usize| -> Vec<usize> { (first..first + axes).collect() };
    // A product that also sums over the batch needs a transposed copy of g. Use a product per image instead,
    // unless their results together have more elements than g.
    let apart = weights.elements() <= gs.elements() / gs[0].max(1);
    let dw = if apart {
        let product = DotAxes {
            lhs_batch: vec![0, 1],
            rhs_batch: vec![0, 1],
            lhs_contract: positions(3),
            rhs_contract: positions(3 + axes),
        };
        let each = b.dot(g, seen, product);
        b.reduce(ReduceOp::Sum, each, &[0])
    } else {
        let with_batch = |first| [vec![0], positions(first)].concat();
        let product = DotAxes {
            lhs_batch: vec![1],
            rhs_batch: vec![1],
            lhs_contract: with_batch(3),
            rhs_contract: with_batch(3 + axes),
        };
        b.dot(g, seen, product)
    };
    b.reshape(dw, weights.clone())
}
