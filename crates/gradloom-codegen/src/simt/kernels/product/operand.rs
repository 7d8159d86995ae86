//! Reads of an operand of a product.

use super::Product;
use super::grid::Tile;
use crate::narrow::narrow;
use crate::product::Side;
use crate::simt::{Builder, Role, Value, ValueType};
use gradloom_core::ir::DType;

/// An operand, as a workgroup reads it.
#[derive(Clone, Copy)]
pub(super) struct TiledOperand<'k> {
    pub(super) k: &'k Builder,
    read: usize,
    dtype: DType,
    pub(super) side: Side,
    /// True if groups of four along the side's axis are loaded whole.
    pub(super) has_fours: bool,
    /// First element of the matrix.
    start: Value<'k>,
    /// Number of the tile's first row (or column).
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

    /// Returns true if tiles of `extent` rows (or columns) reach beyond the last.
    pub(super) fn has_edge(&self, extent: u32) -> bool {
        !self.side.free.is_multiple_of(extent as usize)
    }

    /// Returns the index of the first element of a row (or column).
    pub(super) fn row(&self, free: Value<'k>) -> Value<'k> {
        self.start + free * narrow(self.side.view.free_stride)
    }

    /// Returns the index of a term of a row that starts at an index.
    pub(super) fn term(&self, row: Value<'k>, term: Value<'k>) -> Value<'k> {
        row + term * narrow(self.side.view.contract_stride)
    }

    /// Loads the element at an index.
    pub(super) fn element(&self, index: Value<'k>) -> Value<'k> {
        self.k.load(self.k.buffer(Role::Operand(self.read), self.dtype), index)
    }

    /// Loads four neighbours from an index on, a multiple of four.
    pub(super) fn four(&self, index: Value<'k>) -> Value<'k> {
        self.stored_four(index).to_vector()
    }

    /// Loads four neighbours as they are stored: f32, or floats of 16 bits.
    pub(super) fn stored_four(&self, index: Value<'k>) -> Value<'k> {
        let four = ValueType::four(self.dtype);
        self.k.load(self.k.buffer(Role::Operand(self.read), four), index / 4)
    }

    /// Loads eight neighbours from an index on, a multiple of eight, as they are stored: two fours.
    pub(super) fn stored_eight(&self, index: Value<'k>) -> [Value<'k>; 2] {
        let buffer = self.k.buffer(Role::Operand(self.read), ValueType::Half8(self.dtype));
        self.k.load(buffer, index / 8).fours()
    }

    /// Loads two neighbours from an index on, a multiple of two.
    pub(super) fn two(&self, index: Value<'k>) -> Value<'k> {
        let two = ValueType::two(self.dtype);
        self.k.load(self.k.buffer(Role::Operand(self.read), two), index / 2).to_vector()
    }
}
