//! Products of operands that are rounded to bf16, with sums in f32.
//!
//! In: operands of f32. Out: packed operands, rounded to the nearest bf16 with ties to even, and products of
//! the left rows with a panel of columns. Invariant: both [`Arithmetic`]s round alike and skip no term, so
//! that their sums differ by the rounding of sums alone, and by numbers below 2^-126, which the instructions
//! of [`Arithmetic::Pairs`] take as zero.

#[cfg(target_arch = "x86_64")]
pub(crate) mod pairs;
#[cfg(target_arch = "x86_64")]
mod tiles;

use super::tile::Rows;
use crate::InstructionSet;
use gradloom_core::ir::half::{from_bf16, to_bf16};

/// Instructions for products of operands that are rounded to bf16.
#[derive(Clone, Copy)]
pub(crate) enum Arithmetic {
    /// Instructions that multiply pairs of bf16 and add both products to an f32, of vectors or of tiles.
    #[cfg(target_arch = "x86_64")]
    Pairs(pairs::Bf16),
    /// Those of f32, on numbers that are widened again once they are rounded.
    Widened,
}

impl Arithmetic {
    /// Returns the arithmetic of an instruction set, which this machine must support.
    pub(crate) fn of(level: InstructionSet) -> Self {
        match level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor supports the level.
            InstructionSet::Avx512Bf16 | InstructionSet::AmxBf16 => {
                Self::Pairs(unsafe { pairs::Bf16::of(level) })
            }
            _ => Self::Widened,
        }
    }

    /// Returns rows that are packed at `to`. Rows of contiguous elements, as `is_contiguous` tells, stay so.
    pub(crate) fn packed_rows(self, [count, depth]: [usize; 2], is_contiguous: bool, to: *const f32) -> Rows {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Pairs(bf16) => bf16.packed_rows([count, depth], is_contiguous, to),
            Self::Widened if is_contiguous => Rows { start: to, row_stride: depth, step: 1 },
            Self::Widened => Rows { start: to, row_stride: 1, step: count },
        }
    }

    /// Packs `count` rows of `depth` contracted indices into [`Arithmetic::packed_rows`].
    ///
    /// # Safety
    /// `rows` must be valid for reads of these elements, and `to` for writes of as many.
    #[inline(always)]
    pub(crate) unsafe fn pack_rows(self, extents: [usize; 2], rows: Rows, to: *mut f32) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Pairs(bf16) => bf16.pack_rows(extents, rows, to),
                Self::Widened => round_rows(extents, rows, to),
            }
        }
    }
}

/// Rounds a number to bf16.
#[inline(always)]
pub(crate) fn rounded(x: f32) -> f32 {
    from_bf16(to_bf16(x))
}

/// Rounds `count` numbers in place.
///
/// # Safety
/// `count` numbers must be readable and writable at `at`, and nothing else may access them.
#[inline(always)]
pub(crate) unsafe fn round_in_place(count: usize, at: *mut f32) {
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts_mut(at, count) }.iter_mut().for_each(|x| *x = rounded(*x));
}

/// Rounds `count` rows of `depth` contracted indices and writes them to `to`.
///
/// # Safety
/// Same as [`Arithmetic::pack_rows`].
#[inline(always)]
unsafe fn round_rows([count, depth]: [usize; 2], rows: Rows, to: *mut f32) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if rows.step == 1 {
            for r in 0..count {
                let (from, to) = (rows.at(r, 0).start, to.wrapping_add(r * depth));
                (0..depth).for_each(|p| *to.add(p) = rounded(*from.add(p)));
            }
            return;
        }
        for p in 0..depth {
            let (from, to) = (rows.at(0, p).start, to.wrapping_add(p * count));
            if rows.row_stride == 1 {
                (0..count).for_each(|r| *to.add(r) = rounded(*from.add(r)));
            } else {
                (0..count).for_each(|r| *to.add(r) = rounded(*from.add(r * rows.row_stride)));
            }
        }
    }
}
