//! Cumulative reductions along rows, and sorting of rows.

use super::elementwise::wrap;
use super::{HostData, HostTensor};
use crate::ir::{ReduceOp, Type};
use std::cmp::Ordering;

/// Computes, for each element of a row, the reduction of all elements up to and including it, or from it on
/// if `reverse` is set.
pub(super) fn cumulate(op: ReduceOp, reverse: bool, x: &HostTensor) -> HostTensor {
    let ty = x.ty.clone();
    let extent = ty.shape.last().copied().unwrap_or(1);
    let identity = op.identity(ty.dtype).as_f64();
    let data = match &x.data {
        HostData::Float(v) => {
            HostData::Float(walk(v, extent, reverse, identity, |a, b| op.combiner().float(a, b)))
        }
        HostData::Int(v) => HostData::Int(walk(v, extent, reverse, identity as i64, |a, b| {
            wrap(ty.dtype, op.combiner().int(a, b).expect("combiners take all integers"))
        })),
        HostData::Bool(_) => unreachable!("cumulative reductions of bools are ill-typed"),
    };
    HostTensor { ty, data }
}

fn walk<T: Copy>(x: &[T], extent: usize, reverse: bool, identity: T, combine: impl Fn(T, T) -> T) -> Vec<T> {
    let mut result = x.to_vec();
    for row in result.chunks_mut(extent.max(1)) {
        let mut sum = identity;
        for i in 0..row.len() {
            let at = if reverse { row.len() - 1 - i } else { i };
            sum = combine(sum, row[at]);
            row[at] = sum;
        }
    }
    result
}

/// Returns the first elements of each sorted row and their indices, which have the given `types`.
pub(super) fn sort(descending: bool, x: &HostTensor, types: [&Type; 2]) -> Vec<HostTensor> {
    let [extent, count] = [&x.ty, types[0]].map(|ty| ty.shape.last().copied().unwrap_or(1));
    let values = x.to_f64();
    let (mut found, mut indices) = (Vec::new(), Vec::new());
    for (row, values) in values.chunks(extent.max(1)).enumerate() {
        let mut order: Vec<usize> = (0..extent).collect();
        order.sort_by(|&a, &b| {
            let ascending = ascending(values[a], values[b]);
            if descending { ascending.reverse() } else { ascending }
        });
        found.extend(order[..count].iter().map(|&i| x.get(row * extent + i)));
        indices.extend(order[..count].iter().map(|&i| i as f64));
    }
    vec![HostTensor::from_numbers(types[0].clone(), found), HostTensor::from_f64(types[1].clone(), indices)]
}

/// Compares two numbers. NaN is greater than all numbers.
fn ascending(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
