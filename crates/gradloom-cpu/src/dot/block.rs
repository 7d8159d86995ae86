//! A block of a matrix product that one thread computes.
//!
//! In: a rectangle of the product, by addresses. Out: its elements in the target, strip by strip of rows;
//! each finished strip is passed to the epilogue while it is in the cache. Invariant: each element is
//! summed in the order of the contracted index, in blocks that depend on the extents alone.

use crate::matrix::blocks::{Blocks, dots_of_blocks, pack_blocks};
use crate::matrix::few::{add_rows, dots};
use crate::matrix::pack::{pack_rows, pack_stepped, pack_transposed};
use crate::matrix::rounded::{Arithmetic, round_in_place};
use crate::matrix::stored::Stored;
use crate::matrix::stored::{Bf16, F16, pack_stored};
use crate::matrix::tile::{Columns, Rows, Steps, TileTarget, panel};
#[cfg(target_arch = "x86_64")]
use crate::matrix::{pack::panels, tile::Panels};
use crate::simd::{Simd, Vectorized, WIDEST};
use gradloom_codegen::cpu::{FEW_ROWS, Form};
use gradloom_codegen::product::{MatrixView, SteppedView};
use gradloom_core::ir::BLOCK;
use std::ops::Range;

/// An operand whose element (free index i, contracted index p) is at
/// `start + i·free_stride + p·contract_stride`.
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

    /// Returns the operand that starts at the given free and contracted index.
    pub(super) fn from(&self, free: usize, contract: usize) -> Self {
        Self { start: self.at(free, contract), ..*self }
    }

    #[inline(always)]
    fn at(&self, free: usize, contract: usize) -> *const f32 {
        self.start.wrapping_add(free * self.free_stride + contract * self.contract_stride)
    }
}

/// A right operand whose free and contracted indices each span several axes. The block starts at `column` and
/// `depth`.
#[derive(Clone, Copy)]
pub(super) struct Stepped<'a> {
    pub(super) start: *const f32,
    pub(super) steps: &'a SteppedView,
    pub(super) column: usize,
    pub(super) depth: usize,
    /// Offset from `start` of each of the block's contracted indices, if the operand is read in place.
    pub(super) row_offsets: Option<&'a [usize]>,
}

/// A right operand that is not stored as f32, starting at a block's first column and contracted index.
#[derive(Clone, Copy)]
pub(super) struct StoredOperand {
    pub(super) start: *const u8,
    pub(super) form: Form,
}

impl StoredOperand {
    /// Returns the number of bytes from the first element of a column to its element at a contracted index.
    /// In a block format, the index must be at the start of a block.
    pub(super) fn bytes_to(form: Form, contract: usize, contract_stride: usize) -> usize {
        match form {
            Form::Blocks(format) => contract / BLOCK * format.block_bytes(),
            Form::F32 | Form::F16 | Form::Bf16 => contract * contract_stride * size_of::<u16>(),
        }
    }
}

/// Memory of a packed operand.
#[derive(Clone, Copy)]
pub(super) enum Packed {
    /// Buffer of the task, which packs a block before it reads it.
    Own(*mut f32),
    /// Memory with all blocks of the operand, which other tasks have packed.
    Shared(SharedOperand),
}

/// An operand that is packed for all tasks, from a task's first free and contracted index on.
#[derive(Clone, Copy)]
pub(super) struct SharedOperand {
    /// Address of the packed operand.
    pub(super) start: *mut f32,
    /// Number of contracted indices of the operand.
    pub(super) extent: usize,
    /// First row or column of the task.
    pub(super) free: usize,
    /// First contracted index of the task.
    pub(super) depth: usize,
}

impl SharedOperand {
    /// Returns the address of a block of `count` rows or padded columns. It starts `free` of them and `depth`
    /// contracted indices after the task's first.
    pub(super) fn block(&self, free: usize, count: usize, depth: usize) -> *mut f32 {
        self.start.wrapping_add((self.free + free) * self.extent + (self.depth + depth) * count)
    }
}

