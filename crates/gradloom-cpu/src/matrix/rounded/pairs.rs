//! Pairs of bf16 for the instructions of AVX512_BF16 and AMX_BF16.
//!
//! In: operands of f32. Out: words of two bf16, the one of the lower contracted index in the low half, and
//! products of such words. If the number of contracted indices is odd, the last word's high half is zero in
//! both operands. Invariant: the order of each sum depends on the extents and the instruction set alone.

use super::tiles::{self, Amx, Panel, SIDE, Tiles};
use crate::InstructionSet;
use crate::matrix::pack::panels;
use crate::matrix::tile::{Panels, Rows, TileTarget};
use gradloom_codegen::cpu::STRIP;
use gradloom_core::ir::half::to_bf16;
use std::arch::x86_64::*;

/// A processor with AVX-512 F, BW, DQ and VL, and AVX512_BF16.
#[derive(Clone, Copy)]
pub(crate) struct Bf16 {
    /// Tile registers; `None` if the instruction set has none.
    tiles: Option<Amx>,
}

/// Number of words in a vector.
pub(crate) const LANES: usize = 16;

impl Bf16 {
    /// Returns the instructions of an instruction set.
    ///
    /// # Safety
    /// The processor must have the instruction set, which must be [`InstructionSet::Avx512Bf16`] or above.
    pub(super) unsafe fn of(level: InstructionSet) -> Self {
        Self { tiles: Amx::of(level) }
    }

    /// Returns the rows that [`Bf16::pack_rows`] packs to `to`. Rows become contiguous if they are, as
    /// `is_contiguous` tells, or if they are read as tiles; otherwise, the rows of each contracted index are.
    pub(crate) fn packed_rows(self, [count, depth]: [usize; 2], is_contiguous: bool, to: *const f32) -> Rows {
        match is_contiguous || self.tiles.is_some() {
            true => Rows { start: to, row_stride: depth.div_ceil(2), step: 1 },
            false => Rows { start: to, row_stride: 1, step: count },
        }
    }

    /// Packs `count` rows of `depth` contracted indices into [`Bf16::packed_rows`].
    ///
    /// # Safety
    /// `rows` must be valid for reads of these elements, and `to` for writes of as many words as a packed
    /// operand has.
    pub(crate) unsafe fn pack_rows(self, [count, depth]: [usize; 2], rows: Rows, to: *mut f32) {
        // SAFETY: guaranteed by the caller; a value of this type proves that the processor supports the
        // instructions.
        unsafe {
            if rows.step == 1 || self.tiles.is_some() {
                return contiguous_rows(count, depth, rows, to);
            }
            for q in 0..depth.div_ceil(2) {
                let to = to.wrapping_add(q * count);
                if rows.row_stride == 1 {
                    across(pair_of_rows(rows, q, depth), count, count, to);
                } else {
                    (0..count).for_each(|r| *to.add(r) = word(rows.at(r, 0), q, depth));
                }
            }
        }
    }

    /// Packs the panels of a right operand with contiguous rows, for [`Bf16::multiply`].
    ///
    /// # Safety
    /// `row(p)` for `p < depth` must be valid for reads of `columns` elements, and `to` for writes of as many
    /// words as the panels have. Nothing else may access these.
    pub(crate) unsafe fn pack_right_rows(
        self,
        [columns, depth]: [usize; 2],
        row: impl Fn(usize) -> *const f32,
        to: *mut f32,
    ) {
        let words = depth.div_ceil(2);
        for q in 0..words {
            let second = if 2 * q + 1 < depth { row(2 * q + 1) } else { std::ptr::null() };
            for (start, width) in panels(columns, LANES) {
                let rows = [row(2 * q), second];
                let rows = rows.map(|row| if row.is_null() { row } else { row.wrapping_add(start) });
                let to = to.wrapping_add(start * words + q * width);
                // SAFETY: guaranteed by the caller; a value of this type proves that the processor supports
                // the instructions.
                unsafe { across(rows, width.min(columns - start), width, to) };
            }
        }
    }

