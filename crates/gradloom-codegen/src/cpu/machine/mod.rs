//! Machine code for loops over vectors, on x86-64 with AVX-512.
//!
//! In: a [`Routine`]: lines of vector code ([`Builder`]), and what of its operands moves along. Out: machine
//! code ([`assemble`]), called with a frame of addresses ([`Frame`]). Elements live in registers from the
//! first line to the last, so that memory is read once and written once. Always holds: results are those of
//! the interpreted loops, bit for bit, but for which NaN a NaN is; what comes out was proven to keep values
//! apart ([`check()`]) and to stay within its memory ([`bounds`]).

mod assembler;
mod avx512;
pub mod bounds;
mod check;
mod frame;
mod ir;
mod loops;
mod lower;
mod numbers;
mod registers;

pub use check::check;
pub use frame::{Frame, VECTOR};
pub use ir::{Builder, Fetch, Invariant, Kind, Line, Lines, MOST_LINES, Op, VectorOperand};
pub use loops::{Pick, REDUCTIONS, Reduction, Routine, assemble};
pub use numbers::OperandNumber;
pub use registers::{Allocation, Location, Step, allocate};
