//! Kernels that process whole rows: cumulative reductions and sorts.
//!
//! In: an operand whose last axis contains the rows' elements, in any layout. Out: results with contiguous
//! rows. Invariant: rows are divided into pieces of a fixed length, so that bits do not depend on the
//! number of threads.

mod cumulate;
mod keys;
mod select;
mod sort;
#[cfg(test)]
mod tests;

use super::index::Places;
use super::kernel::{Call, Prepared, Tasks, Trap};
use gradloom_core::kernel::Access;

pub(super) use cumulate::prepare as prepare_cumulate;
pub(super) use sort::prepare as prepare_sort;

/// Location of the rows of the single operand.
struct Source {
    offset: usize,
    places: Places,
    stride: usize,
}

impl Source {
    fn new(access: &Access) -> Self {
        let layout = &access.layout;
        let last = layout.shape.rank() - 1;
        Self { offset: layout.offset, places: Places::new(layout, 0, last), stride: layout.strides[last] }
    }

    /// Returns the address of the first element of a row.
    fn row<T>(&self, call: &Call<'_>, row: usize) -> *const T {
        call.read(0, self.offset + self.places.at(row))
    }
}
