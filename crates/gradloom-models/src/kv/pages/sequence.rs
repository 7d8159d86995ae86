//! One text: its tokens and the table of its blocks.

use super::BlockId;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names a text. Ids are unique in the process, so that one of an ended text, or of other pages, is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(u64);

impl SequenceId {
    /// Returns an id that was never given before.
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
/// The full blocks of a text that shares are the path of its tokens in the tree. Its last block, if it is not
/// full, may be a block of the tree that goes on differently: the text was longer before.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sequence {
    /// Tokens whose keys and values are written.
    pub(super) tokens: Vec<i32>,
    /// Block `i` holds the positions from `i * block_size`.
    pub(super) table: Vec<BlockId>,
    /// Positions behind the tokens, up to the end of the table, that this sequence alone may write. At 0,
    /// the table ends with the block of the last token, and that block may have other users.
    pub(super) room: usize,
    /// True if full blocks go into the tree of prefixes.
    pub(super) shares: bool,
}
