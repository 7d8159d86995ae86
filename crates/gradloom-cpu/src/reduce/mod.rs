//! Functions that combine elements, and the position of the extreme element along an axis.
//!
//! In: one operand. Out: its elements combined along rows or columns. Invariant: elements are combined in a
//! fixed order, so the bits do not depend on threads or on the instruction set; a NaN operand makes the
//! result NaN.

mod arg;
pub(crate) mod combine;
#[cfg(test)]
mod tests;

pub(super) use arg::prepare_arg;
