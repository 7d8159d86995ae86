//! One thread's block of a product.
//!
//! In: a rectangle of the product, by addresses. Out: its elements in the target, strip by strip of rows;
//! each finished strip is handed to the epilogue while it is in the cache. Always holds: each element is a
//! sum in the order of the contracted index, in blocks of it that the extents alone determine.

use crate::matrix::blocks::{Blocks, dots_of_blocks, pack_blocks};
use crate::matrix::few::{add_rows, dots};
use crate::matrix::pack::{pack_rows, pack_stepped, pack_transposed};
use crate::matrix::stored::Stored;
use crate::matrix::stored::{Bf16, F16, pack_stored};
use crate::matrix::tile::{Columns, Rows, Steps, TileTarget, panel};
use crate::simd::{Simd, Vectorized};
use gradloom_codegen::cpu::{FEW_ROWS, Form};
use gradloom_codegen::product::{MatrixView, SteppedView};
use gradloom_core::ir::BLOCK;
use std::ops::Range;

/// An operand: element (free i, contracted p) is at `start + i·free_stride + p·contract_stride`.
#[derive(Clone, Copy)]
pub(super) struct MatrixOperand {
    start: *const f32,
    free_stride: usize,
    contract_stride: usize,
}

impl MatrixOperand {
    pub(super) fn new(start: *const f32, view: MatrixView) -> Self {
        Self { start, free_stride: view.free_stride, contract_stride: view.contract_stride }
    }

    /// Returns the same operand, starting at a later element.
    pub(super) fn from(&self, free: usize, contract: usize) -> Self {
        Self { start: self.at(free, contract), ..*self }
    }

    #[inline(always)]
    fn at(&self, free: usize, contract: usize) -> *const f32 {
        self.start.wrapping_add(free * self.free_stride + contract * self.contract_stride)
    }
}

/// A right operand whose indices take several strides, of which a block begins at a column and a depth.
#[derive(Clone, Copy)]
pub(super) struct Stepped<'a> {
    pub(super) start: *const f32,
    pub(super) steps: &'a SteppedView,
    pub(super) column: usize,
    pub(super) depth: usize,
    /// Offset of each of the block's contracted indices from `start`, if the operand is read in place.
    pub(super) row_offsets: Option<&'a [usize]>,
}

/// A right operand that is not f32, from a block's first column and contracted index on.
#[derive(Clone, Copy)]
pub(super) struct StoredOperand {
    pub(super) start: *const u8,
    pub(super) form: Form,
}

impl StoredOperand {
    /// Returns the bytes from the first element of a column to that of a contracted index, which begins a
    /// block.
    pub(super) fn bytes_to(form: Form, contract: usize, contract_stride: usize) -> usize {
        match form {
            Form::Blocks(format) => contract / BLOCK * format.block_bytes(),
            Form::F32 | Form::F16 | Form::Bf16 => contract * contract_stride * size_of::<u16>(),
        }
    }
}

/// The target of a product.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// Address of its first element.
    pub(super) start: *mut f32,
    /// Distance between rows; columns are neighbours.
    pub(super) row_stride: usize,
    /// True if there is room for only one block of rows, which is then handed on before the next one is
    /// computed.
    pub(super) reused: bool,
}

/// A block, and the action after each of its strips: `finish` gets a range of the block's rows and the
/// address where their product starts.
pub(super) struct ProductBlock<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    pub(super) left: MatrixOperand,
    pub(super) right: MatrixOperand,
    pub(super) product: Product,
    /// Rows that are taken through all columns together.
    pub(super) row_block: usize,
    /// Contracted indices that are taken together.
    pub(super) depth_block: usize,
    /// True if the operands may not fit in the second-level cache.
    pub(super) far: bool,
    /// Room for the packed right operand, if it is packed.
    pub(super) packed_right: Option<*mut f32>,
    /// Right operand, if its contracted indices take several strides; `right` is not read then.
    pub(super) stepped: Option<Stepped<'a>>,
    /// The right operand, if it is not f32, with the strides of `right`, which is not read then.
    pub(super) stored: Option<StoredOperand>,
    pub(super) finish: &'a mut dyn FnMut(Range<usize>, *const f32),
}

impl Vectorized for ProductBlock<'_> {
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // SAFETY: the maker of the block promises that the operands have its rows, columns and depth, that
        // the scratch has room for them, and that nothing else touches product and scratch.
        unsafe { self.multiply(simd) }
    }
}

