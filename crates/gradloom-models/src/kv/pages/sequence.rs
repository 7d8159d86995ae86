//! A text: its tokens and its block table.

use super::BlockId;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Identifier of a sequence. Ids are unique within the process, so that the use of an ended sequence, or of
/// one of another `Pages`, is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(u64);

impl SequenceId {
    pub(super) fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sequence {}", self.0)
    }
}

/// A text in memory.
///
/// If the text shares blocks, its full blocks are the path of its tokens in the tree. A partial last block
/// may belong to a longer text in the tree if the sequence has been truncated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sequence {
    /// Tokens whose keys and values are in memory.
    pub(super) tokens: Vec<i32>,
    /// Blocks in order; block `i` contains the positions from `i * block_size`.
    pub(super) table: Vec<BlockId>,
    /// Number of positions between the tokens and the end of the table that only this sequence may write. If
    /// it is 0, the table ends with the block of the last token, which may have other users.
    pub(super) room: usize,
    /// True if full blocks are added to the prefix tree.
    pub(super) shares: bool,
}
