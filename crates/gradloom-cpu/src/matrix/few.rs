//! Products with few rows on the left, whose speed is limited by reading the right operand: each of its
//! elements is read once, in long runs.
//!
//! In: up to [`FEW_ROWS`] rows, and a right operand whose rows ([`add_rows`]) or columns ([`dots`]) are
//! contiguous, in any form of [`Stored`] numbers. Out: contiguous rows. Invariant: the order of a sum depends
//! on its length and the instruction set alone.

use super::stored::Stored;
use super::tile::{Rows, TileTarget, prefetch};
use crate::simd::Simd;
use gradloom_codegen::cpu::FEW_ROWS;

/// Number of contracted indices accumulated per pass over the columns.
const STEP: usize = 4;
/// Prefetch distance, in contracted indices after those of a step.
const AHEAD: usize = 16;
/// Number of columns of [`dots`] processed together for a single row: enough independent sums to hide the
/// latency of an addition.
pub(super) const GROUP: usize = 8;
/// Number of columns of [`dots`] processed together for several rows.
pub(super) const GROUP_OF_SEVERAL: usize = 4;

/// Computes `target = rows · right` by accumulating multiples of the rows of `right`. The row at contracted
/// index p starts at `right + p·stride`.
///
/// # Safety
/// `rows`, `right` and `target` must be valid for `count <= FEW_ROWS` rows, `depth` contracted indices and
/// the target's columns. Nothing else may access the target.
#[inline(always)]
pub(crate) unsafe fn add_rows<S: Simd, E: Stored>(
    simd: S,
    count: usize,
    depth: usize,
    rows: Rows,
    right: *const E,
    stride: usize,
    target: TileTarget,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match count {
            1 => add_rows_of::<S, E, 1>(simd, depth, rows, right, stride, target),
            2 => add_rows_of::<S, E, 2>(simd, depth, rows, right, stride, target),
            3 => add_rows_of::<S, E, 3>(simd, depth, rows, right, stride, target),
            _ => add_rows_of::<S, E, FEW_ROWS>(simd, depth, rows, right, stride, target),
        }
    }
}

/// # Safety
/// Same as [`add_rows`].
#[inline(always)]
unsafe fn add_rows_of<S: Simd, E: Stored, const R: usize>(
    simd: S,
    depth: usize,
    rows: Rows,
    right: *const E,
    stride: usize,
    target: TileTarget,
) {
    let mut p = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while p + STEP <= depth {
            let right = right.wrapping_add(p * stride);
            add_step::<S, E, R, STEP>(
                simd,
                rows.at(0, p),
                right,
                stride,
                TileTarget { accumulate: p > 0, ..target },
            );
            p += STEP;
        }
        while p < depth {
            let right = right.wrapping_add(p * stride);
            add_step::<S, E, R, 1>(
                simd,
                rows.at(0, p),
                right,
                stride,
                TileTarget { accumulate: p > 0, ..target },
            );
            p += 1;
        }
        if depth == 0 {
            (0..R).for_each(|r| target.row(r).write_bytes(0, target.columns));
        }
    }
}

/// Accumulates the products of `K` contracted indices.
///
/// # Safety
/// Same as [`add_rows`].
#[inline(always)]
unsafe fn add_step<S: Simd, E: Stored, const R: usize, const K: usize>(
    simd: S,
    rows: Rows,
    right: *const E,
    stride: usize,
    target: TileTarget,
) {
    let lanes = S::LANES;
    let mut factors = [[simd.splat(0.0); K]; R];
    for r in 0..R {
        for p in 0..K {
            // SAFETY: there are `R` rows and `K` more contracted indices.
            factors[r][p] = simd.splat(unsafe { *rows.at(r, p).start });
        }
    }
    let mut column = 0;
    // SAFETY: each vector ends within the columns of the operand and of the target.
    unsafe {
        while column + lanes <= target.columns {
            add_vector(simd, lanes, &factors, right.wrapping_add(column), stride, target.from(column));
            column += lanes;
        }
        if column < target.columns {
            let rest = target.columns - column;
            add_vector(simd, rest, &factors, right.wrapping_add(column), stride, target.from(column));
        }
    }
}

/// Accumulates multiples of one vector of each row of `right`, of which `rest` elements are left.
///
/// # Safety
/// Same as [`add_rows`].
#[inline(always)]
unsafe fn add_vector<S: Simd, E: Stored, const R: usize, const K: usize>(
    simd: S,
    rest: usize,
    factors: &[[S::F32s; K]; R],
    right: *const E,
    stride: usize,
    target: TileTarget,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut vectors = [simd.splat(0.0); K];
        for p in 0..K {
            // Prefetch explicitly, because the runs of a row are too short for the hardware prefetcher.
            prefetch(right.wrapping_add((AHEAD + p) * stride));
            vectors[p] = E::load_up_to(simd, rest, right.wrapping_add(p * stride));
        }
        for r in 0..R {
            let to = target.row(r);
            let mut sum = if target.accumulate { f32::load_up_to(simd, rest, to) } else { simd.splat(0.0) };
            for p in 0..K {
                sum = simd.mul_add(factors[r][p], vectors[p], sum);
            }
            if rest >= S::LANES {
                simd.store(to, sum);
            } else {
                simd.store_first(rest, to, sum);
            }
        }
    }
}

