//! Access to the operands of a product.

use super::Product;
use super::grid::Tile;
use crate::narrow::narrow;
use crate::product::Side;
use crate::simt::{Builder, Role, Value, ValueType};
use gradloom_core::ir::DType;

/// Operand of a product, restricted to a workgroup's tile.
#[derive(Clone, Copy)]
pub(super) struct TiledOperand<'k> {
    pub(super) k: &'k Builder,
    read: usize,
    dtype: DType,
    pub(super) side: Side,
    /// True if groups of four elements along the contiguous axis are loaded as vectors.
    pub(super) has_fours: bool,
    /// Index of the matrix's first element.
    start: Value<'k>,
    /// Index of the tile's first row (or column).
    pub(super) first: Value<'k>,
}

impl<'k> TiledOperand<'k> {
    /// Returns the left and the right operand.
    pub(super) fn both(k: &'k Builder, product: &Product<'_>, tile: &Tile<'k>) -> [Self; 2] {
        let sides = Side::both(product.problem);
        let firsts = [tile.first_row, tile.first_column];
        [0, 1].map(|read| Self {
            k,
            read,
            dtype: product.views.reads[read].dtype,
            side: sides[read],
            has_fours: sides[read].has_fours && product.views.reads[read].has_vectors,
            start: tile.starts[read],
            first: firsts[read],
        })
    }

    /// Returns `true` if some tiles of `extent` rows (or columns) are incomplete.
    pub(super) fn has_edge(&self, extent: u32) -> bool {
        !self.side.free.is_multiple_of(extent as usize)
    }

    /// Returns the index of the first element of a row (or column).
    pub(super) fn row(&self, free: Value<'k>) -> Value<'k> {
        self.start + free * narrow(self.side.view.free_stride)
    }

    /// Returns the index of a term of the row whose first element is at `row`.
    pub(super) fn term(&self, row: Value<'k>, term: Value<'k>) -> Value<'k> {
        row + term * narrow(self.side.view.contract_stride)
    }

    /// Loads the element at an index.
    pub(super) fn element(&self, index: Value<'k>) -> Value<'k> {
        self.k.load(self.k.buffer(Role::Operand(self.read), self.dtype), index)
    }

    /// Loads four adjacent elements as f32. `index` must be a multiple of four.
    pub(super) fn four(&self, index: Value<'k>) -> Value<'k> {
        self.stored_four(index).to_vector()
    }

    /// Loads four adjacent elements as stored: f32 or 16-bit floats.
    pub(super) fn stored_four(&self, index: Value<'k>) -> Value<'k> {
        let four = ValueType::four(self.dtype);
        self.k.load(self.k.buffer(Role::Operand(self.read), four), index / 4)
    }

    /// Loads eight adjacent elements as stored, in two vectors of four. `index` must be a multiple of eight.
    pub(super) fn stored_eight(&self, index: Value<'k>) -> [Value<'k>; 2] {
        let buffer = self.k.buffer(Role::Operand(self.read), ValueType::Half8(self.dtype));
        self.k.load(buffer, index / 8).fours()
    }

    /// Loads two adjacent elements as f32. `index` must be a multiple of two.
    pub(super) fn two(&self, index: Value<'k>) -> Value<'k> {
        let two = ValueType::two(self.dtype);
        self.k.load(self.k.buffer(Role::Operand(self.read), two), index / 2).to_vector()
    }
}
