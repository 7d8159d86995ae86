//! Kernels that move elements without computing.
//!
//! In: strided operands. Out: their elements at other locations. Invariant: all kernels except the one that
//! unpacks blocks are built on [`CopyLoop`], so transposed and interleaved cases are handled in one place.

mod copy;
mod dequantize;
mod join;
mod pad;
#[cfg(test)]
mod tests;

pub(super) use copy::{CopyLoop, prepare as prepare_copy};
pub(super) use dequantize::prepare as prepare_dequantize;
pub(super) use join::prepare as prepare_concat;
pub(super) use pad::prepare as prepare_pad;