/// Computes `target = rows · right`, where column j of `right` starts at `right + j·stride`. Rows and columns
/// are contiguous.
///
/// # Safety
/// Same as [`add_rows`]; `rows.step` must be 1.
#[inline(always)]
pub(crate) unsafe fn dots<S: Simd, E: Stored>(
    simd: S,
    count: usize,
    depth: usize,
    rows: Rows,
    right: *const E,
    stride: usize,
    target: TileTarget,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { each_group(simd, count, depth, rows, Contiguous { right, stride }, target) }
}

/// A right operand that is read column by column.
pub(super) trait Columns: Copy {
    /// Returns the operand that starts at a column.
    fn from(self, column: usize) -> Self;

    /// Computes the dot products of `R` rows and the first `C` columns.
    ///
    /// # Safety
    /// Same as [`add_rows`]; `rows.step` must be 1.
    unsafe fn dots<S: Simd, const R: usize, const C: usize>(
        self,
        simd: S,
        depth: usize,
        rows: Rows,
        target: TileTarget,
    );
}

/// Computes the products of up to [`FEW_ROWS`] rows with all columns of the target, in groups of columns.
///
/// # Safety
/// Same as [`Columns::dots`].
#[inline(always)]
pub(super) unsafe fn each_group<S: Simd>(
    simd: S,
    count: usize,
    depth: usize,
    rows: Rows,
    right: impl Columns,
    target: TileTarget,
) {
    let group = if count == 1 { GROUP } else { GROUP_OF_SEVERAL };
    let mut column = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while column + group <= target.columns {
            let (right, to) = (right.from(column), target.from(column));
            match count {
                1 => right.dots::<S, 1, GROUP>(simd, depth, rows, to),
                2 => right.dots::<S, 2, GROUP_OF_SEVERAL>(simd, depth, rows, to),
                3 => right.dots::<S, 3, GROUP_OF_SEVERAL>(simd, depth, rows, to),
                _ => right.dots::<S, FEW_ROWS, GROUP_OF_SEVERAL>(simd, depth, rows, to),
            }
            column += group;
        }
        while column < target.columns {
            for r in 0..count {
                let to = TileTarget { start: target.row(r).wrapping_add(column), ..target };
                right.from(column).dots::<S, 1, 1>(simd, depth, rows.at(r, 0), to);
            }
            column += 1;
        }
    }
}

/// Contiguous columns that start `stride` elements apart.
struct Contiguous<E> {
    right: *const E,
    stride: usize,
}

impl<E> Clone for Contiguous<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Contiguous<E> {}

impl<E: Stored> Columns for Contiguous<E> {
    #[inline(always)]
    fn from(self, column: usize) -> Self {
        Self { right: self.right.wrapping_add(column * self.stride), ..self }
    }

    #[inline(always)]
    unsafe fn dots<S: Simd, const R: usize, const C: usize>(
        self,
        simd: S,
        depth: usize,
        rows: Rows,
        target: TileTarget,
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe { dots_of::<S, E, R, C>(simd, depth, rows, self.right, self.stride, target) }
    }
}

/// Computes the dot products of `R` rows and `C` columns.
///
/// # Safety
/// Same as [`dots`].
#[inline(always)]
unsafe fn dots_of<S: Simd, E: Stored, const R: usize, const C: usize>(
    simd: S,
    depth: usize,
    rows: Rows,
    right: *const E,
    stride: usize,
    target: TileTarget,
) {
    let lanes = S::LANES;
    let mut sums = [[simd.splat(0.0); C]; R];
    let mut p = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while p + lanes <= depth {
            add_products(simd, lanes, rows.at(0, p), right.wrapping_add(p), stride, &mut sums);
            p += lanes;
        }
        if p < depth {
            add_products(simd, depth - p, rows.at(0, p), right.wrapping_add(p), stride, &mut sums);
        }
    }
    for r in 0..R {
        for c in 0..C {
            let sum = simd.sum(sums[r][c]);
            // SAFETY: the target has `R` rows and `C` columns.
            unsafe { *target.row(r).wrapping_add(c) = sum };
        }
    }
}

/// Accumulates the products of one vector of each row and one of each column, of which `rest` elements are
/// left.
///
/// # Safety
/// Same as [`dots`].
#[inline(always)]
unsafe fn add_products<S: Simd, E: Stored, const R: usize, const C: usize>(
    simd: S,
    rest: usize,
    rows: Rows,
    right: *const E,
    stride: usize,
    sums: &mut [[S::F32s; C]; R],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut left = [simd.splat(0.0); R];
        for r in 0..R {
            left[r] = f32::load_up_to(simd, rest, rows.at(r, 0).start);
        }
        for c in 0..C {
            if size_of::<E>() < size_of::<f32>() {
                // Prefetch explicitly, because columns are too short for the hardware prefetcher.
                prefetch(right.wrapping_add((GROUP + c) * stride));
            }
            let vector = E::load_up_to(simd, rest, right.wrapping_add(c * stride));
            for r in 0..R {
                sums[r][c] = simd.mul_add(left[r], vector, sums[r][c]);
            }
        }
    }
}
