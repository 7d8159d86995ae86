//! Access to rows of operands and results.

use super::super::super::index_of;
use super::super::super::ir::{Role, ValueType};
use super::super::{Builder, Value, View};
use super::Head;
use crate::narrow::narrow;
use crate::product::rows_are_groups;
use gradloom_core::ir::DType;
use gradloom_core::kernel::Layout;

/// Operand or result with the axes sequence, head, row and column; without columns if each row has a single
/// number.
#[derive(Clone, Copy)]
pub(super) struct Rows<'k, 'b> {
    k: &'k Builder,
    buffer: u32,
    layout: &'b Layout,
    role: Role,
    dtype: DType,
    /// Number of the buffer whose items are vectors of four elements, if rows consist of whole vectors.
    fours: Option<u32>,
}

impl<'k, 'b> Rows<'k, 'b> {
    pub(super) fn new(k: &'k Builder, role: Role, view: &View<'b>) -> Self {
        let has_fours = view.has_vectors && view.dtype.is_float() && rows_are_groups(view.layout, 4);
        let fours = has_fours.then(|| k.buffer(role, ValueType::four(view.dtype)));
        Self { k, buffer: k.buffer(role, view.dtype), layout: view.layout, role, dtype: view.dtype, fours }
    }

    /// Returns the number of elements of a row.
    pub(super) fn width(&self) -> usize {
        self.layout.shape[3]
    }

    /// Returns the index of a row's first element or, if rows have no columns, of the row's number.
    pub(super) fn start(&self, [sequence, head]: Head<'k>, row: Value<'k>) -> Value<'k> {
        index_of(self.k, self.layout, &[sequence, head, row])
    }

    /// Returns the index of an element of the row whose first element is at `start`.
    fn at(&self, start: Value<'k>, column: Value<'k>) -> Value<'k> {
        start + column * narrow(self.layout.strides[3])
    }

    /// Loads an element of the row whose first element is at `start`.
    pub(super) fn load(&self, start: Value<'k>, column: Value<'k>) -> Value<'k> {
        self.number(self.at(start, column))
    }

    /// Loads the element at an index, such as a row's number.
    pub(super) fn number(&self, index: Value<'k>) -> Value<'k> {
        self.k.load(self.buffer, index)
    }

    /// Loads four adjacent elements, from a column on, of the row whose first element is at `start`, rounded
    /// to a 16-bit dtype.
    pub(super) fn halves(&self, start: Value<'k>, column: Value<'k>, half: DType) -> Value<'k> {
        let k = self.k;
        if let Some(fours) = self.fours {
            return k.load(fours, (start + column) / 4).to_half(half);
        }
        k.vector_of(&|i| self.load(start, column + i)).to_half(half)
    }

    /// Returns the buffer whose items are vectors of eight 16-bit floats, and the index in it of vector
    /// `eight` of the row whose first element is at `start`.
    pub(super) fn eight(&self, start: Value<'k>, eight: Value<'k>) -> (u32, Value<'k>) {
        (self.k.buffer(self.role, ValueType::Half8(self.dtype)), start / 8 + eight)
    }

    /// Loads four adjacent elements, from a column on, of the row whose first element is at `start`, as f32.
    /// Elements beyond the row's end are zero.
    pub(super) fn four(&self, start: Value<'k>, column: Value<'k>) -> Value<'k> {
        let (k, width) = (self.k, narrow(self.width()));
        let is_inside = column.below(width);
        let zero = k.f32(0.0);
        if let Some(fours) = self.fours {
            let at = column.min(k.u32(width - 4));
            return is_inside.select(k.load(fours, (start + at) / 4).to_vector(), zero.splat());
        }
        let element = |i: u32| {
            let at = column + i;
            at.below(width).select(self.load(start, at.min(k.u32(width - 1))), zero)
        };
        k.vector_of(&element)
    }

    /// Writes an element of the row whose first element is at `start`.
    pub(super) fn store(&self, start: Value<'k>, column: Value<'k>, value: Value<'k>) {
        self.store_number(self.at(start, column), value);
    }

    /// Writes four adjacent elements, from a column on, of the row whose first element is at `start`.
    pub(super) fn store_four(&self, start: Value<'k>, column: Value<'k>, four: Value<'k>) {
        if rows_are_groups(self.layout, 4) && self.dtype.is_float() {
            let value = if self.dtype.is_for_memory() { four.to_half(self.dtype) } else { four };
            let buffer = self.k.buffer(self.role, ValueType::four(self.dtype));
            return self.k.store(buffer, (start + column) / 4, value);
        }
        (0..4).for_each(|i| self.store(start, column + i, four.component(i)));
    }

    /// Writes the element at an index, such as a row's number.
    pub(super) fn store_number(&self, index: Value<'k>, value: Value<'k>) {
        self.k.store(self.buffer, index, value);
    }
}