    /// Packs the panels of a right operand with contiguous columns, for [`Bf16::multiply`].
    ///
    /// # Safety
    /// `column(j)` for `j < columns` must be valid for reads of `depth` elements, and `to` for writes of as
    /// many words as the panels have. Nothing else may access these.
    pub(crate) unsafe fn pack_right_columns(
        self,
        [columns, depth]: [usize; 2],
        column: impl Fn(usize) -> *const f32,
        to: *mut f32,
    ) {
        // SAFETY: guaranteed by the caller; a value of this type proves that the processor supports the
        // instructions.
        unsafe { panels_of_columns([columns, depth], column, to) }
    }

    /// Computes `target = rows · panels` for `count` rows over `depth` contracted indices, which are those of
    /// the panels from `first` on, an even number.
    ///
    /// # Safety
    /// `rows` and `right`, which are packed, and `target` must be valid for these extents. Nothing else may
    /// access the target.
    pub(crate) unsafe fn multiply(
        self,
        [count, depth]: [usize; 2],
        rows: Rows,
        right: Panels,
        first: usize,
        target: TileTarget,
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.multiply_by(self.tiles, [count, depth.div_ceil(2)], rows, right, first / 2, target) }
    }

    /// Computes [`Bf16::multiply`] over `words` pairs of contracted indices with the given tiles.
    ///
    /// # Safety
    /// Same as [`Bf16::multiply`]; for tiles, rows must be contiguous.
    unsafe fn multiply_by(
        self,
        tiles: Option<impl Tiles>,
        [count, words]: [usize; 2],
        rows: Rows,
        right: Panels,
        first: usize,
        target: TileTarget,
    ) {
        let all = |from: usize| {
            let panels = panels(right.columns, LANES).take_while(move |(column, _)| *column < target.columns);
            panels.map(move |(column, width)| Panel {
                start: right.start.wrapping_add(column * right.depth.div_ceil(2) + (first + from) * width),
                width,
                target: TileTarget { columns: (target.columns - column).min(width), ..target.from(column) },
            })
        };
        let mut whole = [0, 0];
        // SAFETY: guaranteed by the caller; a value of this type proves that the processor supports the
        // instructions.
        unsafe {
            if let Some(tiles) = tiles {
                let groups = [count / SIDE, words / SIDE];
                if groups[0] * groups[1] > 0 {
                    tiles::multiply(tiles, groups, rows, all(0));
                    whole = groups.map(|groups| groups * SIDE);
                }
            }
            // The words after the last group, of rows that tiles have summed up to there.
            if whole[1] < words && whole[0] > 0 {
                all(whole[1]).for_each(|panel| {
                    let target = TileTarget { accumulate: true, ..panel.target };
                    let rows = rows.at(0, whole[1]);
                    strips([whole[0], words - whole[1]], rows, Panel { target, ..panel });
                });
            }
            if whole[0] < count {
                all(0).for_each(|panel| {
                    let target = TileTarget { start: panel.target.row(whole[0]), ..panel.target };
                    strips([count - whole[0], words], rows.at(whole[0], 0), Panel { target, ..panel });
                });
            }
        }
    }
}

/// Returns the addresses of the contracted indices of word `q` of rows; the second is null if there is none.
#[inline(always)]
fn pair_of_rows(rows: Rows, q: usize, depth: usize) -> [*const f32; 2] {
    let second = if 2 * q + 1 < depth { rows.at(0, 2 * q + 1).start } else { std::ptr::null() };
    [rows.at(0, 2 * q).start, second]
}

/// Returns word `q` of a row.
///
/// # Safety
/// `row` must be valid for reads of `depth` contracted indices, and `q` below their number of words.
#[inline(always)]
unsafe fn word(row: Rows, q: usize, depth: usize) -> f32 {
    // SAFETY: guaranteed by the caller.
    let [low, high] = pair_of_rows(row, q, depth).map(|at| match at.is_null() {
        true => 0,
        false => u32::from(to_bf16(unsafe { *at })),
    });
    f32::from_bits(low | high << 16)
}

/// Returns a mask with a bit for each of the first `count` lanes of 16.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count.min(LANES)) - 1) as __mmask16
}

