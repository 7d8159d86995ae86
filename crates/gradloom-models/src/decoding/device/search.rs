//! Bisection for a whole number of each row.

use gradloom_core::ir::DType;
use gradloom_core::trace::{Tensor, full};

/// Bits of the numbers below `count`.
pub(super) fn bits(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// The greatest number of so many bits, i32 of the shape of `like` `[rows, 1]`, for which `holds`, given a
/// candidate of this type, is true: of 0 it is taken to be, and where it is false it is for all greater
/// numbers. One round for each bit, the highest first.
#[track_caller]
pub(super) fn greatest(bits: u32, like: Tensor, holds: impl Fn(Tensor) -> Tensor) -> Tensor {
    let none = full(DType::I32, like.shape(), 0.0);
    (0..bits).rev().fold(none, |found, bit| {
        let candidate = found + (1 << bit);
        holds(candidate).select(candidate, found)
    })
}
