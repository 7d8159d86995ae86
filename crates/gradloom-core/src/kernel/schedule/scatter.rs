//! Schedule of updates of rows by index.

use crate::plan::ALIGNMENT;
use std::ops::Range;

/// Schedule of a scatter. The updates of a batch are sorted by row, chunk by chunk, before they are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterSchedule {
    /// Number of independent groups of rows and updates.
    pub batches: usize,
    /// Number of updates of a batch that are sorted together, or 0 if the updates are already sorted.
    pub width: usize,
    /// Number of chunks into which the updates of a batch are split.
    pub chunks: usize,
    /// Number of invocations that find the sorted position of one update.
    pub lanes: usize,
    /// Number of updates of a row that are loaded at the same time.
    pub ahead: usize,
}

impl ScatterSchedule {
    /// Returns the byte ranges of two arrays in the scratch memory, with a word per sorted position: the
    /// update at the position, and the number of updates of the row whose updates start there. The first
    /// array is followed by two counters: the chunk being sorted, and the chunk after the one being added.
    pub fn scratch(&self) -> [Range<u64>; 2] {
        let bytes = 4 * (self.batches as u64 * self.width as u64 + 2);
        let second = bytes.next_multiple_of(ALIGNMENT);
        [0..bytes, second..second + bytes]
    }

    /// Returns the number of bytes of scratch memory.
    pub fn workspace(&self) -> u64 {
        if self.width == 0 { 0 } else { self.scratch()[1].end }
    }
}
