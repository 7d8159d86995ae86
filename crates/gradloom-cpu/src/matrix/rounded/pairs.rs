//! Pairs of bf16 for the instructions of AVX512_BF16.
//!
//! In: operands of f32. Out: words of two bf16, the one of the lower contracted index in the low half, and
//! products of such words. If the number of contracted indices is odd, the last word's high half is zero in
//! both operands. Invariant: each element is summed in the order of the contracted index.

use crate::matrix::pack::{pack_transposed, panels};
use crate::matrix::tile::{Rows, TileTarget};
use crate::simd::Simd;
use gradloom_codegen::cpu::STRIP;
use gradloom_core::ir::half::to_bf16;
use std::arch::x86_64::*;

/// A processor with AVX-512 F, BW, DQ and VL, and AVX512_BF16.
#[derive(Clone, Copy)]
pub(crate) struct Bf16(());

/// Number of words in a vector.
const LANES: usize = 16;
/// Number of columns of a panel.
pub(crate) const PANEL: usize = 2 * LANES;

impl Bf16 {
    /// # Safety
    /// The processor must have AVX-512 F, BW, DQ and VL, and AVX512_BF16.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }

    /// Packs `count` rows of `depth` contracted indices, as [`round_rows`](super::round_rows) does.
    ///
    /// # Safety
    /// `rows` must be valid for reads of these elements, and `to` for writes of as many words as a packed
    /// operand has.
    pub(crate) unsafe fn pack_rows(self, count: usize, depth: usize, rows: Rows, to: *mut f32) -> Rows {
        let words = depth.div_ceil(2);
        // SAFETY: guaranteed by the caller; a value of this type proves that the processor supports the
        // instructions.
        unsafe {
            if rows.step == 1 {
                for r in 0..count {
                    along(depth, rows.at(r, 0).start, to.wrapping_add(r * words));
                }
                return Rows { start: to, row_stride: words, step: 1 };
            }
            for q in 0..words {
                let (p, to) = (2 * q, to.wrapping_add(q * count));
                let has_both = p + 1 < depth;
                if rows.row_stride == 1 {
                    let second = if has_both { rows.at(0, p + 1).start } else { std::ptr::null() };
                    across([rows.at(0, p).start, second], count, count, to);
                    continue;
                }
                for r in 0..count {
                    let at = |p| u32::from(to_bf16(*rows.at(r, p).start));
                    let high = if has_both { at(p + 1) } else { 0 };
                    *to.add(r) = f32::from_bits(at(p) | high << 16);
                }
            }
        }
        Rows { start: to, row_stride: 1, step: count }
    }

    /// Packs the panels of a right operand with contiguous rows, for [`Bf16::multiply`]. Rows start `stride`
    /// apart, and are read from end to end.
    ///
    /// # Safety
    /// `right` must be valid for reads of `depth` rows of `columns` elements, and `to` for writes of as many
    /// words as its panels have. Nothing else may access these.
    pub(crate) unsafe fn pack_right_rows(
        self,
        columns: usize,
        depth: usize,
        right: *const f32,
        stride: usize,
        to: *mut f32,
    ) {
        let words = depth.div_ceil(2);
        for q in 0..words {
            let row = |p: usize| right.wrapping_add(p * stride);
            for (start, width) in self.panels(columns) {
                let rows = [2 * q, 2 * q + 1].map(|p| match p < depth {
                    true => row(p).wrapping_add(start),
                    false => std::ptr::null(),
                });
                let to = to.wrapping_add(start * words + q * width);
                // SAFETY: guaranteed by the caller; a value of this type proves that the processor supports
                // the instructions.
                unsafe { across(rows, width.min(columns - start), width, to) };
            }
        }
    }

