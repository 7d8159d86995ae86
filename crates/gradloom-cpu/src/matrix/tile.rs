//! Products of small matrices in registers.
//!
//! In: rows of a left operand with any strides, and a right operand packed into panels (see `pack`) or with
//! contiguous rows. Out: contiguous rows, overwritten or accumulated into. Invariant: each element is summed
//! in the order of the contracted index.
//!
//! A tile of [`STRIP`] rows by two vectors keeps 24 sums in AVX-512's 32 registers. With 16 registers (AVX2),
//! a tile has six rows.

use crate::simd::{Simd, Vectorized};
use gradloom_codegen::cpu::STRIP;
use std::ops::Range;

/// A left operand whose element (row r, contracted index p) is at `start + r·row_stride + p·step`.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) start: *const f32,
    pub(crate) row_stride: usize,
    pub(crate) step: usize,
}

impl Rows {
    /// Returns the operand that starts at the given row and contracted index.
    #[inline(always)]
    pub(crate) fn at(self, row: usize, index: usize) -> Self {
        Self { start: self.start.wrapping_add(row * self.row_stride + index * self.step), ..self }
    }
}

/// A packed right operand of `depth` contracted indices.
#[derive(Clone, Copy)]
pub(crate) struct Panels {
    pub(crate) start: *const f32,
    pub(crate) depth: usize,
    /// Number of packed columns, without padding.
    pub(crate) columns: usize,
}

/// Destination of results; row r starts at `start + r·row_stride`.
#[derive(Clone, Copy)]
pub(crate) struct TileTarget {
    pub(crate) start: *mut f32,
    pub(crate) row_stride: usize,
    /// Number of columns to write. If `padded`, the rest of the last vector may be written as well.
    pub(crate) columns: usize,
    /// True if rows have room for whole vectors.
    pub(crate) padded: bool,
    /// True if results are added to the existing values.
    pub(crate) accumulate: bool,
}

impl TileTarget {
    /// Returns the address of a row.
    #[inline(always)]
    pub(crate) fn row(self, row: usize) -> *mut f32 {
        self.start.wrapping_add(row * self.row_stride)
    }

    /// Returns the same rows, starting at a later column.
    #[inline(always)]
    pub(crate) fn from(self, column: usize) -> Self {
        Self { start: self.start.wrapping_add(column), columns: self.columns - column, ..self }
    }
}

/// Computes `target = rows · panels` for `count` rows, over the contracted indices in `range`.
///
/// # Safety
/// `rows` and `target` must be valid for `count` rows, `panels` must be valid, and `range` must lie within
/// `panels.depth`. Nothing else may access the target.
#[inline(always)]
pub(crate) unsafe fn multiply<S: Simd>(
    simd: S,
    count: usize,
    range: Range<usize>,
    rows: Rows,
    panels: Panels,
    target: TileTarget,
) {
    simd.vectorize(Multiply { count, range, rows, panels, target });
}

/// Operands of [`multiply`], which is a separate function because its code is long and called from many
/// places.
struct Multiply {
    count: usize,
    range: Range<usize>,
    rows: Rows,
    panels: Panels,
    target: TileTarget,
}

impl Vectorized for Multiply {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { count, range, rows, panels, target } = self;
        let mut row = 0;
        // These loops have no closures, whose bodies would be compiled without the instruction set of `S`.
        // SAFETY: guaranteed by the caller of `multiply`; the rows of each call lie below `count`.
        unsafe {
            // The `const` condition avoids compiling tiles for the other number of registers.
            if const { S::REGISTERS >= 32 } {
                while row + STRIP <= count {
                    columns::<S, STRIP>(simd, row, range.clone(), rows, panels, target);
                    row += STRIP;
                }
            } else {
                while row + 6 <= count {
                    columns::<S, 6>(simd, row, range.clone(), rows, panels, target);
                    row += 6;
                }
            }
            while row + 4 <= count {
                columns::<S, 4>(simd, row, range.clone(), rows, panels, target);
                row += 4;
            }
            while row < count {
                columns::<S, 1>(simd, row, range.clone(), rows, panels, target);
                row += 1;
            }
        }
    }
}

