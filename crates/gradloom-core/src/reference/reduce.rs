//! Reductions over axes, and indices of extreme elements.

use super::elementwise::wrap;
use super::indices::{each_index, position};
use super::{HostData, HostTensor};
use crate::ir::{ArgReduceOp, ReduceOp, Type};

/// Reduces over `axes`. `ty` is the type of the result.
pub(super) fn reduce(op: ReduceOp, axes: &[usize], x: &HostTensor, ty: &Type) -> HostTensor {
    let kept = strides_without(ty, axes, x.ty.shape.rank());
    let targets = || {
        let mut targets = Vec::with_capacity(x.len());
        each_index(&x.ty.shape, &mut |index| targets.push(position(index, &kept)));
        targets
    };
    let data = match &x.data {
        HostData::Float(v) => {
            let mut result = vec![op.identity(ty.dtype).as_f64(); ty.elements()];
            for (target, &v) in targets().into_iter().zip(v) {
                result[target] = op.combiner().float(result[target], v);
            }
            HostData::Float(result)
        }
        HostData::Int(v) => {
            let mut result = vec![op.identity(ty.dtype).as_f64() as i64; ty.elements()];
            for (target, &v) in targets().into_iter().zip(v) {
                let combined = op.combiner().int(result[target], v);
                result[target] = wrap(ty.dtype, combined.expect("combiners take all integers"));
            }
            HostData::Int(result)
        }
        HostData::Bool(_) => unreachable!("{} of bools is ill-typed", op.name()),
    };
    HostTensor { ty: ty.clone(), data }
}

/// Returns the result's stride for each axis of the operand, with 0 for reduced axes.
fn strides_without(ty: &Type, axes: &[usize], rank: usize) -> Vec<usize> {
    let mut kept = ty.shape.strides().into_iter();
    (0..rank).map(|axis| if axes.contains(&axis) { 0 } else { kept.next().unwrap_or(0) }).collect()
}

/// Returns the indices along `axis` of the extreme elements. `ty` is the type of the result.
pub(super) fn arg_reduce(op: ArgReduceOp, axis: usize, x: &HostTensor, ty: &Type) -> HostTensor {
    let kept = strides_without(ty, &[axis], x.ty.shape.rank());
    let values = x.to_f64();
    let mut best = vec![f64::NAN; ty.elements()];
    let mut indices = vec![0; ty.elements()];
    let mut next = 0;
    each_index(&x.ty.shape, &mut |index| {
        let (target, value) = (position(index, &kept), values[next]);
        next += 1;
        // The comparison is strict, so the first of equal elements is kept. Nothing is better than a NaN.
        let better = !best[target].is_nan()
            && match op {
                ArgReduceOp::ArgMax => value.is_nan() || value > best[target],
                ArgReduceOp::ArgMin => value.is_nan() || value < best[target],
            };
        if index[axis] == 0 || better {
            best[target] = value;
            indices[target] = index[axis] as i64;
        }
    });
    HostTensor { ty: ty.clone(), data: HostData::Int(indices) }
}
