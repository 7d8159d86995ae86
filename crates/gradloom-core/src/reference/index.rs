//! Gather and scatter-add, with their index traps.

use super::elementwise::wrap;
use super::error::trap;
use super::{HostData, HostTensor};
use crate::error::Result;
use crate::ir::Type;

/// How `x [B.., N, R..]` and `index [B.., I..]` fit together, each group of axes as one.
struct Rows {
    /// Row of x, counted over the batch, for each element of the index.
    sources: Vec<usize>,
    /// Elements of a row.
    width: usize,
}

fn rows(x: &HostTensor, index: &HostTensor, batch: usize) -> Result<Rows> {
    let extent = x.ty.shape[batch];
    let per_batch: usize = index.ty.shape[batch..].iter().product();
    let mut sources = Vec::with_capacity(index.len());
    for i in 0..index.len() {
        let row = index.integer(i);
        let Some(row) = usize::try_from(row).ok().filter(|row| *row < extent) else {
            return Err(trap(format!(
                "index {row} (element {i} of the indices) is out of range for the extent {extent} of axis \
                 {batch}"
            )));
        };
        sources.push(i / per_batch * extent + row);
    }
    Ok(Rows { sources, width: x.ty.shape[batch + 1..].iter().product() })
}

/// Rows of x at indices.
pub(super) fn gather(x: &HostTensor, index: &HostTensor, batch: usize, ty: &Type) -> Result<HostTensor> {
    let Rows { sources, width } = rows(x, index, batch)?;
    let elements = sources.iter().flat_map(|row| (0..width).map(move |i| x.get(row * width + i)));
    Ok(HostTensor::from_numbers(ty.clone(), elements))
}

/// x with updates added to its rows, in the order of the updates.
pub(super) fn scatter_add(
    x: &HostTensor,
    index: &HostTensor,
    updates: &HostTensor,
    batch: usize,
) -> Result<HostTensor> {
    let Rows { sources, width } = rows(x, index, batch)?;
    let places = sources.iter().flat_map(|row| (0..width).map(move |i| row * width + i));
    let data = match (&x.data, &updates.data) {
        (HostData::Float(x), HostData::Float(updates)) => {
            let mut sums = x.clone();
            for (place, update) in places.zip(updates) {
                sums[place] += update;
            }
            HostData::Float(sums)
        }
        (HostData::Int(values), HostData::Int(updates)) => {
            let mut sums = values.clone();
            for (place, update) in places.zip(updates) {
                sums[place] = wrap(x.ty.dtype, sums[place] + update);
            }
            HostData::Int(sums)
        }
        _ => unreachable!("scatter_add of other dtypes is ill-typed"),
    };
    Ok(HostTensor { ty: x.ty.clone(), data })
}
