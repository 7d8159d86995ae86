//! The generalized matrix product.

use super::indices::positions;
use super::{HostData, HostTensor};
use crate::ir::{DotAxes, Type};

/// Computes the sum of products over the contracted axes for each element of the batch and free axes.
pub(super) fn dot(axes: &DotAxes, lhs: &HostTensor, rhs: &HostTensor, ty: &Type) -> HostTensor {
    let (l, r) = (lhs.floats(), rhs.floats());
    let side = |x: &HostTensor, batch: &[usize], contract: &[usize]| {
        let free = DotAxes::free(x.ty.shape.rank(), batch, contract);
        let strides = x.ty.shape.strides();
        [batch, &free, contract].map(|axes| positions(&x.ty.shape, &strides, axes))
    };
    let [l_batch, l_free, l_contract] = side(lhs, &axes.lhs_batch, &axes.lhs_contract);
    let [r_batch, r_free, r_contract] = side(rhs, &axes.rhs_batch, &axes.rhs_contract);
    let mut result = Vec::with_capacity(ty.elements());
    for (lb, rb) in l_batch.iter().zip(&r_batch) {
        for lf in &l_free {
            for rf in &r_free {
                let pairs = l_contract.iter().zip(&r_contract);
                // `Iterator::sum` starts at -0, so it cannot be used.
                result.push(pairs.fold(0.0, |sum, (lc, rc)| sum + l[lb + lf + lc] * r[rb + rf + rc]));
            }
        }
    }
    HostTensor { ty: ty.clone(), data: HostData::Float(result) }
}