/// Computes `R` rows of the product, panel by panel.
///
/// # Safety
/// Same as [`multiply`].
#[inline(always)]
unsafe fn columns<S: Simd, const R: usize>(
    simd: S,
    row: usize,
    range: Range<usize>,
    rows: Rows,
    panels: Panels,
    target: TileTarget,
) {
    let lanes = S::LANES;
    let packed = panels.columns.div_ceil(lanes);
    let left = rows.start.wrapping_add(row * rows.row_stride + range.start * rows.step);
    let mut vector = 0;
    while vector * lanes < target.columns {
        let width = (packed - vector).min(2);
        let column = vector * lanes;
        let right = panels.start.wrapping_add(column * panels.depth + range.start * width * lanes);
        let tile = Tile {
            depth: range.len(),
            left: Rows { start: left, ..rows },
            right,
            right_step: width * lanes,
            table: std::ptr::null(),
            far: false,
            target: target.start.wrapping_add(row * target.row_stride + column),
            row_stride: target.row_stride,
            accumulate: target.accumulate,
            // Number of lanes of the panel's last vector that may be written.
            last: (target.columns - column).saturating_sub((width - 1) * lanes),
        };
        let whole = target.padded || tile.last >= lanes;
        // SAFETY: guaranteed by the caller.
        unsafe {
            match (width, whole) {
                (2, true) => tile.run::<S, R, 2, false, false>(simd),
                (2, false) => tile.run::<S, R, 2, true, false>(simd),
                (_, true) => tile.run::<S, R, 1, false, false>(simd),
                (_, false) => tile.run::<S, R, 1, true, false>(simd),
            }
        }
        vector += width;
    }
}

/// A right operand of [`panel`]: up to two vectors of columns per contracted index.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) start: *const f32,
    pub(crate) steps: Steps<'a>,
    pub(crate) count: usize,
    /// True if the operands may not fit in the second-level cache and should be prefetched.
    pub(crate) far: bool,
}

/// Locations of a right operand's contracted indices.
#[derive(Clone, Copy)]
pub(crate) enum Steps<'a> {
    /// A constant stride.
    Equal(usize),
    /// An offset from the start for each contracted index.
    Table(&'a [usize]),
}

/// Computes `target = rows · columns` for `count` rows. The panel of columns stays in the first-level cache.
///
/// # Safety
/// `rows`, `columns` and `target` must be valid for `count` rows, `depth` contracted indices and
/// `columns.count` columns, which must fit in two vectors. Nothing else may access these rows and columns of
/// the target. A table of steps must have `depth` entries.
#[inline(always)]
pub(crate) unsafe fn panel<S: Simd>(
    simd: S,
    count: usize,
    depth: usize,
    rows: Rows,
    columns: Columns<'_>,
    target: TileTarget,
) {
    let lanes = S::LANES;
    let width = columns.count.div_ceil(lanes);
    let last = columns.count - (width - 1) * lanes;
    let table = matches!(columns.steps, Steps::Table(_));
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (width, last == lanes, table) {
            (2, true, false) => {
                panel_of::<S, 2, false, false>(simd, count, depth, rows, columns, target, last)
            }
            (2, false, false) => {
                panel_of::<S, 2, true, false>(simd, count, depth, rows, columns, target, last)
            }
            (_, true, false) => {
                panel_of::<S, 1, false, false>(simd, count, depth, rows, columns, target, last)
            }
            (_, false, false) => {
                panel_of::<S, 1, true, false>(simd, count, depth, rows, columns, target, last)
            }
            (2, true, true) => panel_of::<S, 2, false, true>(simd, count, depth, rows, columns, target, last),
            (2, false, true) => panel_of::<S, 2, true, true>(simd, count, depth, rows, columns, target, last),
            (_, true, true) => panel_of::<S, 1, false, true>(simd, count, depth, rows, columns, target, last),
            (_, false, true) => panel_of::<S, 1, true, true>(simd, count, depth, rows, columns, target, last),
        }
    }
}

/// Computes a [`panel`] of `V` vectors, the last of which has `last` columns.
///
/// # Safety
/// Same as [`panel`].
#[inline(always)]
unsafe fn panel_of<S: Simd, const V: usize, const MASKED: bool, const TABLE: bool>(
    simd: S,
    count: usize,
    depth: usize,
    rows: Rows,
    columns: Columns<'_>,
    target: TileTarget,
    last: usize,
) {
    let (right_step, table) = match columns.steps {
        Steps::Equal(step) => (step, [].as_slice()),
        Steps::Table(offsets) => (0, offsets),
    };
    let tile = |row: usize| Tile {
        depth,
        left: rows.at(row, 0),
        right: columns.start,
        right_step,
        table: table.as_ptr(),
        far: columns.far,
        target: target.row(row),
        row_stride: target.row_stride,
        accumulate: target.accumulate,
        last,
    };
    let mut row = 0;
    // SAFETY: guaranteed by the caller; no tile extends beyond the last row.
    unsafe {
        while row < count {
            row += match count - row {
                STRIP.. if const { S::REGISTERS >= 32 } => {
                    tile(row).run::<S, STRIP, V, MASKED, TABLE>(simd);
                    STRIP
                }
                8.. if const { S::REGISTERS >= 32 } => {
                    tile(row).run::<S, 8, V, MASKED, TABLE>(simd);
                    8
                }
                6.. if const { S::REGISTERS < 32 } => {
                    tile(row).run::<S, 6, V, MASKED, TABLE>(simd);
                    6
                }
                4.. => {
                    tile(row).run::<S, 4, V, MASKED, TABLE>(simd);
                    4
                }
                2.. => {
                    tile(row).run::<S, 2, V, MASKED, TABLE>(simd);
                    2
                }
                _ => {
                    tile(row).run::<S, 1, V, MASKED, TABLE>(simd);
                    1
                }
            };
        }
    }
}

