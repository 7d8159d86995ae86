//! Code for loops over vectors: machine code on x86-64 with AVX2 or AVX-512 (`x86`), WebAssembly in a browser
//! (`wasm`).
//!
//! In: a [`Routine`], which consists of instructions of an intermediate representation ([`Builder`]) and the
//! operands that they process. Out: code that is called with a frame of addresses ([`Frame`]). Invariant:
//! results have the same bits as those of the interpreted loops, except for the bits of NaNs.

mod assembler;
mod frame;
mod ir;
mod isa;
mod lower;
mod numbers;
mod routine;
#[cfg(feature = "wasm-loops")]
pub mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use assembler::{Assembler, MachineCode};
pub use frame::{Frame, VECTOR};
pub use ir::{Builder, Fetch, Invariant, Kind, Line, Lines, MOST_LINES, Op, VectorOperand};
pub use isa::VectorIsa;
pub use numbers::OperandNumber;
pub use routine::{Pick, REDUCTIONS, Reduction, Routine};
#[cfg(target_arch = "x86_64")]
pub use x86::{Allocation, Location, Registers, Step, allocate, assemble, bounds, check};