/// Packs rows of any strides, which become contiguous.
///
/// # Safety
/// The processor must have these instructions. See [`Bf16::pack_rows`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn contiguous_rows(count: usize, depth: usize, rows: Rows, to: *mut f32) {
    let words = depth.div_ceil(2);
    // SAFETY: guaranteed by the caller; masks leave out what is after the last row and word.
    unsafe {
        if rows.row_stride == 1 && rows.step != 1 {
            for r in (0..count).step_by(LANES) {
                for q in (0..words).step_by(LANES) {
                    let mut square = [_mm512_setzero_ps(); LANES];
                    for i in 0..LANES.min(words - q) {
                        square[i] = words_across(pair_of_rows(rows.at(r, 0), q + i, depth), count - r);
                    }
                    store_transposed(square, to.wrapping_add(r * words + q), words, [count - r, words - q]);
                }
            }
        } else {
            for r in 0..count {
                let (row, to) = (rows.at(r, 0), to.wrapping_add(r * words));
                if rows.step != 1 {
                    (0..words).for_each(|q| *to.add(q) = word(row, q, depth));
                    continue;
                }
                for q in (0..words).step_by(LANES) {
                    let values = words_along(row.start.wrapping_add(2 * q), depth - 2 * q);
                    _mm512_mask_storeu_ps(to.wrapping_add(q), first(words - q), values);
                }
            }
        }
    }
}

/// Packs the panels of contiguous columns.
///
/// # Safety
/// The processor must have these instructions. See [`Bf16::pack_right_columns`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn panels_of_columns(
    [columns, depth]: [usize; 2],
    column: impl Fn(usize) -> *const f32,
    to: *mut f32,
) {
    let words = depth.div_ceil(2);
    for (start, width) in panels(columns, LANES) {
        for j in (0..width).step_by(LANES) {
            for q in (0..words).step_by(LANES) {
                let mut square = [_mm512_setzero_ps(); LANES];
                let from = |i: usize| column(start + j + i).wrapping_add(2 * q);
                // SAFETY: guaranteed by the caller; masks leave out what is after the last word.
                unsafe {
                    for i in 0..LANES.min(columns.saturating_sub(start + j)) {
                        square[i] = words_along(from(i), depth - 2 * q);
                    }
                    let to = to.wrapping_add(start * words + q * width + j);
                    store_transposed(square, to, width, [words - q, LANES]);
                }
            }
        }
    }
}

/// Returns the words of up to 32 contiguous numbers; words after the last number are zero.
///
/// # Safety
/// `from` must be valid for reads of `count` numbers, or of 32 if `count` is larger.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn words_along(from: *const f32, count: usize) -> __m512 {
    // SAFETY: guaranteed by the caller; masks leave out what is after the last number.
    unsafe {
        let low = _mm512_maskz_loadu_ps(first(count), from);
        let high = _mm512_maskz_loadu_ps(first(count.saturating_sub(LANES)), from.wrapping_add(LANES));
        words(low, high)
    }
}

