//! Code shared by `Gather` and `Scatter`: the locations of rows, and the check of indices.
//!
//! In: layouts. Out: places by row-major position, and indices that have been checked.

use super::{Call, FirstFault, Trap};
use crate::work::GRAIN;
use gradloom_core::kernel::{Access, Layout};
use gradloom_device::outcome::index_out_of_range;

/// Places of elements by row-major position, over some axes of a layout.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Pairs (extent, stride), outermost first, merged as far as possible.
    axes: Vec<(usize, usize)>,
}

impl Places {
    /// Creates the places over axes `start..end` of a layout, without the layout's offset.
    pub(crate) fn new(layout: &Layout, start: usize, end: usize) -> Self {
        let part = Layout {
            offset: 0,
            shape: layout.shape[start..end].into(),
            strides: layout.strides[start..end].to_vec(),
        };
        Self { axes: part.collapsed() }
    }

    /// Returns the place of the element at a row-major position.
    #[inline]
    pub(crate) fn at(&self, mut position: usize) -> usize {
        let mut place = 0;
        for &(extent, stride) in self.axes[self.axes.len().min(1)..].iter().rev() {
            place += position % extent * stride;
            position /= extent;
        }
        place + position * self.axes.first().map_or(0, |axis| axis.1)
    }

    /// Calls `run(first position, place, stride, count)` for each stretch of evenly spaced elements in
    /// `start..end`.
    #[inline]
    pub(crate) fn stretches(
        &self,
        start: usize,
        end: usize,
        mut run: impl FnMut(usize, usize, usize, usize),
    ) {
        let (extent, stride) = self.axes.last().copied().unwrap_or((1, 1));
        let mut position = start;
        while position < end {
            let count = (extent - position % extent).min(end - position);
            run(position, self.at(position), stride, count);
            position += count;
        }
    }
}

/// The index operand: `[batch.., index..]` of i32, each of which selects one of `rows` rows.
pub(super) struct Indices {
    read: usize,
    offset: usize,
    places: Places,
    extents: Vec<usize>,
    rows: usize,
    /// First index out of range that the checks in progress have found.
    fault: FirstFault,
}

impl Indices {
    pub(super) fn new(read: usize, access: &Access, rows: usize) -> Self {
        let layout = &access.layout;
        Self {
            read,
            offset: layout.offset,
            places: Places::new(layout, 0, layout.shape.rank()),
            extents: layout.shape.to_vec(),
            rows,
            fault: FirstFault::new(),
        }
    }

    fn count(&self) -> usize {
        self.extents.iter().product()
    }

    /// Returns the index at a row-major position.
    ///
    /// # Safety
    /// `position` must be less than the number of indices.
    #[inline]
    unsafe fn value(&self, call: &Call<'_>, position: usize) -> i32 {
        // SAFETY: guaranteed by the caller.
        unsafe { *call.read::<i32>(self.read, self.offset + self.places.at(position)) }
    }

    /// Returns the row at a row-major position. For an index out of range, returns a value that is at
    /// least the number of rows; [`Indices::outcome`] rules that out.
    ///
    /// # Safety
    /// `position` must be less than the number of indices.
    #[inline]
    pub(super) unsafe fn row(&self, call: &Call<'_>, position: usize) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe { self.value(call, position) as usize }
    }

    /// Returns the number of tasks that check all indices.
    pub(super) fn tasks(&self) -> usize {
        self.count().div_ceil(GRAIN)
    }

    /// Checks the indices of a task.
    pub(super) fn check(&self, call: &Call<'_>, task: usize) {
        for position in task * GRAIN..((task + 1) * GRAIN).min(self.count()) {
            // SAFETY: `position` is below the number of indices.
            let value = unsafe { self.value(call, position) };
            if !usize::try_from(value).is_ok_and(|value| value < self.rows) {
                return self.fault.record(position);
            }
        }
    }

    /// Returns the outcome of the checks.
    ///
    /// # Errors
    /// Returns a trap for the first index that is not in `0..rows`.
    pub(super) fn outcome(&self, call: &Call<'_>) -> Result<(), Trap> {
        let Some(position) = self.fault.take() else { return Ok(()) };
        // SAFETY: a task has already read this position.
        let value = unsafe { self.value(call, position) };
        Err(Trap::new(index_out_of_range(value, &self.extents, position, self.rows)))
    }
}
