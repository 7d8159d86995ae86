//! The frame that machine code and its caller share: a few numbers, addresses, and space for vectors.

use super::numbers::{InvariantNumber, OperandNumber, SpillNumber};

/// Size of a vector, in bytes.
pub const VECTOR: usize = 64;

/// Byte offsets in a routine's frame, which is aligned to 64 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    buffers: usize,
    spills: usize,
    invariants: usize,
}

impl Frame {
    /// Offset of the number of remaining rows.
    pub const ROWS: usize = 0;
    /// Offset of the number of columns of a row.
    pub const COLUMNS: usize = 8;
    /// Offset of the indices of the first 16 columns, as i32.
    pub const NUMBERS: usize = VECTOR;
    const OPERANDS: usize = 2 * VECTOR;

    pub fn new(operands: usize, reductions: usize, spills: usize) -> Self {
        let buffers = (Self::OPERANDS + 16 * operands).next_multiple_of(VECTOR);
        let spills_at = buffers + VECTOR * reductions;
        Self { buffers, spills: spills_at, invariants: spills_at + VECTOR * spills }
    }

    /// Returns the offset of the address of an operand's element in the first column of the current row. The
    /// address is followed by the number of bytes to the next row.
    pub fn operand(number: OperandNumber) -> usize {
        Self::OPERANDS + 16 * number.index()
    }

    /// Returns the offset of the buffer for the last elements of a row that is reduced.
    pub fn buffer(&self, reduction: usize) -> usize {
        self.buffers + VECTOR * reduction
    }

    pub fn spill(&self, number: SpillNumber) -> usize {
        self.spills + VECTOR * number.index()
    }

    /// Returns the offset of the current row's element of an invariant.
    pub fn invariant(&self, number: InvariantNumber) -> usize {
        self.invariants + 4 * number.index()
    }

    /// Returns the size of the frame with this many invariants, in bytes.
    pub fn bytes(&self, invariants: usize) -> usize {
        (self.invariants + 4 * invariants).next_multiple_of(VECTOR)
    }
}
