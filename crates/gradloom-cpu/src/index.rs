//! Reads and writes at positions that are data: rows selected by index, and windows by their start.
//!
//! In: launches of `Gather`, `Scatter`, `DynamicSlice`, `DynamicUpdateSlice` and `WriteRegion`, with operands
//! in any strided layouts. Out: kernels. Invariant: every index is checked before anything is written (except
//! those of a `Distinct` scatter, which drops updates out of range), so a [`Trap`] leaves an operand that the
//! result overwrites unchanged. Its message contains the first index out of range, its position and the
//! range.

mod gather;
mod indices;
mod scatter;
#[cfg(test)]
mod tests;
mod window;

use super::{Call, FirstFault, Prepared, Tasks, Trap};

pub(super) use gather::prepare as prepare_gather;
pub(super) use indices::Places;
pub(super) use scatter::prepare as prepare_scatter;
pub(super) use window::{prepare_dynamic_slice, prepare_dynamic_update_slice, prepare_write_region};
