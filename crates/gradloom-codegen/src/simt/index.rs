//! Indices of elements in buffers, from positions and coordinates.

use super::builder::{Builder, Value};
use crate::narrow::narrow;
use gradloom_core::kernel::Layout;

/// Returns the index of the element at a row-major position of a layout.
pub fn index_at<'k>(k: &'k Builder, layout: &Layout, position: Value<'k>) -> Value<'k> {
    let axes = layout.collapsed();
    let mut index = k.u32(narrow(layout.offset));
    let mut inner = 1;
    for (i, &(extent, stride)) in axes.iter().enumerate().rev() {
        let outer = position / narrow(inner);
        let coordinate = if i > 0 { outer % narrow(extent) } else { outer };
        index = index + coordinate * narrow(stride);
        inner *= extent;
    }
    index
}

/// Returns the index of the element at coordinates of a layout, one per axis.
pub fn index_of<'k>(k: &'k Builder, layout: &Layout, coordinates: &[Value<'k>]) -> Value<'k> {
    let mut index = k.u32(narrow(layout.offset));
    for ((&coordinate, &stride), &extent) in coordinates.iter().zip(&layout.strides).zip(layout.shape.iter())
    {
        if extent > 1 {
            index = index + coordinate * narrow(stride);
        }
    }
    index
}

/// Returns the axes `start..end` of a layout, with an offset of 0.
pub(crate) fn axes(layout: &Layout, start: usize, end: usize) -> Layout {
    Layout::new(0, layout.shape[start..end].into(), layout.strides[start..end].to_vec())
}

/// Returns the index of the element at a row and a column of a layout of `rows * columns` elements.
pub(crate) fn index_at_row<'k>(
    k: &'k Builder,
    layout: &Layout,
    [rows, columns]: [usize; 2],
    [row, column]: [Value<'k>; 2],
) -> Value<'k> {
    match layout.reshape(&[rows, columns].into()) {
        Some(grid) => index_of(k, &grid, &[row, column]),
        None => index_at(k, layout, row * narrow(columns) + column),
    }
}