    /// Packs the panels of a right operand with contiguous columns, for [`Bf16::multiply`]. Columns start
    /// `stride` apart. `room` takes the words of a panel before they are transposed.
    ///
    /// # Safety
    /// `right` must be valid for reads of `columns` columns of `depth` elements, `to` for writes of as many
    /// words as its panels have, and `room` for those of one panel. Nothing else may access these.
    #[inline(always)]
    pub(crate) unsafe fn pack_right_columns<S: Simd>(
        self,
        simd: S,
        columns: usize,
        depth: usize,
        right: *const f32,
        stride: usize,
        [room, to]: [*mut f32; 2],
    ) {
        let words = depth.div_ceil(2);
        for (start, width) in self.panels(columns) {
            let used = width.min(columns - start);
            let column = |j: usize| room.wrapping_add(j * words).cast_const();
            // SAFETY: guaranteed by the caller; a value of this type proves that the processor supports the
            // instructions.
            unsafe {
                for j in 0..used {
                    along(depth, right.wrapping_add((start + j) * stride), column(j).cast_mut());
                }
                pack_transposed(simd, used, words, column, 1, to.wrapping_add(start * words));
            }
        }
    }

    /// Computes `target = rows · panel` for `count` rows and `words` pairs of contracted indices, where the
    /// panel has the target's columns.
    ///
    /// # Safety
    /// `rows`, which are packed, `panel` and `target` must be valid for these extents, and the target must
    /// have at most [`PANEL`] columns. Nothing else may access the target.
    pub(crate) unsafe fn multiply(
        self,
        count: usize,
        words: usize,
        rows: Rows,
        panel: *const f32,
        target: TileTarget,
    ) {
        // SAFETY: guaranteed by the caller; a value of this type proves that the processor supports the
        // instructions.
        unsafe {
            match target.columns.div_ceil(LANES) {
                2 => strips::<2>(count, words, rows, panel, target),
                _ => strips::<1>(count, words, rows, panel, target),
            }
        }
    }

    /// Returns the first column and the width of each panel.
    #[inline(always)]
    pub(crate) fn panels(self, columns: usize) -> impl Iterator<Item = (usize, usize)> {
        panels(columns, LANES)
    }
}

/// Returns a mask with a bit for each of the first `count` lanes of 16.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count.min(LANES)) - 1) as __mmask16
}

/// Packs `depth` contiguous numbers into words.
///
/// # Safety
/// The processor must have these instructions. `from` must be valid for reads of `depth` numbers, and `to`
/// for writes of half as many words, rounded up.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn along(depth: usize, from: *const f32, to: *mut f32) {
    let mut p = 0;
    // SAFETY: guaranteed by the caller; masks leave out what is after the last number and word.
    unsafe {
        while p + PANEL <= depth {
            let [low, high] = [0, LANES].map(|first| _mm512_loadu_ps(from.add(p + first)));
            _mm512_storeu_ps(to.add(p / 2), words(low, high));
            p += PANEL;
        }
        if p < depth {
            let rest = depth - p;
            let (from, to) = (from.wrapping_add(p), to.wrapping_add(p / 2));
            let low = _mm512_maskz_loadu_ps(first(rest), from);
            let high = _mm512_maskz_loadu_ps(first(rest.saturating_sub(LANES)), from.wrapping_add(LANES));
            _mm512_mask_storeu_ps(to, first(rest.div_ceil(2)), words(low, high));
        }
    }
}