/// Returns words with an element of each of two rows, of which the second may be null. Words after the first
/// `count` are zero.
///
/// # Safety
/// The rows must be valid for reads of `count` numbers, or of 16 if `count` is larger.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn words_across(rows: [*const f32; 2], count: usize) -> __m512 {
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
    // SAFETY: guaranteed by the caller; masks leave out what is after the last number.
    unsafe {
        let low = _mm512_maskz_loadu_ps(first(count), rows[0]);
        let high = _mm512_maskz_loadu_ps(if rows[1].is_null() { 0 } else { first(count) }, rows[1]);
        let both = _mm512_castps_si512(words(low, high));
        _mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_loadu_si512(ALTERNATE.as_ptr().cast()), both))
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
    for j in (0..width).step_by(LANES) {
        let from = rows.map(|row| if row.is_null() { row } else { row.wrapping_add(j) });
        // SAFETY: guaranteed by the caller; the mask leaves out what is after the last word.
        unsafe {
            let values = words_across(from, used.saturating_sub(j));
            _mm512_mask_storeu_ps(to.wrapping_add(j), first(width - j), values);
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

/// Writes the transpose of a square of words, up to a number of rows and columns: row i of the result holds
/// word i of each vector, and starts `stride` words after the previous row.
///
/// # Safety
/// `to` must be valid for writes of these rows and columns.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_transposed(
    square: [__m512; LANES],
    to: *mut f32,
    stride: usize,
    [rows, columns]: [usize; 2],
) {
    let mut fours = [_mm512_setzero_ps(); LANES];
    for g in (0..LANES).step_by(4) {
        let [a, b, c, d] = [square[g], square[g + 1], square[g + 2], square[g + 3]];
        let pairs = [(a, b), (c, d)];
        let [low, other_low] = pairs.map(|(a, b)| _mm512_castps_pd(_mm512_unpacklo_ps(a, b)));
        let [high, other_high] = pairs.map(|(a, b)| _mm512_castps_pd(_mm512_unpackhi_ps(a, b)));
        // In lane l of vector i of the four: word 4l + i of each of the four.
        fours[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, other_low));
        fours[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, other_low));
        fours[g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high, other_high));
        fours[g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high, other_high));
    }
    for i in 0..4 {
        let [a, b, c, d] = [fours[i], fours[4 + i], fours[8 + i], fours[12 + i]];
        let (low, other_low) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0x44>(c, d));
        let (high, other_high) = (_mm512_shuffle_f32x4::<0xee>(a, b), _mm512_shuffle_f32x4::<0xee>(c, d));
        let of_lanes = [
            _mm512_shuffle_f32x4::<0x88>(low, other_low),
            _mm512_shuffle_f32x4::<0xdd>(low, other_low),
            _mm512_shuffle_f32x4::<0x88>(high, other_high),
            _mm512_shuffle_f32x4::<0xdd>(high, other_high),
        ];
        for (lane, row) in of_lanes.into_iter().enumerate() {
            if 4 * lane + i < rows {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let to = to.wrapping_add((4 * lane + i) * stride);
                    _mm512_mask_storeu_ps(to, first(columns), row);
                }
            }
        }
    }
}