/// Rounding of both operands to bf16 while they are packed.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "f32 is rounded where it is packed"))]
pub(super) struct Rounding {
    pub(super) arithmetic: Arithmetic,
    /// Memory of the packed left operand; that of the task has room for a block of rows.
    pub(super) left: Packed,
    /// Buffer for a panel of the right operand that is not yet rounded.
    pub(super) panel: *mut f32,
}

/// Destination of a product.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// Address of the first element.
    pub(super) start: *mut f32,
    /// Stride between rows, in elements. The elements of a row are contiguous.
    pub(super) row_stride: usize,
    /// True if there is room for only one block of rows, which is passed to `finish` before the next one is
    /// computed.
    pub(super) reused: bool,
}

/// A block of a product, and the action after each of its strips: `finish` receives a range of the block's
/// rows and the address at which their product starts.
pub(super) struct ProductBlock<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    pub(super) left: MatrixOperand,
    pub(super) right: MatrixOperand,
    pub(super) product: Product,
    /// Number of rows processed together over all columns.
    pub(super) row_block: usize,
    /// Number of contracted indices processed together.
    pub(super) depth_block: usize,
    /// True if the operands may not fit in the second-level cache.
    pub(super) far: bool,
    /// Memory of the packed right operand, if it is packed.
    pub(super) packed_right: Option<Packed>,
    /// The rounding of the operands, if they are rounded; the right one is then packed.
    pub(super) rounding: Option<Rounding>,
    /// The right operand, if its contracted indices span several axes; `right` is then not read.
    pub(super) stepped: Option<Stepped<'a>>,
    /// The right operand, if it is not stored as f32. It has the strides of `right`, which is then not read.
    pub(super) stored: Option<StoredOperand>,
    pub(super) finish: &'a mut dyn FnMut(Range<usize>, *const f32),
}

impl Vectorized for ProductBlock<'_> {
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // SAFETY: the creator of the block guarantees that the operands have its rows, columns and depth,
        // that the scratch has room for them, and that nothing else accesses the product or the scratch.
        unsafe { self.multiply(simd) }
    }
}

