//! Expansion of convolutions to matrix products over windows.

use crate::ir::{Builder, ConvSpec, DType, DotAxes, Number, OpKind, ValueId};

/// Appends x with zero padding.
pub(crate) fn padded(b: &mut Builder<'_>, spec: &ConvSpec, x: ValueId) -> ValueId {
    if spec.low.iter().chain(&spec.high).all(|&n| n == 0) {
        return x;
    }
    let around = |amounts: &[usize]| [&[0, 0], amounts].concat();
    let (low, high) = (around(&spec.low), around(&spec.high));
    let interior = vec![0; low.len()];
    b.op(OpKind::Pad { low, high, interior, value: Number::of(DType::F32, 0.0) }, &[x])
}

/// Appends the convolution as the product of the weights with windows of x.
pub(crate) fn expand(b: &mut Builder<'_>, spec: &ConvSpec, x: ValueId, weights: ValueId) -> ValueId {
    let (xs, ws, axes, groups) = (b.shape(x), b.shape(weights), spec.stride.len(), spec.groups);
    let result = spec.result_shape(&xs, &ws).expect("the graph is verified");
    let padded = padded(b, spec, x);
    let (size, step, dilation) = (ws[2..].to_vec(), spec.stride.clone(), spec.dilation.clone());
    let windows = b.op(OpKind::Windows { size, step, dilation }, &[padded]);
    let seen = b.reshape(windows, [&[xs[0], groups, ws[1]], &result[2..], &ws[2..]].concat());
    let own = b.reshape(weights, [&[1, groups, ws[0] / groups, ws[1]], &ws[2..]].concat());
    let own = b.broadcast(own, &[&[xs[0], groups, ws[0] / groups, ws[1]], &ws[2..]].concat().into());
    let product = DotAxes {
        lhs_batch: vec![0, 1],
        rhs_batch: vec![0, 1],
        lhs_contract: (3..4 + axes).collect(),
        rhs_contract: [2].into_iter().chain(3 + axes..3 + 2 * axes).collect(),
    };
    let y = b.dot(own, seen, product);
    b.reshape(y, result)
}
