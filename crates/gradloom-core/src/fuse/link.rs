//! The relation of a view's elements to those of its source value.

use crate::kernel::Layout;

/// The order of a view's elements relative to its source value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// The same elements in the same order.
    Same,
    /// Each of the `rows` elements, repeated `columns` times in succession.
    Rows { rows: usize, columns: usize },
    /// A single element, repeated.
    Splat,
    /// Any other order, which requires the value to be in memory.
    Other,
}

impl Link {
    /// Returns the link of a view with this layout to a contiguous value of `elements` elements.
    pub(super) fn of(layout: &Layout, elements: usize) -> Self {
        if layout.is_contiguous() && layout.shape.elements() == elements {
            return Link::Same;
        }
        if elements == 1 {
            return Link::Splat;
        }
        match layout.collapsed()[..] {
            [(rows, 1), (columns, 0)] if rows == elements => Link::Rows { rows, columns },
            _ => Link::Other,
        }
    }
}

/// Returns the layout of the first element of each row if every row of `columns` elements repeats one
/// element.
pub(super) fn row_layout(layout: &Layout, columns: usize) -> Option<Layout> {
    let mut left = columns;
    let mut axis = layout.shape.rank();
    while left > 1 {
        axis = axis.checked_sub(1)?;
        let extent = layout.shape[axis];
        if !left.is_multiple_of(extent) || (extent > 1 && layout.strides[axis] != 0) {
            return None;
        }
        left /= extent;
    }
    let shape: Vec<usize> = layout.shape[..axis].to_vec();
    Some(Layout::new(layout.offset, shape.into(), layout.strides[..axis].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Shape;

    #[test]
    fn views_are_told_apart() {
        let column = Layout::contiguous(&[6, 1].into());
        assert_eq!(Link::of(&column.reshape(&[2, 3].into()).unwrap(), 6), Link::Same);
        assert_eq!(Link::of(&column.broadcast(&[6, 4].into()), 6), Link::Rows { rows: 6, columns: 4 });
        let row = Layout::contiguous(&[1, 6].into());
        assert_eq!(Link::of(&row.broadcast(&[4, 6].into()), 6), Link::Other);
        assert_eq!(Link::of(&row.permute(&[1, 0]), 6), Link::Same);
        assert_eq!(Link::of(&row.slice(&[0, 0], &[1, 3], &[1, 1]), 6), Link::Other);
        assert_eq!(Link::of(&Layout::splat(&[4, 6].into()), 1), Link::Splat);
        assert_eq!(Link::of(&Layout::contiguous(&Shape::scalar()), 1), Link::Same);
    }

    #[test]
    fn rows_that_repeat_one_element() {
        let column = Layout::contiguous(&[2, 3, 1].into()).broadcast(&[2, 3, 4].into());
        assert_eq!(row_layout(&column, 4), Some(Layout::contiguous(&[2, 3].into())));
        assert_eq!(row_layout(&column, 12), None);
        assert_eq!(row_layout(&column, 8), None);
        assert_eq!(row_layout(&Layout::contiguous(&[2, 3].into()), 3), None);
    }
}
