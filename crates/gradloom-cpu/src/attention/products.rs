//! Products of blocks of attention, of operands in f32 or rounded to bf16.
//!
//! In: rows of a left operand, and a right operand that is packed for all strips of rows. Out: rows of a
//! target. Invariants: sums are f32; a range of contracted indices is extended by less than a register at
//! each end, where the left operand must be zero.

use crate::InstructionSet;
use crate::matrix::rounded::{Arithmetic, round_in_place, rounded};
use crate::matrix::tile::{Panels, Rows, TileTarget, multiply};
use crate::simd::Simd;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use crate::matrix::{pack::panels, rounded::pairs};

/// Number of contracted indices of a tile register.
const DEPTH: usize = 32;

/// Arithmetic of a task's products.
#[derive(Clone, Copy)]
pub(super) enum Products {
    /// f32.
    Plain,
    /// Operands are rounded to bf16 while they are packed.
    Rounded {
        arithmetic: Arithmetic,
        /// Buffer for a strip of rows of a left operand.
        left: *mut f32,
        /// Buffer for a right operand that is not yet rounded.
        #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "f32 is rounded in place"))]
        wide: *mut f32,
    },
}

/// A right operand in memory whose rows or columns are contiguous f32.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "operands are packed in f32 first"))]
pub(super) enum Source<F> {
    /// Addresses of rows, one for each contracted index.
    Rows(F),
    /// Addresses of columns.
    Columns(F),
}

impl Products {
    /// Returns the arithmetic of an instruction set, with the last two sections of a thread's scratch.
    pub(super) fn new(rounds: bool, level: InstructionSet, [left, wide]: [*mut f32; 2]) -> Self {
        if rounds { Self::Rounded { arithmetic: Arithmetic::of(level), left, wide } } else { Self::Plain }
    }

    /// Returns the length to which a row of `count` shares, with room for `most`, is filled with zeros before
    /// it is multiplied: whole vectors, or whole tiles if operands are rounded.
    pub(super) fn width(self, count: usize, most: usize, lanes: usize) -> usize {
        match self {
            Self::Plain => count.next_multiple_of(lanes),
            Self::Rounded { .. } => count.next_multiple_of(DEPTH).min(most),
        }
    }

    /// Returns the address and step of a row of `count` numbers as products read them: rounded, in the buffer
    /// of the left operand, if operands are rounded.
    ///
    /// # Safety
    /// `row` must be valid for reads of these elements. Nothing else may access the buffer.
    #[inline(always)]
    pub(super) unsafe fn row(self, row: *const f32, step: usize, count: usize) -> (*const f32, usize) {
        let Self::Rounded { left, .. } = self else { return (row, step) };
        // SAFETY: guaranteed by the caller; the buffer has room for a row of each operand.
        (0..count).for_each(|i| unsafe { *left.add(i) = rounded(*row.add(i * step)) });
        (left, 1)
    }

    /// Packs a right operand of `depth` contracted indices. `pack` packs it in f32, and `source` is the
    /// operand if that is contiguous f32.
    ///
    /// # Safety
    /// The operand must be valid for reads of these extents, and `to` and the buffers for writes of the
    /// packed operand. Nothing else may access these.
    #[inline(always)]
    pub(super) unsafe fn pack<S: Simd, F: Fn(usize) -> *const f32>(
        self,
        _: S,
        [columns, depth]: [usize; 2],
        source: Option<Source<F>>,
        pack: impl FnOnce(*mut f32) -> Panels,
        to: *mut f32,
    ) -> Panels {
        match self {
            Self::Plain => pack(to),
            #[cfg(target_arch = "x86_64")]
            Self::Rounded { arithmetic: Arithmetic::Pairs(bf16), wide, .. } => {
                let extents = [columns, depth];
                // SAFETY: guaranteed by the caller.
                unsafe {
                    match source {
                        Some(Source::Rows(row)) => bf16.pack_right_rows(extents, row, to),
                        Some(Source::Columns(column)) => bf16.pack_right_columns(extents, column, to),
                        None => {
                            pack(wide);
                            pack_pairs(bf16, extents, wide, to);
                        }
                    }
                }
                Panels { start: to, depth, columns }
            }
            Self::Rounded { .. } => {
                let _ = source;
                let packed = pack(to);
                // SAFETY: guaranteed by the caller; packed columns fill whole vectors.
                unsafe { round_in_place(columns.next_multiple_of(S::LANES) * depth, to) };
                packed
            }
        }
    }

    /// Computes `target = rows · right` for `count` rows, over the contracted indices in `range`. If operands
    /// are rounded, the range is extended to whole tiles, or to the end of the right operand.
    ///
    /// # Safety
    /// `rows` and `target` must be valid for `count` rows, `right` must be valid, and `range` must lie within
    /// `right.depth`. Rows must be zero where the range is extended. Nothing else may access the target and
    /// the buffers.
    #[inline(always)]
    pub(super) unsafe fn multiply<S: Simd>(
        self,
        simd: S,
        count: usize,
        range: Range<usize>,
        rows: Rows,
        right: Panels,
        target: TileTarget,
    ) {
        let Self::Rounded { arithmetic, left, .. } = self else {
            // SAFETY: guaranteed by the caller.
            return unsafe { multiply(simd, count, range, rows, right, target) };
        };
        let start = range.start / DEPTH * DEPTH;
        let range = start..range.end.next_multiple_of(DEPTH).min(right.depth);
        let extents = [count, range.len()];
        let packed = arithmetic.packed_rows(extents, rows.step == 1, left);
        // SAFETY: guaranteed by the caller.
        unsafe {
            arithmetic.pack_rows(extents, rows.at(0, range.start), left);
            match arithmetic {
                #[cfg(target_arch = "x86_64")]
                Arithmetic::Pairs(bf16) => bf16.multiply(extents, packed, right, range.start, target),
                Arithmetic::Widened => {
                    // The rows start with the range's first contracted index.
                    let start = packed.start.wrapping_sub(range.start * packed.step);
                    multiply(simd, count, range, Rows { start, ..packed }, right, target);
                }
            }
        }
    }
}

/// Packs panels of pairs from panels of f32.
///
/// # Safety
/// `from` and `to` must be valid for panels of these columns and contracted indices.
#[cfg(target_arch = "x86_64")]
unsafe fn pack_pairs(bf16: pairs::Bf16, [columns, depth]: [usize; 2], from: *const f32, to: *mut f32) {
    for (start, width) in panels(columns, pairs::LANES) {
        let (from, to) = (from.wrapping_add(start * depth), to.wrapping_add(start * depth.div_ceil(2)));
        let row = |p| from.wrapping_add(p * width);
        // SAFETY: guaranteed by the caller; the instructions of pairs imply vectors of as many lanes.
        unsafe { bf16.pack_right_rows([width.min(columns - start), depth], row, to) };
    }
}
