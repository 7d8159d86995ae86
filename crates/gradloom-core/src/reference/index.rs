//! Gather and scatter, including index traps.

use super::elementwise::wrap;
use super::error::trap;
use super::{HostData, HostTensor};
use crate::error::Result;
use crate::ir::{Number, ScatterOp, Type};

/// The rows of `x [B.., N, R..]` to which `index [B.., I..]` refers, with each group of axes flattened.
struct Rows {
    /// Row of x, counted over the batch, for each element of the index.
    sources: Vec<usize>,
    /// Number of elements in a row.
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

pub(super) fn gather(x: &HostTensor, index: &HostTensor, batch: usize, ty: &Type) -> Result<HostTensor> {
    let Rows { sources, width } = rows(x, index, batch)?;
    let elements = sources.iter().flat_map(|row| (0..width).map(move |i| x.get(row * width + i)));
    Ok(HostTensor::from_numbers(ty.clone(), elements))
}

/// Replaces rows of x by updates, ignoring updates with indices out of range.
fn scatter_distinct(x: &HostTensor, index: &HostTensor, updates: &HostTensor, batch: usize) -> HostTensor {
    let extent = x.ty.shape[batch];
    let batches: usize = x.ty.shape[..batch].iter().product();
    let width: usize = x.ty.shape[batch + 1..].iter().product();
    let count = index.ty.elements() / batches.max(1);
    let mut numbers: Vec<Number> = (0..x.ty.elements()).map(|i| x.get(i)).collect();
    for update in 0..index.ty.elements() {
        let row = index.get(update).as_f64();
        if row >= 0.0 && row < extent as f64 {
            let to = (update / count * extent + row as usize) * width;
            (0..width).for_each(|i| numbers[to + i] = updates.get(update * width + i));
        }
    }
    HostTensor::from_numbers(x.ty.clone(), numbers)
}

/// Adds updates to rows of x or replaces the rows, in the order of the updates.
pub(super) fn scatter(
    op: ScatterOp,
    x: &HostTensor,
    index: &HostTensor,
    updates: &HostTensor,
    batch: usize,
) -> Result<HostTensor> {
    if op.is_distinct() {
        return Ok(scatter_distinct(x, index, updates, batch));
    }
    let Rows { sources, width } = rows(x, index, batch)?;
    let places = || sources.iter().flat_map(|row| (0..width).map(move |i| row * width + i));
    let mut result = x.clone();
    match (op, &mut result.data, &updates.data) {
        (ScatterOp::Add, HostData::Float(sums), HostData::Float(updates)) => {
            places().zip(updates).for_each(|(place, update)| sums[place] += update);
        }
        (ScatterOp::Add, HostData::Int(sums), HostData::Int(updates)) => {
            places()
                .zip(updates)
                .for_each(|(place, update)| sums[place] = wrap(x.ty.dtype, sums[place] + update));
        }
        (ScatterOp::Set, HostData::Float(rows), HostData::Float(updates)) => {
            places().zip(updates).for_each(|(place, update)| rows[place] = *update);
        }
        (ScatterOp::Set, HostData::Int(rows), HostData::Int(updates)) => {
            places().zip(updates).for_each(|(place, update)| rows[place] = *update);
        }
        (ScatterOp::Set, HostData::Bool(rows), HostData::Bool(updates)) => {
            places().zip(updates).for_each(|(place, update)| rows[place] = *update);
        }
        _ => unreachable!("{op:?} of these dtypes is ill-typed"),
    }
    Ok(result)
}
