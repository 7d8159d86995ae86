//! Bisection for a whole number of each row.

use gradloom_core::ir::DType;
use gradloom_core::trace::{Tensor, full};

/// Bits of the numbers below `count`.
pub(super) fn bits(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// Returns the greatest number of so many bits, i32 of the shape of `like` `[rows, 1]`, for which `holds`,
/// given a candidate of this type, is true. It is taken to be true of 0; if it is false of a number, it is
/// false of all greater ones. Takes one round for each bit, the highest first.
#[track_caller]
pub(super) fn greatest(bits: u32, like: Tensor, holds: impl Fn(Tensor) -> Tensor) -> Tensor {
    let none = full(DType::I32, like.shape(), 0.0);
    (0..bits).rev().fold(none, |found, bit| {
        let candidate = found + (1 << bit);
        holds(candidate).select(candidate, found)
    })
}
