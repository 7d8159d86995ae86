//! Packing of a right operand into panels.
//!
//! In: rows of a matrix with any strides. Out: panels of two vectors of columns; the last panel may have one
//! vector. For each contracted index, a panel holds its columns contiguously, padded with zeros. The panel
//! that starts at column c starts at `c·depth`.

use super::tile::Panels;
use crate::simd::Simd;

/// Packs `rows` rows as contracted indices and their elements as columns: the right operand of `x · rows`.
///
/// # Safety
/// `row(i)` for `i < rows` must be valid for reads of `columns` elements with stride `step`, and `to` for
/// writes of `rows` times the padded number of columns.
#[inline(always)]
pub(crate) unsafe fn pack_rows<S: Simd>(
    simd: S,
    rows: usize,
    columns: usize,
    row: impl Fn(usize) -> *const f32,
    step: usize,
    to: *mut f32,
) -> Panels {
    let lanes = S::LANES;
    for (start, width) in panels(columns, lanes) {
        let used = width.min(columns - start);
        for i in 0..rows {
            let from = row(i).wrapping_add(start * step);
            let to = to.wrapping_add(start * rows + i * width);
            // SAFETY: guaranteed by the caller.
            unsafe {
                if step == 1 && used == width {
                    (0..width).step_by(lanes).for_each(|c| simd.store(to.add(c), simd.load(from.add(c))));
                } else if step == 1 {
                    to.copy_from_nonoverlapping(from, used);
                } else {
                    (0..used).for_each(|c| *to.add(c) = *from.add(c * step));
                }
                (used..width).for_each(|c| *to.add(c) = 0.0);
            }
        }
    }
    Panels { start: to, depth: rows, columns }
}

/// Packs the elements at `start + row(i) + column(j)`, with rows as contracted indices. Runs of elements that
/// are contiguous along a row are copied together; if such runs are short, runs along a column are.
///
/// # Safety
/// `start + row(i) + column(j)` must be valid for a read for each `i < rows` and `j < columns`, and `to` for
/// writes of `rows` times the padded number of columns.
#[inline(always)]
pub(crate) unsafe fn pack_stepped<S: Simd>(
    simd: S,
    [rows, columns]: [usize; 2],
    start: *const f32,
    row: impl Fn(usize) -> usize,
    column: impl Fn(usize) -> usize,
    to: *mut f32,
) {
    let lanes = S::LANES;
    // Keep the offsets of at most `ROWS` rows at a time on the stack.
    let mut first = 0;
    while first < rows {
        let count = ROWS.min(rows - first);
        let offsets: [usize; ROWS] = std::array::from_fn(|i| if i < count { row(first + i) } else { 0 });
        for (panel, width) in panels(columns, lanes) {
            let used = width.min(columns - panel);
            let at: [usize; WIDEST] = std::array::from_fn(|j| if j < used { column(panel + j) } else { 0 });
            let to = to.wrapping_add(panel * rows + first * width);
            // Each run has a first column, a length and an offset.
            let mut runs = [(0, 0, 0); WIDEST];
            let mut found = 0;
            for (j, &at) in at[..used].iter().enumerate() {
                match found {
                    1.. if at == runs[found - 1].2 + runs[found - 1].1 => runs[found - 1].1 += 1,
                    _ => (runs[found], found) = ((j, 1, at), found + 1),
                }
            }
            let short = found * BLOCK > used;
            let mut i = 0;
            while i < count {
                let (from, to) = (start.wrapping_add(offsets[i]), to.wrapping_add(i * width));
                if short && i + BLOCK <= count && (1..BLOCK).all(|r| offsets[i + r] == offsets[i] + r) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { pack_square_rows(from, &at[..used], to, width) };
                    i += BLOCK;
                    continue;
                }
                i += 1;
                for &(j, length, at) in &runs[..found] {
                    let (from, to) = (from.wrapping_add(at), to.wrapping_add(j));
                    // SAFETY: guaranteed by the caller.
                    unsafe {
                        if length >= lanes {
                            // The last vector ends at the end of the run, so it may overlap the previous one.
                            let mut c = 0;
                            while c + lanes < length {
                                simd.store(to.add(c), simd.load(from.add(c)));
                                c += lanes;
                            }
                            let last = length - lanes;
                            simd.store(to.add(last), simd.load(from.add(last)));
                        } else {
                            (0..length).for_each(|c| *to.add(c) = *from.add(c));
                        }
                    }
                }
                // SAFETY: guaranteed by the caller.
                (used..width).for_each(|c| unsafe { *to.add(c) = 0.0 });
            }
        }
        first += count;
    }
}

