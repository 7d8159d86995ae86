//! Extents and ranges as users write them, with -1 for an inferred extent and negative indices that count
//! from the end.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::ir::Shape;

/// A number of elements, or the index of an element.
pub trait Extent: Copy {
    /// Returns the number, or `i64::MAX` if an i64 cannot represent it.
    fn number(self) -> i64;
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Extent for $ty {
            fn number(self) -> i64 {
                self.try_into().unwrap_or(i64::MAX)
            }
        }
    )*};
}
numbers!(usize, isize, i32);

/// The extents of a shape, one of which may be -1 and is then inferred from the others.
pub trait Extents {
    /// Returns the extents in the order of the axes.
    fn list(&self) -> Vec<i64>;
}

impl<T: Extent> Extents for &[T] {
    fn list(&self) -> Vec<i64> {
        self.iter().map(|extent| extent.number()).collect()
    }
}

impl<T: Extent, const N: usize> Extents for [T; N] {
    fn list(&self) -> Vec<i64> {
        self.as_slice().list()
    }
}

impl<T: Extent> Extents for Vec<T> {
    fn list(&self) -> Vec<i64> {
        self.as_slice().list()
    }
}

impl Extents for Shape {
    fn list(&self) -> Vec<i64> {
        (&self[..]).list()
    }
}

impl<E: Extents> Extents for &E {
    fn list(&self) -> Vec<i64> {
        (*self).list()
    }
}

/// A range along an axis; negative indices count from the end.
pub trait Span {
    /// Returns the start and the exclusive end, each of which is `None` if the range is unbounded on that
    /// side.
    fn bounds(&self) -> [Option<i64>; 2];
}

fn bounds<T: Extent>(range: &impl RangeBounds<T>) -> [Option<i64>; 2] {
    let first = match range.start_bound() {
        Bound::Included(n) => Some(n.number()),
        Bound::Excluded(n) => Some(n.number().saturating_add(1)),
        Bound::Unbounded => None,
    };
    let end = match range.end_bound() {
        // The range `..=-1` includes the last element, so it has no end.
        Bound::Included(n) => Some(n.number().saturating_add(1)).filter(|&end| end != 0 || n.number() >= 0),
        Bound::Excluded(n) => Some(n.number()),
        Bound::Unbounded => None,
    };
    [first, end]
}

macro_rules! spans {
    ($($range:ident),*) => {$(
        impl<T: Extent> Span for $range<T> {
            fn bounds(&self) -> [Option<i64>; 2] {
                bounds(self)
            }
        }
    )*};
}
spans!(Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive);

impl Span for RangeFull {
    fn bounds(&self) -> [Option<i64>; 2] {
        [None; 2]
    }
}