impl ProductBlock<'_> {
    /// # Safety
    /// The operands must lead to the block's elements, the scratch must have room for what is packed, and
    /// nothing else may touch the scratch and the product.
    #[inline(always)]
    unsafe fn multiply<S: Simd>(&mut self, simd: S) {
        if self.rows <= FEW_ROWS && self.packed_right.is_none() && self.stepped.is_none() {
            // SAFETY: as promised by the caller.
            return unsafe { self.few_rows(simd) };
        }
        let together = if self.packed_right.is_some() { self.rows } else { self.row_block };
        let mut start = 0;
        while start < self.rows {
            let rows = start..(start + together).min(self.rows);
            start = rows.end;
            let mut depth = 0..self.depth_block.min(self.depth);
            loop {
                // SAFETY: as promised by the caller.
                unsafe { self.depth_block(simd, &rows, &depth) };
                if depth.end == self.depth {
                    break;
                }
                depth = depth.end..(depth.end + self.depth_block).min(self.depth);
            }
        }
    }

    /// Adds a block of contracted indices to some rows; after the last one, they are finished.
    ///
    /// # Safety
    /// As [`ProductBlock::multiply`].
    #[inline(always)]
    unsafe fn depth_block<S: Simd>(&mut self, simd: S, rows: &Range<usize>, depth: &Range<usize>) {
        if let Some(to) = self.packed_right {
            simd.vectorize(PackRight { block: self, depth, to });
        }
        let mut start = rows.start;
        while start < rows.end {
            let rows = start..(start + self.row_block).min(rows.end);
            let first = if self.product.reused { 0 } else { rows.start };
            let product = self.product.start.wrapping_add(first * self.product.row_stride);
            // SAFETY: as promised by the caller.
            unsafe { self.row_block(simd, &rows, depth, product) };
            start = rows.end;
            if depth.end == self.depth {
                (self.finish)(rows, product);
            }
        }
    }

    /// Computes all of a block of few rows.
    ///
    /// # Safety
    /// As [`ProductBlock::multiply`].
    #[inline(always)]
    unsafe fn few_rows<S: Simd>(&mut self, simd: S) {
        let Self { left, right, rows: count, columns, depth, product, .. } = *self;
        let rows = Rows { start: left.start, row_stride: left.free_stride, step: left.contract_stride };
        let target = TileTarget {
            start: product.start,
            row_stride: product.row_stride,
            columns,
            padded: false,
            accumulate: false,
        };
        // SAFETY: as promised by the caller; the plan leaves a right operand in place only if its rows or,
        // with those of the left one, its columns are contiguous.
        unsafe {
            match self.stored {
                Some(StoredOperand { form: Form::F16, start }) => {
                    few_rows_of(simd, count, depth, rows, start.cast::<F16>(), right, target);
                }
                Some(StoredOperand { form: Form::Bf16, start }) => {
                    few_rows_of(simd, count, depth, rows, start.cast::<Bf16>(), right, target);
                }
                Some(StoredOperand { form: Form::Blocks(format), start }) => {
                    let blocks = Blocks { format, start };
                    dots_of_blocks(simd, count, depth, rows, blocks, right.free_stride, target);
                }
                _ => few_rows_of(simd, count, depth, rows, right.start, right, target),
            }
        }
        (self.finish)(0..count, product.start);
    }

    /// # Safety
    /// As [`ProductBlock::multiply`].
    #[inline(always)]
    unsafe fn pack_right<S: Simd>(&self, simd: S, depth: &Range<usize>, to: *mut f32) {
        if let Some(Stepped { start, steps, column, depth: first, .. }) = self.stepped {
            let contract = |p| SteppedView::offset(&steps.contract, first + depth.start + p);
            let free = |j| SteppedView::offset(&steps.free, column + j);
            // SAFETY: as promised by the caller.
            return unsafe { pack_stepped(simd, [depth.len(), self.columns], start, contract, free, to) };
        }
        let right = self.right;
        if let Some(StoredOperand { form, start }) = self.stored {
            let from = start.wrapping_add(StoredOperand::bytes_to(form, depth.start, right.contract_stride));
            let (columns, depth) = (self.columns, depth.len());
            let strides = [right.free_stride, right.contract_stride];
            // SAFETY: as promised by the caller; blocks of contracted indices begin at blocks of numbers.
            return unsafe {
                match form {
                    Form::F16 => pack_stored(simd, columns, depth, from.cast::<F16>(), strides, to),
                    Form::Bf16 => pack_stored(simd, columns, depth, from.cast::<Bf16>(), strides, to),
                    Form::Blocks(format) => {
                        let blocks = Blocks { format, start: from };
                        pack_blocks(simd, columns, depth, blocks, right.free_stride, to);
                    }
                    _ => unreachable!("f32 is no other form"),
                }
            };
        }
        // SAFETY: as promised by the caller.
        unsafe {
            if right.contract_stride == 1 && right.free_stride != 1 {
                pack_transposed(simd, self.columns, depth.len(), |j| right.at(j, depth.start), 1, to);
            } else {
                let row = |p| right.at(0, depth.start + p);
                pack_rows(simd, depth.len(), self.columns, row, right.free_stride, to);
            }
        }
    }

    /// Computes the product of some rows with all columns, over a range of contracted indices.
    ///
    /// # Safety
    /// As [`ProductBlock::multiply`].
    #[inline(always)]
    unsafe fn row_block<S: Simd>(
        &self,
        simd: S,
        rows: &Range<usize>,
        depth: &Range<usize>,
        product: *mut f32,
    ) {
        let left = self.left;
        let left = Rows {
            start: left.at(rows.start, depth.start),
            row_stride: left.free_stride,
            step: left.contract_stride,
        };
        let panel_width = 2 * S::LANES;
        let padded = self.columns.next_multiple_of(S::LANES);
        let mut column = 0;
        while column < self.columns {
            let mut count = (self.columns - column).min(panel_width);
            let (start, steps) = match (self.packed_right, &self.stepped) {
                (Some(packed), _) => (
                    packed.wrapping_add(column * depth.len()).cast_const(),
                    Steps::Equal((padded - column).min(panel_width)),
                ),
                (None, Some(Stepped { start, steps, column: first, row_offsets: Some(offsets), .. })) => {
                    let free = first + column;
                    let run = steps.free.last().map_or(1, |axis| axis.0);
                    count = count.min(run - free % run);
                    let start = start.wrapping_add(SteppedView::offset(&steps.free, free));
                    (start, Steps::Table(&offsets[depth.clone()]))
                }
                (None, _) => (self.right.at(column, depth.start), Steps::Equal(self.right.contract_stride)),
            };
            let columns = Columns { start, steps, count, far: self.far };
            let target = TileTarget {
                start: product.wrapping_add(column),
                row_stride: self.product.row_stride,
                columns: count,
                padded: false,
                accumulate: depth.start > 0,
            };
            // SAFETY: as promised by the caller.
            unsafe { panel(simd, rows.len(), depth.len(), left, columns, target) };
            column += count;
        }
    }
}