/// Packs [`BLOCK`] rows whose elements are adjacent in memory along each column, rather than along the rows.
///
/// # Safety
/// `from` must be valid for reads of `BLOCK` elements at each offset in `columns`, and `to` for writes of
/// `BLOCK` rows with stride `width`, which must be at least the number of columns.
#[inline(always)]
unsafe fn pack_square_rows(from: *const f32, columns: &[usize], to: *mut f32, width: usize) {
    let (squares, rest) = columns.as_chunks::<BLOCK>();
    // SAFETY: guaranteed by the caller.
    unsafe {
        for (j, at) in squares.iter().enumerate() {
            transpose(at.map(|at| from.add(at)), to.add(j * BLOCK), width);
        }
        for (j, &at) in (squares.len() * BLOCK..).zip(rest) {
            (0..BLOCK).for_each(|i| *to.add(i * width + j) = *from.add(at + i));
        }
        for j in columns.len()..width {
            (0..BLOCK).for_each(|i| *to.add(i * width + j) = 0.0);
        }
    }
}

/// Number of rows whose offsets are computed at a time.
const ROWS: usize = 64;
/// Number of columns of the widest panel.
const WIDEST: usize = 32;

/// Packs `rows` rows as columns and their elements as contracted indices: the right operand of `x · rowsᵀ`.
///
/// # Safety
/// `row(i)` for `i < rows` must be valid for reads of `depth` elements with stride `step`, and `to` for
/// writes of `depth` times the padded number of rows.
#[inline(always)]
pub(crate) unsafe fn pack_transposed<S: Simd>(
    _: S,
    rows: usize,
    depth: usize,
    row: impl Fn(usize) -> *const f32,
    step: usize,
    to: *mut f32,
) -> Panels {
    let lanes = S::LANES;
    for (start, width) in panels(rows, lanes) {
        let to = to.wrapping_add(start * depth);
        let used = width.min(rows - start);
        let mut i = 0;
        while step == 1 && i + BLOCK <= used {
            let from: [*const f32; BLOCK] = std::array::from_fn(|r| row(start + i + r));
            let mut p = 0;
            while p + BLOCK <= depth {
                // SAFETY: guaranteed by the caller; `BLOCK` rows and `BLOCK` of their elements are left.
                unsafe { transpose(from.map(|row| row.add(p)), to.add(p * width + i), width) };
                p += BLOCK;
            }
            for (r, row) in from.into_iter().enumerate() {
                // SAFETY: guaranteed by the caller.
                (p..depth).for_each(|p| unsafe { *to.add(p * width + i + r) = *row.add(p) });
            }
            i += BLOCK;
        }
        for i in i..used {
            let row = row(start + i);
            // SAFETY: guaranteed by the caller.
            (0..depth).for_each(|p| unsafe { *to.add(p * width + i) = *row.add(p * step) });
        }
        for i in used..width {
            // SAFETY: guaranteed by the caller.
            (0..depth).for_each(|p| unsafe { *to.add(p * width + i) = 0.0 });
        }
    }
    Panels { start: to, depth, columns: rows }
}

/// Side length of the squares that are transposed in registers.
const BLOCK: usize = 4;

/// Transposes a square of `BLOCK` rows; the rows of the result are `stride` apart.
///
/// # Safety
/// Each of `rows` must be valid for reads of `BLOCK` elements, and each row of the result at `to` for writes
/// of `BLOCK` elements.
#[inline(always)]
unsafe fn transpose(rows: [*const f32; BLOCK], to: *mut f32, stride: usize) {
    // Use intrinsics, because LLVM does not find these shuffles and would extract the elements of the rows
    // one by one.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: guaranteed by the caller; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
        let [mut a, mut b, mut c, mut d] = rows.map(|row| _mm_loadu_ps(row));
        _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
        for (i, column) in [a, b, c, d].into_iter().enumerate() {
            _mm_storeu_ps(to.add(i * stride), column);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: guaranteed by the caller.
    unsafe {
        let rows = rows.map(|row| row.cast::<[f32; BLOCK]>().read_unaligned());
        for c in 0..BLOCK {
            let column = rows.map(|row| row[c]);
            to.add(c * stride).cast::<[f32; BLOCK]>().write_unaligned(column);
        }
    }
}

/// Returns the first column and the width of each panel.
#[inline(always)]
pub(crate) fn panels(columns: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let padded = columns.next_multiple_of(lanes);
    (0..columns).step_by(2 * lanes).map(move |start| (start, (padded - start).min(2 * lanes)))
}
