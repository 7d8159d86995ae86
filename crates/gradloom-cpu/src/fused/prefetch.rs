//! Fetches the next tile from memory while a tile is computed.
//!
//! A tile's instructions other than the first to touch an operand work in the first-level cache, so memory
//! would idle meanwhile. In: the next tile, and the number of steps of the current one. Out: with each step,
//! its share of the cache lines of all operands and results that move along is on its way to the second-level
//! cache. Always holds: no result depends on it.

use super::Program;
use super::execute::{Task, Tile};
use crate::elementwise::Operand;
use gradloom_codegen::cpu::loops::Slot;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Most streams that are fetched: what memory keeps apart.
const STREAMS: usize = 8;
/// Instructions from which on a tile leaves memory idle for long enough.
pub(super) const WORTHWHILE: usize = 4;

/// A tile that is being fetched: a few lines of each stream with each step, which memory serves faster than
/// one stream after the other.
pub(super) struct Ahead<'a> {
    streams: &'a [Slot],
    tile: Tile,
    step: usize,
    /// Lines of a step, of each stream.
    shares: [usize; STREAMS],
}

impl<'a> Ahead<'a> {
    /// Creates a prefetcher of all lines of a tile, in `steps` steps.
    pub(super) fn new(program: &'a Program, task: &Task<'_>, tile: Tile, steps: usize) -> Self {
        let streams = &program.streams[..program.streams.len().min(STREAMS)];
        let mut shares = [0; STREAMS];
        for (share, &slot) in shares.iter_mut().zip(streams) {
            let (rows, lines, _) = rows(task, &tile, slot);
            *share = (rows * lines).div_ceil(steps.max(1));
        }
        Self { streams, tile, step: 0, shares }
    }

    /// Fetches the next step's lines.
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

/// Returns the number of rows of a stream's tile, the lines of each, and their location; rows without gaps
/// are one.
fn rows(task: &Task<'_>, tile: &Tile, slot: Slot) -> (usize, usize, Operand) {
    let operand = task.on_tile(slot, tile);
    let bytes = tile.columns * task.memory.addresses[slot as usize].bytes;
    match tile.rows == 1 || operand.row_stride == bytes {
        true => (1, (tile.rows * bytes).div_ceil(LINE), operand),
        false => (tile.rows, bytes.div_ceil(LINE), operand),
    }
}

/// Brings a cache line to the second-level cache.
#[inline(always)]
fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which accesses no memory as far as the program is concerned; every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
