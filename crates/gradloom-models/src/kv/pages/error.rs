//! Errors of paged memory.

use super::SequenceId;

/// An error of an operation on paged memory. A failed operation has no effect.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PagesError {
    /// The block size is 0.
    #[error("the block size is 0")]
    BlockSize,
    /// The pool has no block for tokens.
    #[error("a pool of {blocks} blocks has none for tokens")]
    NoCapacity {
        /// Number of blocks in the pool.
        blocks: usize,
    },
    /// The elements of a pool or a batch cannot be indexed with an `i32`.
    #[error("{what} of {rows} times {columns} elements: an i32 cannot number them")]
    TooLarge {
        /// Name of the pool or batch.
        what: &'static str,
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        columns: usize,
    },
    /// More blocks are needed than are free or can be evicted.
    #[error("{wanted} more blocks are needed, but {free} are free and {cached} can be evicted")]
    OutOfBlocks {
        /// Number of blocks that the operation needs.
        wanted: usize,
        /// Number of free blocks.
        free: usize,
        /// Number of blocks referenced only by the prefix tree, all of which can be evicted.
        cached: usize,
    },
    /// The sequence does not exist.
    #[error("{sequence} does not exist here: it has ended, or belongs to other pages")]
    Unknown {
        /// Id as given.
        sequence: SequenceId,
    },
    /// The reserved space of the sequence is too small for the tokens to commit or to compute.
    #[error("{sequence} has room for {room} more tokens, not for {tokens}")]
    NoRoom {
        /// Id of the sequence.
        sequence: SequenceId,
        /// Number of tokens given.
        tokens: usize,
        /// Number of tokens that the reserved space holds.
        room: usize,
    },
    /// The new length exceeds that of the sequence.
    #[error("{sequence} has {length} tokens and cannot be cut to {wanted}")]
    TooShort {
        /// Id of the sequence.
        sequence: SequenceId,
        /// Number of tokens of the sequence.
        length: usize,
        /// Requested length.
        wanted: usize,
    },
    /// The sequence occurs in two rows of a batch, which would write to the same positions.
    #[error("{sequence} is in the batch twice")]
    Twice {
        /// Id of the sequence.
        sequence: SequenceId,
    },
    /// The batch does not fit in its shape.
    #[error("the batch needs {needed} {axis}, but its shape has {given}")]
    Shape {
        /// Name of the axis that is too short: rows, tokens or blocks of a row.
        axis: &'static str,
        /// Number needed.
        needed: usize,
        /// Number in the shape.
        given: usize,
    },
}

impl PagesError {
    /// Returns a suggestion for fixing the error.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::BlockSize => "give blocks of at least 1 token; 16 is usual",
            Self::NoCapacity { .. } => "give at least 2 blocks: block 0 takes the writes of padding",
            Self::TooLarge { .. } => "take fewer blocks, rows or tokens at once",
            Self::OutOfBlocks { .. } => "end or truncate a sequence and try again, or take a larger pool",
            Self::Unknown { .. } => "use the id that `begin` or `fork` of these pages gave, until `end`",
            Self::NoRoom { .. } => "reserve room for the tokens first",
            Self::TooShort { .. } => "truncate to the sequence's length or less",
            Self::Twice { .. } => "give each sequence one row, or fork it",
            Self::Shape { .. } => "take a larger shape, fewer sequences, or a shorter chunk of the prompt",
        }
    }
}
