//! Errors of paged memory.

use super::SequenceId;

/// Reason why an operation was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PagesError {
    /// Blocks that hold no token.
    #[error("the block size is 0")]
    BlockSize,
    /// A pool without a block for tokens.
    #[error("a pool of {blocks} blocks has none for tokens")]
    NoCapacity {
        /// Blocks in all.
        blocks: usize,
    },
    /// A pool or a batch whose elements an i32 cannot number.
    #[error("{what} of {rows} times {columns} elements: an i32 cannot number them")]
    TooLarge {
        /// Name of the pool or batch.
        what: &'static str,
        /// Its first extent.
        rows: usize,
        /// Its second extent.
        columns: usize,
    },
    /// More blocks are needed than are free or can be evicted.
    #[error("{wanted} more blocks are needed, but {free} are free and {cached} can be evicted")]
    OutOfBlocks {
        /// Blocks that the operation needs.
        wanted: usize,
        /// Blocks that are free.
        free: usize,
        /// Blocks that only the tree of prefixes holds, all of which could be evicted.
        cached: usize,
    },
    /// An id that stands for nothing.
    #[error("{sequence} does not exist here: it has ended, or belongs to other pages")]
    Unknown {
        /// The id as given.
        sequence: SequenceId,
    },
    /// More tokens than the sequence has room for.
    #[error("{sequence} has room for {room} more tokens, not for {tokens}")]
    NoRoom {
        /// The sequence.
        sequence: SequenceId,
        /// Tokens that were given.
        tokens: usize,
        /// Tokens that there is room for.
        room: usize,
    },
    /// A length behind the end of the text.
    #[error("{sequence} has {length} tokens and cannot be cut to {wanted}")]
    TooShort {
        /// The sequence.
        sequence: SequenceId,
        /// Tokens that it has.
        length: usize,
        /// Tokens that were to be left.
        wanted: usize,
    },
    /// A sequence in two rows of a batch, which would write to the same positions.
    #[error("{sequence} is in the batch twice")]
    Twice {
        /// The sequence.
        sequence: SequenceId,
    },
    /// A batch that its shape does not hold.
    #[error("the batch needs {needed} {axis}, but its shape has {given}")]
    Shape {
        /// Name of the axis that is too short: rows, tokens or blocks of a row.
        axis: &'static str,
        /// Number that is needed.
        needed: usize,
        /// Number that the shape has.
        given: usize,
    },
}

impl PagesError {
    /// Returns the remedy.
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