impl ProductBlock<'_> {
    /// # Safety
    /// `left` and the right operand that is read (`stored`, `stepped` or `right`) must be valid for reads of
    /// the block's elements, buffers of the task for writes of a packed block, and `product` for writes of
    /// the product. Nothing else may access these buffers and `product`. Shared operands must have been
    /// packed.
    #[inline(always)]
    unsafe fn multiply<S: Simd>(&mut self, simd: S) {
        if self.rows <= FEW_ROWS && self.packed_right.is_none() && self.stepped.is_none() {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.few_rows(simd) };
        }
        let together = if self.packed_right.is_some() { self.rows } else { self.row_block };
        let mut start = 0;
        while start < self.rows {
            let rows = start..(start + together).min(self.rows);
            start = rows.end;
            let mut depth = 0..self.depth_block.min(self.depth);
            loop {
                // SAFETY: guaranteed by the caller.
                unsafe { self.depth_block(simd, &rows, &depth) };
                if depth.end == self.depth {
                    break;
                }
                depth = depth.end..(depth.end + self.depth_block).min(self.depth);
            }
        }
    }

    /// Accumulates a block of contracted indices into some rows, and passes the rows to `finish` after the
    /// last block.
    ///
    /// # Safety
    /// Same as [`ProductBlock::multiply`].
    #[inline(always)]
    unsafe fn depth_block<S: Simd>(&mut self, simd: S, rows: &Range<usize>, depth: &Range<usize>) {
        let packed = self.packed_right.map(|packed| match packed {
            Packed::Own(to) => {
                simd.vectorize(Pack { block: self, operand: 1, depth, to });
                to.cast_const()
            }
            Packed::Shared(shared) => shared.block(0, padded(self.columns), depth.start),
        });
        let mut start = rows.start;
        while start < rows.end {
            let rows = start..(start + self.row_block).min(rows.end);
            let first = if self.product.reused { 0 } else { rows.start };
            let product = self.product.start.wrapping_add(first * self.product.row_stride);
            // SAFETY: guaranteed by the caller.
            unsafe { self.row_block(simd, &rows, depth, packed, product) };
            start = rows.end;
            if depth.end == self.depth {
                (self.finish)(rows, product);
            }
        }
    }

    /// Computes a whole block that has few rows.
    ///
    /// # Safety
    /// Same as [`ProductBlock::multiply`].
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
        // SAFETY: guaranteed by the caller; the plan leaves a right operand in place only if its rows are
        // contiguous, or if its columns and the left operand's rows are.
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

    /// Packs all columns of the right operand, rounded if operands are.
    ///
    /// # Safety
    /// Same as [`ProductBlock::multiply`].
    #[inline(always)]
    unsafe fn pack_right<S: Simd>(&self, simd: S, depth: &Range<usize>, to: *mut f32) {
        // SAFETY: guaranteed by the caller; a packed operand has whole vectors of columns.
        unsafe {
            match self.rounding {
                #[cfg(target_arch = "x86_64")]
                Some(Rounding { arithmetic: Arithmetic::Pairs(bf16), panel, .. }) => {
                    let (right, length) = (self.right, depth.len());
                    let start = right.at(0, depth.start);
                    let is_plain = self.stepped.is_none() && self.stored.is_none();
                    let extents = [self.columns, length];
                    if is_plain && right.free_stride == 1 {
                        let row = |p| start.wrapping_add(p * right.contract_stride);
                        bf16.pack_right_rows(extents, row, to);
                    } else if is_plain && right.contract_stride == 1 {
                        let column = |j| start.wrapping_add(j * right.free_stride);
                        bf16.pack_right_columns(extents, column, to);
                    } else {
                        for (start, width) in panels(self.columns, S::LANES) {
                            let columns = start..(start + width).min(self.columns);
                            self.pack_columns(simd, &columns, depth, panel);
                            let to = to.wrapping_add(start * length.div_ceil(2));
                            let row = |p| panel.wrapping_add(p * width).cast_const();
                            bf16.pack_right_rows([columns.len(), length], row, to);
                        }
                    }
                }
                Some(_) => {
                    self.pack_columns(simd, &(0..self.columns), depth, to);
                    round_in_place(self.columns.next_multiple_of(S::LANES) * depth.len(), to);
                }
                None => self.pack_columns(simd, &(0..self.columns), depth, to),
            }
        }
    }

    /// Packs some columns of the right operand.
    ///
    /// # Safety
    /// Same as [`ProductBlock::multiply`].
    #[inline(always)]
    unsafe fn pack_columns<S: Simd>(
        &self,
        simd: S,
        columns: &Range<usize>,
        depth: &Range<usize>,
        to: *mut f32,
    ) {
        let count = columns.len();
        if let Some(Stepped { start, steps, column, depth: first, .. }) = self.stepped {
            let contract = |p| SteppedView::offset(&steps.contract, first + depth.start + p);
            let free = |j| SteppedView::offset(&steps.free, column + columns.start + j);
            // SAFETY: guaranteed by the caller.
            return unsafe { pack_stepped(simd, [depth.len(), count], start, contract, free, to) };
        }
        let right = self.right;
        if let Some(StoredOperand { form, start }) = self.stored {
            let unit = if matches!(form, Form::Blocks(_)) { 1 } else { size_of::<u16>() };
            let from = start
                .wrapping_add(columns.start * right.free_stride * unit)
                .wrapping_add(StoredOperand::bytes_to(form, depth.start, right.contract_stride));
            let (columns, depth) = (count, depth.len());
            let strides = [right.free_stride, right.contract_stride];
            // SAFETY: guaranteed by the caller; ranges of contracted indices start at the boundaries of
            // stored blocks.
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
        // SAFETY: guaranteed by the caller.
        unsafe {
            if right.contract_stride == 1 && right.free_stride != 1 {
                let row = |j| right.at(columns.start + j, depth.start);
                pack_transposed(simd, count, depth.len(), row, 1, to);
            } else {
                let row = |p| right.at(columns.start, depth.start + p);
                pack_rows(simd, depth.len(), count, row, right.free_stride, to);
            }
        }
    }

    /// Returns some rows of the left operand.
    fn left_rows(&self, first: usize, depth: &Range<usize>) -> Rows {
        let left = self.left;
        let start = left.at(first, depth.start);
        Rows { start, row_stride: left.free_stride, step: left.contract_stride }
    }

    /// Computes the product of some rows with all columns, over a range of contracted indices, of which
    /// `packed` is the right operand if it is packed.
    ///
    /// # Safety
    /// Same as [`ProductBlock::multiply`].
    #[inline(always)]
    unsafe fn row_block<S: Simd>(
        &self,
        simd: S,
        rows: &Range<usize>,
        depth: &Range<usize>,
        packed: Option<*const f32>,
        product: *mut f32,
    ) {
        let mut left = self.left_rows(rows.start, depth);
        if let Some(Rounding { arithmetic, left: memory, .. }) = self.rounding {
            let (extents, is_contiguous) = ([rows.len(), depth.len()], left.step == 1);
            let start = match memory {
                Packed::Own(to) => {
                    // SAFETY: guaranteed by the caller.
                    unsafe { arithmetic.pack_rows(extents, left, to) };
                    to
                }
                Packed::Shared(shared) => shared.block(rows.start, rows.len(), depth.start),
            };
            left = arithmetic.packed_rows(extents, is_contiguous, start);
            #[cfg(target_arch = "x86_64")]
            if let (Arithmetic::Pairs(bf16), Some(packed)) = (arithmetic, packed) {
                let target = TileTarget {
                    start: product,
                    row_stride: self.product.row_stride,
                    columns: self.columns,
                    padded: false,
                    accumulate: depth.start > 0,
                };
                let right = Panels { start: packed, depth: depth.len(), columns: self.columns };
                // SAFETY: guaranteed by the caller; both operands are packed for these contracted indices.
                return unsafe { bf16.multiply(extents, left, right, 0, target) };
            }
        }
        let panel_width = 2 * S::LANES;
        let padded = self.columns.next_multiple_of(S::LANES);
        let mut column = 0;
        while column < self.columns {
            let mut count = (self.columns - column).min(panel_width);
            let (start, steps) = match (packed, &self.stepped) {
                (Some(packed), _) => (
                    packed.wrapping_add(column * depth.len()),
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
            // SAFETY: guaranteed by the caller.
            unsafe { panel(simd, rows.len(), depth.len(), left, columns, target) };
            column += count;
        }
    }
}

/// Work of packing a block of an operand, which is compiled as a separate function because engines that
/// compile at run time optimize long functions late.
///
/// The creator guarantees that the operand is valid for reads, that `to` is valid for writes of the packed
/// block, and that nothing else accesses that memory.
pub(super) struct Pack<'a, 'b> {
    pub(super) block: &'a ProductBlock<'b>,
    /// Index of the operand, of which all rows or columns of the block are packed.
    pub(super) operand: usize,
    pub(super) depth: &'a Range<usize>,
    pub(super) to: *mut f32,
}

impl Vectorized for Pack<'_, '_> {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { block, depth, to, .. } = self;
        // SAFETY: as guaranteed by the creator of the block.
        unsafe {
            match (self.operand, block.rounding) {
                (0, Some(Rounding { arithmetic, .. })) => {
                    arithmetic.pack_rows([block.rows, depth.len()], block.left_rows(0, depth), to);
                }
                (0, None) => unreachable!("a left operand is packed only if it is rounded"),
                _ => block.pack_right(simd, depth, to),
            }
        }
    }
}

/// Returns the number of columns of memory for `columns` packed ones, which fill whole vectors of any width.
pub(super) fn padded(columns: usize) -> usize {
    columns.next_multiple_of(WIDEST)
}

/// Computes a whole block of few rows, with a right operand whose rows or columns are contiguous.
///
/// # Safety
/// Same as [`ProductBlock::multiply`].
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

/// Operands of [`few_rows_of`], which is a separate function because its code is long.
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
        // SAFETY: guaranteed by the caller of `few_rows_of`.
        unsafe {
            if right.free_stride == 1 {
                add_rows(simd, count, depth, rows, start, right.contract_stride, target);
            } else {
                dots(simd, count, depth, rows, start, right.free_stride, target);
            }
        }
    }
}
