//! Loops over the elements of rows, one for each elementwise op.
//!
//! In: an op, the dtypes of its operands and an instruction set. Out: a [`MapFn`].

pub(crate) mod functions;
mod map;
#[cfg(test)]
mod tests;

pub(crate) use map::{MapFn, Operand, ResultRows};
