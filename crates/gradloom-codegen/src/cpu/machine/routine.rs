//! A routine: rows of elements, each of which is processed a vector at a time.
//!
//! In: IR instructions, and the operands that they read, write and reduce. Invariant: equal routines of
//! different programs are compiled once.

use super::ir::Lines;
use super::numbers::OperandNumber;
use gradloom_core::ir::{DType, ReduceOp};

/// Maximum number of reductions of a routine.
pub const REDUCTIONS: usize = 3;

/// A reduction of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reduction {
    pub op: ReduceOp,
    pub dtype: DType,
    /// Bits of the result of an empty reduction.
    pub identity: u32,
    /// Operand that the result is combined with, which has an element for each row.
    pub target: OperandNumber,
}

/// An element of each row, in the column that an operand selects, if the row has this column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pick {
    /// Operand with the index of the column, an i32 for each row.
    pub index: OperandNumber,
    /// Instructions that process the element in the first lane, with the invariants of the routine's
    /// instructions.
    pub lines: Lines,
}

/// A routine that is compiled to machine code. Equal routines are compiled once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Routine {
    pub lines: Lines,
    /// Size of an element of each operand, in bytes.
    pub operands: Vec<u8>,
    pub reductions: Vec<Reduction>,
    /// Picks, which run before the columns of a row are processed, while no element of the row is
    /// overwritten.
    pub picks: Vec<Pick>,
    /// True if a row may have at least as many columns as are reduced at a time.
    pub long: bool,
    /// Operands that are written past the caches, and are aligned to vectors in all rows.
    pub streams: Vec<OperandNumber>,
}
