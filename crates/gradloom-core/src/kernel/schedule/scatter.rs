//! Schedule of updates of rows by number.

use crate::plan::ALIGNMENT;
use std::ops::Range;

/// Schedule of a scatter: updates are sorted by row, some of each batch together, before they are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterSchedule {
    /// Independent groups of rows and updates.
    pub batches: usize,
    /// Updates of a batch that are sorted together; 0 if they are in order as they come.
    pub width: usize,
    /// Number of parts into which the updates of a batch are cut.
    pub chunks: usize,
    /// Invocations that find the place of one update.
    pub lanes: usize,
    /// Updates of a row that are on their way at the same time.
    pub ahead: usize,
}

impl ScatterSchedule {
    /// Returns the byte ranges of the two words of scratch that each place has: the update there, and the
    /// number of updates of the row whose updates start there. Behind the first words are the numbers of
    /// the chunk that is sorted now, and of the one after the chunk that is added.
    pub fn scratch(&self) -> [Range<u64>; 2] {
        let bytes = 4 * (self.batches as u64 * self.width as u64 + 2);
        let second = bytes.next_multiple_of(ALIGNMENT);
        [0..bytes, second..second + bytes]
    }

    /// Returns the number of bytes of scratch.
    pub fn workspace(&self) -> u64 {
        if self.width == 0 { 0 } else { self.scratch()[1].end }
    }
}
