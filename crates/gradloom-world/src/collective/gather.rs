//! Concatenations of shards.
//!
//! In: a shard of each part on each rank. Out: all parts, on all ranks. Invariant: the bits of elements
//! do not change.

use super::pieces::{ELEMENTS, WIDTH, piece, put, take};
use super::ring::{Work, before};
use super::spans::Spans;
use std::ops::Range;

/// The shards of all ranks, in each part. Chunk `c` is the row of all shards of rank `c`.
#[derive(Debug)]
pub(crate) struct AllGather<'a, 'b, 'c> {
    rank: usize,
    size: usize,
    /// Shards of one rank.
    spans: Spans,
    shards: &'a [&'c [f32]],
    parts: &'a mut [&'b mut [f32]],
}

impl<'a, 'b, 'c> AllGather<'a, 'b, 'c> {
    pub(crate) fn new(
        rank: usize,
        size: usize,
        shards: &'a [&'c [f32]],
        parts: &'a mut [&'b mut [f32]],
    ) -> Self {
        let spans = Spans::new(shards.iter().map(|shard| shard.len()));
        Self { rank, size, spans, shards, parts }
    }

    fn range(&self, lane: usize) -> Range<usize> {
        piece(0..self.spans.total(), lane, ELEMENTS)
    }

    fn slice(&mut self, chunk: usize, part: usize, range: Range<usize>) -> &mut [f32] {
        let begin = chunk * self.shards[part].len();
        &mut self.parts[part][begin + range.start..begin + range.end]
    }
}

impl Work for AllGather<'_, '_, '_> {
    fn lanes(&self) -> usize {
        self.spans.total().div_ceil(ELEMENTS)
    }

    fn steps(&self) -> usize {
        self.size - 1
    }

    fn first(&mut self, lane: usize, piece: &mut Vec<u8>) {
        let spans: Vec<_> = self.spans.over(self.range(lane)).collect();
        for (part, range) in spans {
            let shard = &self.shards[part][range.clone()];
            put(piece, shard);
            self.slice(self.rank, part, range).copy_from_slice(shard);
        }
    }

    fn length(&self, lane: usize, _step: usize) -> usize {
        self.range(lane).len() * WIDTH
    }

    fn arrived(&mut self, lane: usize, step: usize, piece: &mut [u8]) {
        let chunk = before(self.rank, self.size, step + 1);
        let spans: Vec<_> = self.spans.over(self.range(lane)).collect();
        let mut rest: &[u8] = piece;
        for (part, range) in spans {
            let arrived = rest.split_off(..range.len() * WIDTH).expect("a piece as long as its range");
            take(self.slice(chunk, part, range), arrived);
        }
    }
}
