//! Sums over all ranks.
//!
//! In: parts of f32. Out: their sums. The sum of chunk `c` begins at the rank after `c` and grows on its way
//! to rank `c`; `all_reduce` then sends it around once more. Invariants: an element is computed at one rank
//! and copied to the others, so all have the same bits; sums follow IEEE 754, so NaN and infinities pass.

use super::pieces::{ELEMENTS, WIDTH, add, piece, put, take};
use super::ring::{Work, before};
use super::spans::Spans;
use std::ops::Range;

/// The sum of all parts, on all ranks. Chunk `c` is the `c`-th share of all elements in a row.
#[derive(Debug)]
pub(crate) struct AllReduce<'a, 'b> {
    rank: usize,
    size: usize,
    spans: Spans,
    parts: &'a mut [&'b mut [f32]],
}

impl<'a, 'b> AllReduce<'a, 'b> {
    pub(crate) fn new(rank: usize, size: usize, parts: &'a mut [&'b mut [f32]]) -> Self {
        let spans = Spans::new(parts.iter().map(|part| part.len()));
        Self { rank, size, spans, parts }
    }

    /// Returns the elements of piece `lane` of chunk `chunk`. Chunks differ by at most one element.
    fn range(&self, chunk: usize, lane: usize) -> Range<usize> {
        let (share, rest) = (self.spans.total() / self.size, self.spans.total() % self.size);
        let begin = chunk * share + chunk.min(rest);
        piece(begin..begin + share + usize::from(chunk < rest), lane, ELEMENTS)
    }

    /// Returns the chunk that arrives, and whether it is still being summed.
    fn arriving(&self, step: usize) -> (usize, bool) {
        let summing = step < self.size - 1;
        let distance = if summing { step + 2 } else { step + 2 - self.size };
        (before(self.rank, self.size, distance), summing)
    }
}

impl Work for AllReduce<'_, '_> {
    fn lanes(&self) -> usize {
        self.spans.total().div_ceil(self.size).div_ceil(ELEMENTS)
    }

    fn steps(&self) -> usize {
        2 * (self.size - 1)
    }

    fn first(&mut self, lane: usize, piece: &mut Vec<u8>) {
        let range = self.range(before(self.rank, self.size, 1), lane);
        for (part, range) in self.spans.over(range) {
            put(piece, &self.parts[part][range]);
        }
    }

    fn length(&self, lane: usize, step: usize) -> usize {
        self.range(self.arriving(step).0, lane).len() * WIDTH
    }

    fn arrived(&mut self, lane: usize, step: usize, piece: &mut [u8]) {
        let (chunk, summing) = self.arriving(step);
        let mut rest = piece;
        for (part, range) in self.spans.over(self.range(chunk, lane)) {
            let own = &mut self.parts[part][range];
            let piece = rest.split_off_mut(..own.len() * WIDTH).expect("a piece as long as its range");
            if summing {
                add(piece, own);
            }
            if !summing || chunk == self.rank {
                take(own, piece);
            }
        }
    }
}

/// The sum of all parts, of which each rank gets a slice. Chunk `c` is the row of all parts' `c`-th slices.
#[derive(Debug)]
pub(crate) struct ReduceScatter<'a, 'b, 'c> {
    rank: usize,
    size: usize,
    /// Slices of one chunk.
    spans: Spans,
    parts: &'a [&'c [f32]],
    shards: &'a mut [&'b mut [f32]],
}

impl<'a, 'b, 'c> ReduceScatter<'a, 'b, 'c> {
    pub(crate) fn new(
        rank: usize,
        size: usize,
        parts: &'a [&'c [f32]],
        shards: &'a mut [&'b mut [f32]],
    ) -> Self {
        let spans = Spans::new(shards.iter().map(|shard| shard.len()));
        Self { rank, size, spans, parts, shards }
    }

    fn range(&self, lane: usize) -> Range<usize> {
        piece(0..self.spans.total(), lane, ELEMENTS)
    }

    /// Returns the elements of a chunk's slice of a part.
    fn slice(&self, chunk: usize, part: usize, range: Range<usize>) -> &'c [f32] {
        let begin = chunk * self.shards[part].len();
        &self.parts[part][begin + range.start..begin + range.end]
    }
}

impl Work for ReduceScatter<'_, '_, '_> {
    fn lanes(&self) -> usize {
        self.spans.total().div_ceil(ELEMENTS)
    }

    fn steps(&self) -> usize {
        self.size - 1
    }

    fn first(&mut self, lane: usize, piece: &mut Vec<u8>) {
        let chunk = before(self.rank, self.size, 1);
        for (part, range) in self.spans.over(self.range(lane)) {
            put(piece, self.slice(chunk, part, range));
        }
    }

    fn length(&self, lane: usize, _step: usize) -> usize {
        self.range(lane).len() * WIDTH
    }

    fn arrived(&mut self, lane: usize, step: usize, piece: &mut [u8]) {
        let chunk = before(self.rank, self.size, step + 2);
        let mut rest = piece;
        for (part, range) in self.spans.over(self.range(lane)) {
            let own = self.slice(chunk, part, range.clone());
            let piece = rest.split_off_mut(..own.len() * WIDTH).expect("a piece as long as its range");
            add(piece, own);
            if chunk == self.rank {
                take(&mut self.shards[part][range], piece);
            }
        }
    }
}