/// Packing, by itself: what is long is made fast late where code is compiled while it runs.
struct PackRight<'a, 'b> {
    block: &'a ProductBlock<'b>,
    depth: &'a Range<usize>,
    to: *mut f32,
}

impl Vectorized for PackRight<'_, '_> {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: as promised by the maker of the block.
        unsafe { self.block.pack_right(simd, self.depth, self.to) }
    }
}

/// Computes all of a block of few rows, whose right operand has contiguous rows or columns.
///
/// # Safety
/// As [`ProductBlock::multiply`].
#[inline(always)]
unsafe fn few_rows_of<S: Simd, E: Stored>(
    simd: S,
    count: usize,
    depth: usize,
    rows: Rows,
    start: *const E,
    right: MatrixOperand,
    target: TileTarget,
) {
    simd.vectorize(FewRows { count, depth, rows, start, right, target });
}

/// The operands of [`few_rows_of`], whose code is long.
struct FewRows<E> {
    count: usize,
    depth: usize,
    rows: Rows,
    start: *const E,
    right: MatrixOperand,
    target: TileTarget,
}

impl<E: Stored> Vectorized for FewRows<E> {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { count, depth, rows, start, right, target } = self;
        // SAFETY: as promised to `few_rows_of`.
        unsafe {
            if right.free_stride == 1 {
                add_rows(simd, count, depth, rows, start, right.contract_stride, target);
            } else {
                dots(simd, count, depth, rows, start, right.free_stride, target);
            }
        }
    }
}
