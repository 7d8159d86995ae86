//! Numbers stored in quantized blocks, which are converted to f32 in registers.
//!
//! In: addresses of blocks. Out: numbers, packed panels, or products with few rows. Invariant: the
//! conversion is exact; in products, the scale of a block multiplies the block's partial sum, once.

use super::few::{Columns, GROUP, each_group};
use super::pack::{pack_transposed, panels};
use super::tile::{Rows, TileTarget, prefetch};
use crate::simd::{Simd, WIDEST};
use gradloom_core::ir::{BLOCK, BlockFormat};
use std::marker::PhantomData;

/// A storage format of the integers of a block.
trait Quants: Copy {
    const FORMAT: BlockFormat;

    /// Returns a vector of the integers, as f32, from element `first` on.
    ///
    /// # Safety
    /// `quants` must point to the bytes after the scale of a block, and the vector that starts at element
    /// `first` must end within the block.
    unsafe fn vector<S: Simd>(simd: S, quants: *const u8, first: usize) -> S::F32s;
}

#[derive(Clone, Copy)]
struct Q8;
#[derive(Clone, Copy)]
struct Q4;

impl Quants for Q8 {
    const FORMAT: BlockFormat = BlockFormat::Q8_0;

    #[inline(always)]
    unsafe fn vector<S: Simd>(simd: S, quants: *const u8, first: usize) -> S::F32s {
        // SAFETY: guaranteed by the caller.
        unsafe { simd.load_i8(quants.add(first)) }
    }
}

impl Quants for Q4 {
    const FORMAT: BlockFormat = BlockFormat::Q4_0;

    #[inline(always)]
    unsafe fn vector<S: Simd>(simd: S, quants: *const u8, first: usize) -> S::F32s {
        let from = quants.wrapping_add(first % 16);
        // SAFETY: guaranteed by the caller; a vector has at most 16 lanes.
        unsafe { simd.load_nibbles(from, first >= 16) }
    }
}

/// Returns the scale of a block in all lanes.
///
/// # Safety
/// `block` must be valid for reads of a block.
#[inline(always)]
unsafe fn scale<S: Simd>(simd: S, block: *const u8) -> S::F32s {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let bits = u16::from_le(block.cast::<u16>().read_unaligned());
        simd.splat_f16(bits)
    }
}

/// Contiguous blocks.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    pub(crate) format: BlockFormat,
    pub(crate) start: *const u8,
}

/// Writes the numbers of `count` blocks as f32.
///
/// # Safety
/// `blocks` must be valid for reads of `count` blocks, and `to` for writes of their elements.
#[inline(always)]
pub(crate) unsafe fn unpack<S: Simd>(simd: S, blocks: Blocks, count: usize, to: *mut f32) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match blocks.format {
            BlockFormat::Q8_0 => unpack_of::<S, Q8>(simd, blocks.start, count, to),
            BlockFormat::Q4_0 => unpack_of::<S, Q4>(simd, blocks.start, count, to),
        }
    }
}

/// # Safety
/// Same as [`unpack`].
#[inline(always)]
unsafe fn unpack_of<S: Simd, Q: Quants>(simd: S, blocks: *const u8, count: usize, to: *mut f32) {
    for i in 0..count {
        let (block, to) = (blocks.wrapping_add(i * Q::FORMAT.block_bytes()), to.wrapping_add(i * BLOCK));
        // SAFETY: guaranteed by the caller.
        unsafe {
            let scale = scale(simd, block);
            let mut first = 0;
            while first < BLOCK {
                let vector = Q::vector(simd, block.add(2), first);
                simd.store(to.add(first), simd.mul(scale, vector));
                first += S::LANES;
            }
        }
    }
}

