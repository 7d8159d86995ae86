//! Products of small matrices in registers.
//!
//! In: rows of a left operand with any strides, and a right operand packed into panels (see `pack`). Out: rows of contiguous columns,
//! overwritten or added to. Always holds: each element is a sum in the order of the contracted index.
//!
//! A tile of [`STRIP`] rows by two vectors keeps 24 sums in AVX-512's 32 registers; with 16 registers (AVX2) six rows do.

use gradloom_codegen::cpu::STRIP;
use pulp::Simd;
use std::ops::Range;

/// A left operand: element (row r, contracted index p) is at `start + r·row_stride + p·step`.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) start: *const f32,
    pub(super) row_stride: usize,
    pub(super) step: usize,
}

/// A packed right operand of `depth` contracted indices.
#[derive(Clone, Copy)]
pub(super) struct Panels {
    pub(super) start: *const f32,
    pub(super) depth: usize,
    /// Columns that were packed, without padding.
    pub(super) columns: usize,
}

/// Where results go: row r starts at `start + r·row_stride`.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) start: *mut f32,
    pub(super) row_stride: usize,
    /// Columns that are wanted; those of a whole vector may be written if `padded`.
    pub(super) columns: usize,
    /// Whether rows have room up to a whole vector.
    pub(super) padded: bool,
    /// Whether to add to what is there.
    pub(super) accumulate: bool,
}

/// `target = rows · panels`, over the contracted indices in `range`, for `count` rows.
///
/// # Safety
/// The operands must lead to `count` rows, `range` must lie within `panels.depth`, and nobody else may touch the target.
#[inline(always)]
pub(super) unsafe fn multiply<S: Simd>(
    simd: S,
    count: usize,
    range: Range<usize>,
    rows: Rows,
    panels: Panels,
    target: Target,
) {
    let mut row = 0;
    // Plain loops: the body of a closure would be compiled without the instruction set of `S`.
    // SAFETY: as promised by the caller; the rows of each call lie below `count`.
    unsafe {
        while S::REGISTER_COUNT >= 32 && row + STRIP <= count {
            columns::<S, STRIP>(simd, row, range.clone(), rows, panels, target);
            row += STRIP;
        }
        while S::REGISTER_COUNT < 32 && row + 6 <= count {
            columns::<S, 6>(simd, row, range.clone(), rows, panels, target);
            row += 6;
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

/// `R` rows of the product, panel by panel.
///
/// # Safety
/// As [`multiply`].
#[inline(always)]
unsafe fn columns<S: Simd, const R: usize>(
    simd: S,
    row: usize,
    range: Range<usize>,
    rows: Rows,
    panels: Panels,
    target: Target,
) {
    let lanes = S::F32_LANES;
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
            target: target.start.wrapping_add(row * target.row_stride + column),
            row_stride: target.row_stride,
            accumulate: target.accumulate,
            // Lanes of the panel's last vector that may be written.
            last: (target.columns - column).saturating_sub((width - 1) * lanes),
        };
        let whole = target.padded || tile.last >= lanes;
        // SAFETY: as promised by the caller.
        unsafe {
            match (width, whole) {
                (2, true) => tile.run::<S, R, 2, false>(simd),
                (2, false) => tile.run::<S, R, 2, true>(simd),
                (_, true) => tile.run::<S, R, 1, false>(simd),
                (_, false) => tile.run::<S, R, 1, true>(simd),
            }
        }
        vector += width;
    }
}

struct Tile {
    depth: usize,
    left: Rows,
    right: *const f32,
    target: *mut f32,
    row_stride: usize,
    accumulate: bool,
    last: usize,
}

impl Tile {
    /// `R` rows of `V` vectors. With `MASKED`, only `last` lanes of the last vector are written.
    ///
    /// # Safety
    /// As [`multiply`].
    #[inline(always)]
    unsafe fn run<S: Simd, const R: usize, const V: usize, const MASKED: bool>(&self, simd: S) {
        let lanes = S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        let (mut left, mut right) = (self.left.start, self.right);
        for _ in 0..self.depth {
            // SAFETY: the panel has `V` vectors for each contracted index, the left operand `R` rows.
            unsafe {
                let mut vectors = [simd.splat_f32s(0.0); V];
                for v in 0..V {
                    vectors[v] = load(simd, right.add(v * lanes));
                }
                for r in 0..R {
                    let factor = simd.splat_f32s(*left.add(r * self.left.row_stride));
                    for v in 0..V {
                        sums[r][v] = simd.mul_add_e_f32s(factor, vectors[v], sums[r][v]);
                    }
                }
            }
            left = left.wrapping_add(self.left.step);
            right = right.wrapping_add(V * lanes);
        }
        let mask = simd.mask_between_m32s(0, self.last.min(lanes) as u32);
        for r in 0..R {
            for v in 0..V {
                let at = self.target.wrapping_add(r * self.row_stride + v * lanes);
                // SAFETY: the target has `R` rows, wide enough for whole vectors unless `MASKED`.
                unsafe {
                    if MASKED && v == V - 1 {
                        let mut sum = sums[r][v];
                        if self.accumulate {
                            sum = simd.add_f32s(simd.mask_load_ptr_f32s(mask, at), sum);
                        }
                        simd.mask_store_ptr_f32s(mask, at, sum);
                    } else {
                        let sum = if self.accumulate {
                            simd.add_f32s(load(simd, at), sums[r][v])
                        } else {
                            sums[r][v]
                        };
                        store(simd, at, sum);
                    }
                }
            }
        }
    }
}

/// Reads a vector from any address.
///
/// # Safety
/// A vector's floats must be readable there.
#[inline(always)]
pub(super) unsafe fn load<S: Simd>(_: S, from: *const f32) -> S::f32s {
    // SAFETY: as promised by the caller; vectors are plain data.
    unsafe { from.cast::<S::f32s>().read_unaligned() }
}

/// Writes a vector to any address.
///
/// # Safety
/// A vector's floats must be writable there.
#[inline(always)]
pub(super) unsafe fn store<S: Simd>(_: S, to: *mut f32, value: S::f32s) {
    // SAFETY: as promised by the caller.
    unsafe { to.cast::<S::f32s>().write_unaligned(value) }
}