/// Packs `used` elements of two rows, of which the second may be null, into words with an element of each.
/// The words from there to `width` are zero.
///
/// # Safety
/// The processor must have these instructions. `rows` must be valid for reads of `used` numbers, and `to` for
/// writes of `width` words.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn across(rows: [*const f32; 2], used: usize, width: usize, to: *mut f32) {
    // Words 0, 16, 1, 17 and so on: the halves of the rounded rows alternate.
    const ALTERNATE: [i16; 32] = {
        let mut order = [0; 32];
        let mut i = 0;
        while i < 32 {
            order[i] = (i / 2 + i % 2 * 16) as i16;
            i += 1;
        }
        order
    };
    let mut j = 0;
    // SAFETY: guaranteed by the caller; masks leave out what is after the last number and word.
    unsafe {
        let order = _mm512_loadu_si512(ALTERNATE.as_ptr().cast());
        while j < width {
            let mask = first(used.saturating_sub(j));
            let low = _mm512_maskz_loadu_ps(mask, rows[0].wrapping_add(j));
            let second = if rows[1].is_null() { 0 } else { mask };
            let high = _mm512_maskz_loadu_ps(second, rows[1].wrapping_add(j));
            let both = _mm512_castps_si512(words(low, high));
            let both = _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, both));
            _mm512_mask_storeu_ps(to.wrapping_add(j), first(width - j), both);
            j += LANES;
        }
    }
}

/// Returns the rounded numbers of `low`, then those of `high`, as words of two.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn words(low: __m512, high: __m512) -> __m512 {
    // SAFETY: both types are 512 plain bits.
    unsafe { std::mem::transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low)) }
}

/// Computes a panel of `V` vectors, strip by strip of rows.
///
/// # Safety
/// Same as [`Bf16::multiply`]; the processor must have these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn strips<const V: usize>(
    count: usize,
    words: usize,
    rows: Rows,
    panel: *const f32,
    target: TileTarget,
) {
    let mut row = 0;
    while row < count {
        let (rows, target) = (rows.at(row, 0), TileTarget { start: target.row(row), ..target });
        // SAFETY: guaranteed by the caller; no tile extends beyond the last row.
        row += unsafe {
            match count - row {
                STRIP.. => tile::<STRIP, V>(words, rows, panel, target),
                8.. => tile::<8, V>(words, rows, panel, target),
                4.. => tile::<4, V>(words, rows, panel, target),
                2.. => tile::<2, V>(words, rows, panel, target),
                _ => tile::<1, V>(words, rows, panel, target),
            }
        };
    }
}

/// Computes `R` rows of `V` vectors. Returns `R`.
///
/// # Safety
/// Same as [`strips`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn tile<const R: usize, const V: usize>(
    words: usize,
    rows: Rows,
    panel: *const f32,
    target: TileTarget,
) -> usize {
    for r in 0..R {
        for v in 0..V {
            // The results of a large product are not in the cache; they are fetched while they are computed.
            _mm_prefetch::<_MM_HINT_ET0>(target.row(r).wrapping_add(v * LANES).cast());
        }
    }
    let mut sums = [[_mm512_setzero_ps(); V]; R];
    let (mut left, mut right) = (rows.start, panel);
    for _ in 0..words {
        // SAFETY: a panel has `V` whole vectors for each word, and there are `R` rows; vectors of f32 and of
        // bf16 are 512 plain bits.
        unsafe {
            let mut vectors = [std::mem::zeroed::<__m512bh>(); V];
            for v in 0..V {
                vectors[v] = std::mem::transmute::<__m512, __m512bh>(_mm512_loadu_ps(right.add(v * LANES)));
            }
            for r in 0..R {
                let word = _mm512_set1_ps(*left.add(r * rows.row_stride));
                let word = std::mem::transmute::<__m512, __m512bh>(word);
                for v in 0..V {
                    sums[r][v] = _mm512_dpbf16_ps(sums[r][v], word, vectors[v]);
                }
            }
        }
        left = left.wrapping_add(rows.step);
        right = right.wrapping_add(V * LANES);
    }
    for r in 0..R {
        for v in 0..V {
            let mask = first(target.columns - v * LANES);
            let to = target.row(r).wrapping_add(v * LANES);
            // SAFETY: the target has `R` rows; the mask leaves out what is after its last column.
            unsafe {
                let mut sum = sums[r][v];
                if target.accumulate {
                    sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum);
                }
                _mm512_mask_storeu_ps(to, mask, sum);
            }
        }
    }
    R
}