/// Computes a panel's product for `count` rows and `words` pairs of contracted indices, strip by strip of
/// rows.
///
/// # Safety
/// The processor must have these instructions; otherwise the same as [`Bf16::multiply`], with a target of at
/// most two vectors of columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn strips([count, words]: [usize; 2], rows: Rows, panel: Panel) {
    let mut row = 0;
    while row < count {
        let target = TileTarget { start: panel.target.row(row), ..panel.target };
        let (rows, panel) = (rows.at(row, 0), Panel { target, ..panel });
        // SAFETY: guaranteed by the caller; no tile extends beyond the last row.
        row += unsafe {
            match (count - row, panel.target.columns > LANES) {
                (STRIP.., true) => tile::<STRIP, 2>(words, rows, panel),
                (8.., true) => tile::<8, 2>(words, rows, panel),
                (4.., true) => tile::<4, 2>(words, rows, panel),
                (2.., true) => tile::<2, 2>(words, rows, panel),
                (_, true) => tile::<1, 2>(words, rows, panel),
                (STRIP.., false) => tile::<STRIP, 1>(words, rows, panel),
                (8.., false) => tile::<8, 1>(words, rows, panel),
                (4.., false) => tile::<4, 1>(words, rows, panel),
                (2.., false) => tile::<2, 1>(words, rows, panel),
                (_, false) => tile::<1, 1>(words, rows, panel),
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
    Panel { start: mut right, width, target }: Panel,
) -> usize {
    for r in 0..R {
        for v in 0..V {
            // The results of a large product are not in the cache; they are fetched while they are computed.
            _mm_prefetch::<_MM_HINT_ET0>(target.row(r).wrapping_add(v * LANES).cast());
        }
    }
    let mut sums = [[_mm512_setzero_ps(); V]; R];
    let mut left = rows.start;
    for _ in 0..words {
        // SAFETY: a panel has at least `V` whole vectors for each word, and there are `R` rows; vectors of
        // f32 and of bf16 are 512 plain bits.
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
        right = right.wrapping_add(width);
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

#[cfg(test)]
mod tests {
    use super::super::tiles::emulated::Registers;
    use super::*;
    use gradloom_core::ir::half::from_bf16;
    use gradloom_testing::random::Random;

    /// Returns `count` numbers that bf16 holds, from -1 to 1.
    fn numbers(random: &mut Random, count: usize) -> Vec<f32> {
        (0..count).map(|_| from_bf16(to_bf16(random.float()))).collect()
    }

    /// Multiplies by vectors alone and by emulated tiles, from operands of either order, and compares both
    /// with sums in f64.
    fn check(
        bf16: Bf16,
        random: &mut Random,
        [m, n, k]: [usize; 3],
        by_columns: [bool; 2],
        accumulate: bool,
    ) {
        let (left, right) = (numbers(random, m * k), numbers(random, k * n));
        let words = k.div_ceil(2);
        let (mut room, mut packed) =
            (vec![f32::NAN; m * words], vec![f32::NAN; words * n.next_multiple_of(LANES)]);
        let [row_stride, step] = if by_columns[0] { [1, m] } else { [k, 1] };
        let start = numbers(random, m * (n + 3));
        // Leading columns and last contracted indices of the packed operand.
        let (used, first) = (n - random.below(n.min(40)), 2 * random.below(k.div_ceil(2)));
        let run = |tiles: Option<&Registers>, room: &mut [f32], packed: &mut [f32]| {
            let mut target = start.clone();
            let rows = Rows { start: left.as_ptr(), row_stride, step };
            let to = TileTarget {
                start: target.as_mut_ptr(),
                row_stride: n + 3,
                columns: used,
                padded: false,
                accumulate,
            };
            // SAFETY: the operands and buffers have these extents, and the test runs only where the
            // processor has the instructions.
            unsafe {
                match by_columns[1] {
                    true => {
                        let column = |j| right.as_ptr().wrapping_add(j * k);
                        bf16.pack_right_columns([n, k], column, packed.as_mut_ptr());
                    }
                    false => {
                        let row = |p| right.as_ptr().wrapping_add(p * n);
                        bf16.pack_right_rows([n, k], row, packed.as_mut_ptr());
                    }
                }
                let depth = k - first;
                contiguous_rows(m, depth, rows.at(0, first), room.as_mut_ptr());
                let words = depth.div_ceil(2);
                let rows = Rows { start: room.as_ptr(), row_stride: words, step: 1 };
                let panels = Panels { start: packed.as_ptr(), depth: k, columns: n };
                bf16.multiply_by(tiles, [m, words], rows, panels, first / 2, to);
            }
            target
        };
        let registers = Registers::default();
        for tiles in [None, Some(&registers)] {
            let result = run(tiles, &mut room, &mut packed);
            for (i, (&got, &before)) in result.iter().zip(&start).enumerate() {
                let (r, c) = (i / (n + 3), i % (n + 3));
                if c >= used {
                    assert_eq!(got, before, "{m}x{n}x{k}: element {c} after row {r} was written");
                    continue;
                }
                let term = |p: usize| {
                    let right = if by_columns[1] { right[c * k + p] } else { right[p * n + c] };
                    f64::from(left[r * row_stride + p * step]) * f64::from(right)
                };
                let before = if accumulate { f64::from(before) } else { 0.0 };
                let wanted = (first..k).map(term).sum::<f64>() + before;
                let size = (first..k).map(|p| term(p).abs()).sum::<f64>() + before.abs();
                let bound = (k + 1) as f64 * f64::from(f32::EPSILON) * size;
                let is_near = (f64::from(got) - wanted).abs() <= bound;
                assert!(is_near, "{m}x{n}x{k}, {by_columns:?}: ({r}, {c}) is {got}, expected {wanted}");
            }
        }
        assert!(registers.borrow().is_empty(), "tiles were not released");
    }

    #[test]
    fn tiles_and_vectors_multiply_alike() {
        if !InstructionSet::available().contains(&InstructionSet::Avx512Bf16) {
            return gradloom_testing::skip::skip("the processor has no AVX512_BF16", None);
        }
        // SAFETY: the machine has the instruction set.
        let bf16 = unsafe { Bf16::of(InstructionSet::Avx512Bf16) };
        let mut random = Random::new(11);
        for round in 0..200 {
            let extents = [1 + random.below(70), 1 + random.below(70), 1 + random.below(140)];
            let by_columns = [round % 2 == 0, round / 2 % 2 == 0];
            check(bf16, &mut random, extents, by_columns, round / 4 % 2 == 0);
        }
        for extents in [[16, 16, 32], [32, 32, 64], [48, 17, 33], [15, 16, 31], [96, 64, 384]] {
            check(bf16, &mut random, extents, [true, false], true);
        }
    }
}
