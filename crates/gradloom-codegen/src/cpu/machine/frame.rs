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
    /// Size of an invariant, in bytes.
    invariant_bytes: usize,
}

impl Frame {
    /// Offset of the number of remaining rows.
    pub const ROWS: usize = 0;
    /// Offset of the number of columns of a row.
    pub const COLUMNS: usize = 8;
    /// Offset of the mask of a row's last elements, on instruction sets that keep it in memory.
    pub const LAST: usize = VECTOR / 2;
    /// Size of that mask, in bytes.
    pub const LAST_BYTES: usize = VECTOR / 2;
    /// Offset of the indices of the first 16 columns, as i32.
    pub const NUMBERS: usize = VECTOR;
    const OPERANDS: usize = 2 * VECTOR;

    /// Creates the frame of a routine with these numbers of operands, buffers and spilled vectors.
    pub fn new(operands: usize, buffers: usize, spills: usize, invariant_bytes: usize) -> Self {
        let buffers_at = (Self::OPERANDS + 16 * operands).next_multiple_of(VECTOR);
        let spills_at = buffers_at + VECTOR * buffers;
        let invariants = spills_at + VECTOR * spills;
        Self { buffers: buffers_at, spills: spills_at, invariants, invariant_bytes }
    }

    /// Returns the offset of the address of an operand's element in the first column of the current row. The
    /// address is followed by the number of bytes to the next row.
    pub fn operand(number: OperandNumber) -> usize {
        Self::OPERANDS + 16 * number.index()
    }

    /// Returns the offset of a buffer for vectors of a row that is reduced.
    pub fn buffer(&self, number: usize) -> usize {
        self.buffers + VECTOR * number
    }

    /// Returns the offset of a spill slot.
    ///
    /// # Panics
    /// Panics if the frame has fewer slots.
    pub fn spill(&self, number: SpillNumber) -> usize {
        let slot = self.spills + VECTOR * number.index();
        assert!(slot < self.invariants, "a frame with too few spill slots");
        slot
    }

    /// Returns the offset of the current row's element of an invariant.
    pub fn invariant(&self, number: InvariantNumber) -> usize {
        self.invariants + self.invariant_bytes * number.index()
    }

    /// Returns the size of the frame with this many invariants, in bytes.
    pub fn bytes(&self, invariants: usize) -> usize {
        (self.invariants + self.invariant_bytes * invariants).next_multiple_of(VECTOR)
    }
}
