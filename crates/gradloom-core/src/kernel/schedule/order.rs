//! Schedules of cumulative reductions and sorts of rows.

use crate::plan::ALIGNMENT;
use std::ops::Range;

/// Schedule of a cumulative reduction: a workgroup for each piece of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CumulateSchedule {
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row that an invocation takes one after the other.
    pub each: usize,
    /// Pieces of a row.
    pub pieces: usize,
}

impl CumulateSchedule {
    /// Returns the number of bytes of scratch: a word for each piece, if rows have several.
    pub fn workspace(&self) -> u64 {
        if self.pieces > 1 { 4 * self.rows as u64 * self.pieces as u64 } else { 0 }
    }
}

/// Schedule of a sort of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortSchedule {
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub extent: usize,
    /// Number of elements that are wanted.
    pub count: usize,
    /// The way to do it.
    pub method: SortMethod,
}

/// A way to put rows in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortMethod {
    /// Workgroups sort parts of so many elements, and hand on the first of each, until there is one part.
    Parts(usize),
    /// Tiles of so many elements are sorted digit by digit, the lowest first.
    Digits(usize),
}

/// Values of a digit.
pub const DIGIT_VALUES: usize = 16;

impl SortSchedule {
    /// Returns the number of parts of a row, or its tiles.
    pub fn parts(&self) -> usize {
        match self.method {
            SortMethod::Parts(elements) | SortMethod::Digits(elements) => self.extent.div_ceil(elements),
        }
    }

    /// Returns the number of elements of a row before each round that sorts parts of this many, if that is
    /// the method.
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

    /// Returns the parts of the scratch: for [`SortMethod::Parts`], lists of indices that a round writes
    /// and the next one reads, in turns; for [`SortMethod::Digits`], two lists of keys with their indices,
    /// which passes write in turns, and the number of times that each tile has each digit.
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

    /// Returns the number of bytes of scratch.
    pub fn workspace(&self) -> u64 {
        self.scratch().last().map_or(0, |last| last.end)
    }
}
