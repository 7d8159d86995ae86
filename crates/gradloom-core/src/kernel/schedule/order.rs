//! Schedules of cumulative reductions and sorts of rows.

use crate::plan::ALIGNMENT;
use std::ops::Range;

/// Schedule of a cumulative reduction, with one workgroup per chunk of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CumulateSchedule {
    /// Number of rows.
    pub rows: usize,
    /// Number of elements of a row that an invocation processes sequentially.
    pub each: usize,
    /// Number of chunks per row.
    pub pieces: usize,
}

impl CumulateSchedule {
    /// Returns the number of bytes of scratch memory: a word per chunk if rows have several chunks.
    pub fn workspace(&self) -> u64 {
        if self.pieces > 1 { 4 * self.rows as u64 * self.pieces as u64 } else { 0 }
    }
}

/// Schedule of a sort of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortSchedule {
    /// Number of rows.
    pub rows: usize,
    /// Number of elements per row.
    pub extent: usize,
    /// Number of sorted elements to return per row.
    pub count: usize,
    /// Sorting method.
    pub method: SortMethod,
}

/// A method of sorting rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortMethod {
    /// Workgroups sort parts of this many elements and pass on the first elements of each part, until one
    /// part remains.
    Parts(usize),
    /// A radix sort, which sorts tiles of this many elements by one digit at a time, starting with the
    /// lowest.
    Digits(usize),
}

/// Radix of [`SortMethod::Digits`].
pub const DIGIT_VALUES: usize = 16;

impl SortSchedule {
    /// Returns the number of parts or tiles per row.
    pub fn parts(&self) -> usize {
        match self.method {
            SortMethod::Parts(elements) | SortMethod::Digits(elements) => self.extent.div_ceil(elements),
        }
    }

    /// Returns the number of elements per row before each round of [`SortMethod::Parts`]. Returns an empty
    /// list for other methods.
    pub fn rounds(&self) -> Vec<usize> {
        let SortMethod::Parts(part) = self.method else { return Vec::new() };
        let mut rounds = vec![self.extent];
        let mut elements = self.extent;
        while elements > part {
            elements = elements.div_ceil(part) * self.count;
            rounds.push(elements);
        }
        rounds
    }

    /// Returns the byte ranges of the scratch memory. For [`SortMethod::Parts`], they contain two lists of
    /// indices, which alternate between being written by a round and read by the next. For
    /// [`SortMethod::Digits`], they contain two lists of keys and two of indices, which passes write
    /// alternately, and the histogram of digits per tile.
    pub fn scratch(&self) -> Vec<Range<u64>> {
        let rows = self.rows as u64;
        let words: Vec<u64> = match self.method {
            SortMethod::Parts(_) => self.rounds().iter().skip(1).take(2).map(|&n| rows * n as u64).collect(),
            SortMethod::Digits(_) => {
                let all = rows * self.extent as u64;
                vec![all, all, all, all, rows * (DIGIT_VALUES * self.parts()) as u64]
            }
        };
        let mut end = 0u64;
        words
            .into_iter()
            .map(|words| {
                let start = end.next_multiple_of(ALIGNMENT);
                end = start + 4 * words;
                start..end
            })
            .collect()
    }

    /// Returns the number of bytes of scratch memory.
    pub fn workspace(&self) -> u64 {
        self.scratch().last().map_or(0, |last| last.end)
    }
}