/// Computes `target = rows · right`, where the blocks of column j of `right` start `j·stride` bytes after
/// those of column 0. Rows are contiguous.
///
/// # Safety
/// `rows`, `right` and `target` must be valid for `count <= FEW_ROWS` rows, `depth` contracted indices, a
/// multiple of [`BLOCK`], and the target's columns. Nothing else may access the target. `rows.step` must be
/// 1.
#[inline(always)]
pub(crate) unsafe fn dots_of_blocks<S: Simd>(
    simd: S,
    count: usize,
    depth: usize,
    rows: Rows,
    right: Blocks,
    stride: usize,
    target: TileTarget,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match right.format {
            BlockFormat::Q8_0 => {
                let right = BlockColumns::<Q8> { start: right.start, stride, quants: PhantomData };
                each_group(simd, count, depth, rows, right, target);
            }
            BlockFormat::Q4_0 => {
                let right = BlockColumns::<Q4> { start: right.start, stride, quants: PhantomData };
                each_group(simd, count, depth, rows, right, target);
            }
        }
    }
}

/// Columns of blocks that start `stride` bytes apart.
#[derive(Clone, Copy)]
struct BlockColumns<Q> {
    start: *const u8,
    stride: usize,
    quants: PhantomData<Q>,
}

impl<Q: Quants> Columns for BlockColumns<Q> {
    #[inline(always)]
    fn from(self, column: usize) -> Self {
        Self { start: self.start.wrapping_add(column * self.stride), ..self }
    }

    #[inline(always)]
    unsafe fn dots<S: Simd, const R: usize, const C: usize>(
        self,
        simd: S,
        depth: usize,
        rows: Rows,
        target: TileTarget,
    ) {
        let BlockColumns { start, stride, quants: _ } = self;
        let lanes = S::LANES;
        let mut sums = [[simd.splat(0.0); C]; R];
        let (mut p, mut blocks) = (0, start);
        // SAFETY: guaranteed by the caller.
        unsafe {
            while p < depth {
                for c in 0..C {
                    let block = blocks.wrapping_add(c * stride);
                    // Prefetch explicitly, because columns are too short for the hardware prefetcher.
                    prefetch(block.wrapping_add(GROUP * stride));
                    let mut parts = [simd.splat(0.0); R];
                    let mut first = 0;
                    while first < BLOCK {
                        let quants = Q::vector(simd, block.add(2), first);
                        for r in 0..R {
                            let left = simd.load(rows.at(r, p + first).start);
                            parts[r] = match first {
                                0 => simd.mul(left, quants),
                                _ => simd.mul_add(left, quants, parts[r]),
                            };
                        }
                        first += lanes;
                    }
                    let scale = scale(simd, block);
                    for r in 0..R {
                        sums[r][c] = simd.mul_add(scale, parts[r], sums[r][c]);
                    }
                }
                p += BLOCK;
                blocks = blocks.wrapping_add(Q::FORMAT.block_bytes());
            }
            for r in 0..R {
                for c in 0..C {
                    *target.row(r).wrapping_add(c) = simd.sum(sums[r][c]);
                }
            }
        }
    }
}

/// Packs columns of blocks that start `stride` bytes apart, as [`pack_transposed`] does.
///
/// # Safety
/// Each column of `right` must be valid for reads of `depth` elements, a multiple of [`BLOCK`], and `to` for
/// writes of `depth` times the padded number of columns.
#[inline(always)]
pub(crate) unsafe fn pack_blocks<S: Simd>(
    simd: S,
    columns: usize,
    depth: usize,
    right: Blocks,
    stride: usize,
    to: *mut f32,
) {
    // Buffer for one block of each column of a panel.
    let mut square = [0.0; 2 * WIDEST * BLOCK];
    let from = square.as_mut_ptr();
    let row = |j: usize| from.wrapping_add(j * BLOCK).cast_const();
    for (start, width) in panels(columns, S::LANES) {
        let used = width.min(columns - start);
        for p in (0..depth).step_by(BLOCK) {
            let at = p / BLOCK * right.format.block_bytes();
            for j in 0..used {
                let block = right.start.wrapping_add((start + j) * stride + at);
                // SAFETY: guaranteed by the caller; a panel has at most two of the widest vectors.
                unsafe { unpack(simd, Blocks { start: block, ..right }, 1, from.wrapping_add(j * BLOCK)) };
            }
            // SAFETY: guaranteed by the caller; the columns of `square` are those of one panel.
            unsafe {
                pack_transposed(simd, used, BLOCK, row, 1, to.wrapping_add(start * depth + p * width));
            }
        }
    }
}
