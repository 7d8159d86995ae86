//! Machine code for x86-64 with AVX2 or AVX-512.
//!
//! In: a [`Routine`](super::Routine). Out: machine code ([`assemble`]), which is called with a frame of
//! addresses. Elements stay in registers from the first instruction of the routine to the last one, so memory
//! is read once and written once. Invariant: the code has been proven to keep values apart ([`check()`]) and
//! to stay within its memory ([`bounds`]).

mod assembler;
mod avx2;
mod avx512;
pub mod bounds;
mod check;
mod encoding;
mod lines;
mod loops;
mod registers;

pub use check::check;
pub use loops::assemble;
pub use registers::{Allocation, Location, Registers, Step, allocate};
