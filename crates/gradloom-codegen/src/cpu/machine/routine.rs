//! A routine: rows of elements, each walked a vector at a time.
//!
//! In: lines, and what they read, write and reduce. Always holds: two equal routines are one, whatever
//! program they come from.

use super::ir::Lines;
use super::numbers::OperandNumber;
use gradloom_core::ir::{DType, ReduceOp};

/// Most reductions of a routine.
pub const REDUCTIONS: usize = 3;

/// A reduction of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reduction {
    pub op: ReduceOp,
    pub dtype: DType,
    /// The bits of what an empty reduction gives.
    pub identity: u32,
    /// The operand that it is combined with: an element for each row.
    pub target: OperandNumber,
}

/// An element of each row: that of the column that an operand names, if the row has such a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pick {
    /// The operand with the number of the column, an i32 for each row.
    pub index: OperandNumber,
    /// Lines that take the element, as the first lane; with the invariants of the routine's lines.
    pub lines: Lines,
}

/// Routine to be compiled to machine code. Equal routines are compiled once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Routine {
    pub lines: Lines,
    /// Bytes of an element of each operand.
    pub operands: Vec<u8>,
    pub reductions: Vec<Reduction>,
    /// Picks that are done before the columns of a row are walked, while nothing of the row is overwritten.
    pub picks: Vec<Pick>,
    /// True if a row can have as many columns as are reduced at a time.
    pub long: bool,
    /// Operands, aligned to vectors in all rows, that are written past the caches.
    pub streams: Vec<OperandNumber>,
}