struct Tile {
    depth: usize,
    left: Rows,
    right: *const f32,
    /// Stride between the right operand's contracted indices, unless there is a table.
    right_step: usize,
    /// Table of the offsets of the right operand's contracted indices; used with `TABLE` only.
    table: *const usize,
    /// True if the operands may not fit in the second-level cache.
    far: bool,
    target: *mut f32,
    row_stride: usize,
    accumulate: bool,
    last: usize,
}

/// Prefetch distance of the right operand, in contracted indices.
const AHEAD: usize = 32;
/// Prefetch distance of a left operand with contiguous rows, in contracted indices.
const AHEAD_IN_ROW: usize = 64;

impl Tile {
    /// Prefetches the elements that are used some steps after contracted index `p`, whose elements are at
    /// `left` and `right`.
    #[inline(always)]
    fn prefetch<const V: usize>(&self, lanes: usize, p: usize, left: *const f32, right: *const f32) {
        // One row per step is enough, because a cache line holds the elements of 16 steps.
        if self.left.step == 1 && p % 16 < STRIP {
            prefetch(left.wrapping_add((p % 16) * self.left.row_stride + AHEAD_IN_ROW));
        }
        for v in 0..V {
            prefetch(right.wrapping_add(AHEAD * self.right_step + v * lanes));
        }
    }

    /// Computes `R` rows of `V` vectors. With `MASKED`, reads and writes only `last` lanes of the last
    /// vector. With `TABLE`, reads the offsets of the right operand's contracted indices from the table.
    ///
    /// # Safety
    /// Same as [`multiply`].
    #[inline(always)]
    unsafe fn run<S: Simd, const R: usize, const V: usize, const MASKED: bool, const TABLE: bool>(
        &self,
        simd: S,
    ) {
        simd.vectorize(TileOf::<R, V, MASKED, TABLE>(self));
    }
}

/// The code of [`Tile::run`], compiled once for all its callers.
struct TileOf<'a, const R: usize, const V: usize, const MASKED: bool, const TABLE: bool>(&'a Tile);

impl<const R: usize, const V: usize, const MASKED: bool, const TABLE: bool> Vectorized
    for TileOf<'_, R, V, MASKED, TABLE>
{
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(tile) = self;
        let lanes = S::LANES;
        let last = tile.last.min(lanes);
        let mut sums = [[simd.splat(0.0); V]; R];
        let (mut left, mut right) = (tile.left.start, tile.right);
        for p in 0..tile.depth {
            if R == STRIP && tile.far {
                tile.prefetch::<V>(lanes, p, left, right);
            }
            // SAFETY: for each contracted index, the panel has `V` vectors (`last` lanes of the last one) and
            // a table has an entry; the left operand has `R` rows.
            unsafe {
                if TABLE {
                    right = tile.right.wrapping_add(*tile.table.add(p));
                }
                let mut vectors = [simd.splat(0.0); V];
                for v in 0..V {
                    let from = right.add(v * lanes);
                    vectors[v] = match MASKED && v == V - 1 {
                        true => simd.load_first(last, from),
                        false => simd.load(from),
                    };
                }
                for r in 0..R {
                    let factor = simd.splat(*left.add(r * tile.left.row_stride));
                    for v in 0..V {
                        sums[r][v] = simd.mul_add(factor, vectors[v], sums[r][v]);
                    }
                }
            }
            left = left.wrapping_add(tile.left.step);
            if !TABLE {
                right = right.wrapping_add(tile.right_step);
            }
        }
        for r in 0..R {
            for v in 0..V {
                let at = tile.target.wrapping_add(r * tile.row_stride + v * lanes);
                // SAFETY: the target has `R` rows, wide enough for whole vectors unless `MASKED`.
                unsafe {
                    if MASKED && v == V - 1 {
                        let mut sum = sums[r][v];
                        if tile.accumulate {
                            sum = simd.add(simd.load_first(last, at), sum);
                        }
                        simd.store_first(last, at, sum);
                    } else {
                        let sum =
                            if tile.accumulate { simd.add(simd.load(at), sums[r][v]) } else { sums[r][v] };
                        simd.store(at, sum);
                    }
                }
            }
        }
    }
}

/// Prefetches the cache line at an address.
#[inline(always)]
pub(super) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that accepts any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
