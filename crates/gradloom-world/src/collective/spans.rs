//! Lists of parts as one sequence of elements.
//!
//! In: lengths of parts, and a range of their concatenation. Out: the ranges of the parts that it covers.
//! Invariant: no element is copied to find them.

use std::ops::Range;

/// Ends of the parts in their concatenation.
#[derive(Debug)]
pub(crate) struct Spans(Vec<usize>);

impl Spans {
    pub(crate) fn new(lengths: impl Iterator<Item = usize>) -> Self {
        let mut end = 0;
        Self(
            lengths
                .map(|length| {
                    end += length;
                    end
                })
                .collect(),
        )
    }

    /// Returns the length of the concatenation.
    pub(crate) fn total(&self) -> usize {
        self.0.last().copied().unwrap_or_default()
    }

    /// Returns each part that `range` covers, with the covered range in the part.
    pub(crate) fn over(&self, range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let first = self.0.partition_point(|end| *end <= range.start);
        let begin = move |part: usize| if part == 0 { 0 } else { self.0[part - 1] };
        (first..self.0.len())
            .take_while(move |part| begin(*part) < range.end)
            .map(move |part| {
                let (from, to) = (range.start.max(begin(part)), range.end.min(self.0[part]));
                (part, from - begin(part)..to - begin(part))
            })
            .filter(|(_, range)| !range.is_empty())
    }
}
