//! Prefetches the next tile while a tile is computed.
//!
//! Only the first instruction of a tile that uses an operand reads memory. The others work in the first-level
//! cache, and memory would be idle meanwhile. In: the next tile, and the number of steps of the current one.
//! Out: each step starts fetching its share of the cache lines of all operands and results whose addresses
//! depend on the tile, into the second-level cache. Invariant: no result depends on prefetching.

use super::Program;
use super::execute::{Task, Tile};
use crate::elementwise::Operand;
use gradloom_codegen::cpu::loops::Slot;

/// Size of a cache line in bytes.
const LINE: usize = 64;
/// Maximum number of streams to prefetch, which is the number that the memory system tracks separately.
const STREAMS: usize = 8;
/// Minimum number of instructions of a tile for which prefetching pays off.
pub(super) const WORTHWHILE: usize = 4;

/// A tile that is being prefetched. Each step fetches a few lines of each stream, which is faster than
/// fetching one stream after another.
pub(super) struct Ahead<'a> {
    streams: &'a [Slot],
    tile: Tile,
    step: usize,
    /// Number of lines of each stream per step.
    shares: [usize; STREAMS],
}

impl<'a> Ahead<'a> {
    /// Creates a prefetcher that fetches all lines of a tile in `steps` steps.
    pub(super) fn new(program: &'a Program, task: &Task<'_>, tile: Tile, steps: usize) -> Self {
        let streams = &program.streams[..program.streams.len().min(STREAMS)];
        let mut shares = [0; STREAMS];
        for (share, &slot) in shares.iter_mut().zip(streams) {
            let (rows, lines, _) = rows(task, &tile, slot);
            *share = (rows * lines).div_ceil(steps.max(1));
        }
        Self { streams, tile, step: 0, shares }
    }

    /// Prefetches the lines of the next step.
    pub(super) fn step(&mut self, task: &Task<'_>) {
        for (&slot, &share) in self.streams.iter().zip(&self.shares) {
            let (rows, lines, operand) = rows(task, &self.tile, slot);
            let (mut line, end) = (self.step * share, (rows * lines).min((self.step + 1) * share));
            let mut row = 0;
            if rows > 1 {
                (row, line) = (line / lines, line % lines);
            }
            let mut left = end.saturating_sub(self.step * share);
            while left > 0 {
                let start = operand.start.wrapping_add(row * operand.row_stride);
                let count = (lines - line).min(left);
                (line..line + count).for_each(|line| fetch(start.wrapping_add(line * LINE)));
                (row, line, left) = (row + 1, 0, left - count);
            }
        }
        self.step += 1;
    }
}

/// Returns the number of rows of a stream's tile, the number of lines per row, and the location of the rows.
/// Rows without gaps between them count as one.
fn rows(task: &Task<'_>, tile: &Tile, slot: Slot) -> (usize, usize, Operand) {
    let operand = task.on_tile(slot, tile);
    let bytes = tile.columns * task.memory.addresses[slot as usize].bytes;
    match tile.rows == 1 || operand.row_stride == bytes {
        true => (1, (tile.rows * bytes).div_ceil(LINE), operand),
        false => (tile.rows, bytes.div_ceil(LINE), operand),
    }
}

/// Prefetches a cache line into the second-level cache.
#[inline(always)]
fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch is a hint that does not count as a memory access; every x86-64 processor
        // supports it.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
