//! Blocks of an operand's rows in shared memory, as vectors of four elements padded with zeros.

use super::super::super::ir::ValueType;
use super::super::{Builder, Value};
use super::rows::Rows;
use crate::narrow::narrow;
use gradloom_core::kernel::AttentionTile;

/// Number of vectors that an invocation loads before it stores them.
const AHEAD: usize = 4;

/// Shared memory for a block of rows.
pub(super) struct RowBlock<'k> {
    k: &'k Builder,
    array: u32,
    rows: usize,
    /// Number of elements of a row.
    width: usize,
}

/// Rows of an operand to load into a block.
pub(super) struct Window<'k> {
    /// Index of the first row.
    pub(super) first: Value<'k>,
    /// Index of the first row that is filled with zeros.
    pub(super) end: Value<'k>,
    /// Number of rows of the operand.
    pub(super) count: usize,
}

impl<'k> RowBlock<'k> {
    pub(super) fn new(k: &'k Builder, rows: usize, width: usize) -> Self {
        let array = k.shared(ValueType::Vector(4), narrow(rows * AttentionTile::pitch(width)));
        Self { k, array, rows, width }
    }

    /// Returns the number of vectors of a row.
    pub(super) fn vectors(&self) -> usize {
        self.width.div_ceil(4)
    }

    /// Returns the stride between rows, in vectors.
    pub(super) fn pitch(&self) -> u32 {
        narrow(AttentionTile::pitch(self.width))
    }

    /// Loads the vector at index `place` of a row; larger indices continue in the next row.
    pub(super) fn vector(&self, row: Value<'k>, place: Value<'k>) -> Value<'k> {
        self.k.element(self.array, row * self.pitch() + place)
    }

    /// Loads rows with `threads` threads; `start` returns the index of a row's first element.
    pub(super) fn fill(
        &self,
        threads: usize,
        operand: Rows<'k, '_>,
        window: &Window<'k>,
        start: &dyn Fn(Value<'k>) -> Value<'k>,
    ) {
        let k = self.k;
        let (vectors, total) = (narrow(self.vectors()), self.rows * self.vectors());
        let last = k.u32(narrow(window.count) - 1);
        let turns: Vec<usize> = (0..total.div_ceil(threads)).collect();
        for turns in turns.chunks(AHEAD) {
            let load = |&turn: &usize| {
                let own = k.local() + narrow(turn * threads);
                let is_inside = ((turn + 1) * threads > total).then(|| own.below(narrow(total)));
                let at = is_inside.map_or(own, |_| own.min(k.u32(narrow(total) - 1)));
                let row = window.first + at / vectors;
                let value = self.load(operand, start(row.min(last)), at % vectors * 4);
                let value = row.less(window.end).select(value, k.f32(0.0).splat());
                (is_inside, at / vectors * self.pitch() + at % vectors, value)
            };
            let loaded: Vec<_> = turns.iter().map(load).collect();
            for (is_inside, place, value) in loaded {
                k.guard([is_inside], || k.set_element(self.array, place, value));
            }
        }
    }

    /// Loads four elements, from a column on, of the row whose first element is at `start`. Elements beyond
    /// the row's end are zero.
    fn load(&self, operand: Rows<'k, '_>, start: Value<'k>, column: Value<'k>) -> Value<'k> {
        let k = self.k;
        let elements = [0, 1, 2, 3].map(|i| {
            let at = column + i;
            if (i as usize) < self.width - 4 * (self.vectors() - 1) {
                return operand.load(start, at);
            }
            let value = operand.load(start, at.min(k.u32(narrow(self.width) - 1)));
            at.below(narrow(self.width)).select(value, k.f32(0.0))
        });
        k.vector(&elements)
    }
}
