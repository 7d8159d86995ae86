//! Convolutions, computed by their definition.

use super::indices::each_index;
use super::{HostData, HostTensor};
use crate::ir::{ConvSpec, Shape, Type};

/// Computes each element of the result as a sum of products of weights and elements of x.
pub(super) fn conv(spec: &ConvSpec, x: &HostTensor, weights: &HostTensor, ty: &Type) -> HostTensor {
    let (xs, ws) = (&x.ty.shape, &weights.ty.shape);
    let (x, w) = (x.floats(), weights.floats());
    let (x_strides, w_strides) = (xs.strides(), ws.strides());
    let per_group = ws[0] / spec.groups;
    let mut result = Vec::with_capacity(ty.elements());
    each_index(&ty.shape, &mut |at| {
        let (batch, output, position) = (at[0], at[1], &at[2..]);
        let first = output / per_group.max(1) * ws[1];
        let mut sum = 0.0;
        // Iterate over the channels and the positions in the weights.
        each_index(&Shape::from(&ws[1..]), &mut |inner| {
            let (channel, place) = (inner[0], &inner[1..]);
            let mut from = batch * x_strides[0] + (first + channel) * x_strides[1];
            let mut weight = output * w_strides[0] + channel * w_strides[1];
            for axis in 0..position.len() {
                let padded = spec.stride[axis] * position[axis] + spec.dilation[axis] * place[axis];
                let Some(inside) = padded.checked_sub(spec.low[axis]).filter(|&i| i < xs[axis + 2]) else {
                    return;
                };
                from += inside * x_strides[axis + 2];
                weight += place[axis] * w_strides[axis + 2];
            }
            sum += x[from] * w[weight];
        });
        result.push(sum);
    });
    HostTensor { ty: ty.clone(), data: HostData::Float(result) }
}
