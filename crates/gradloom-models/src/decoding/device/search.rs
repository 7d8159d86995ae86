//! Bisection for an integer in each row.

use gradloom_core::ir::DType;
use gradloom_core::trace::{Tensor, full};

/// Returns the number of bits needed to represent the numbers below `count`.
pub(super) fn bits(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// Returns the largest number of `bits` bits for which `holds` is true, i32 with the shape of `like`,
/// `[rows, 1]`. `holds` must be monotonic: true for 0, and false for all numbers above one for which it is
/// false. Each round determines one bit, from the highest to the lowest.
#[track_caller]
pub(super) fn greatest(bits: u32, like: Tensor, holds: impl Fn(Tensor) -> Tensor) -> Tensor {
    let none = full(DType::I32, like.shape(), 0.0);
    (0..bits).rev().fold(none, |found, bit| {
        let candidate = found + (1 << bit);
        holds(candidate).select(candidate, found)
    })
}
