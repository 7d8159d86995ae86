//! Gather: copies rows selected by index.
//!
//! In: x `[batch.., rows, row..]` and indices `[batch.., index..]`. Out: the selected rows
//! `[batch.., index.., row..]`, contiguous.

use super::indices::{Indices, Places};
use super::{Call, Prepared, Tasks, Trap};
use crate::work::GRAIN;
use gradloom_core::kernel::Launch;

/// Returns a kernel for a `Gather` launch.
pub(crate) fn prepare(launch: &Launch, batch: usize) -> Box<dyn Prepared> {
    let (x, index, write) = (&launch.reads[0], &launch.reads[1], &launch.writes[0]);
    let rank = x.layout.shape.rank();
    let row_elements: usize = x.layout.shape[batch + 1..].iter().product();
    let batches: usize = x.layout.shape[..batch].iter().product();
    let chunk = row_elements.clamp(1, GRAIN);
    Box::new(Gather {
        indices: Indices::new(1, index, x.layout.shape[batch]),
        indices_per_batch: index.layout.shape.elements() / batches.max(1),
        total_rows: index.layout.shape.elements(),
        row_elements,
        chunk,
        rows_per_task: (GRAIN / chunk).max(1),
        offset: x.layout.offset,
        batch_places: Places::new(&x.layout, 0, batch),
        row_stride: x.layout.strides[batch],
        element_places: Places::new(&x.layout, batch + 1, rank),
        result: write.layout.offset,
        element_bytes: write.dtype.bytes(),
    })
}

struct Gather {
    indices: Indices,
    indices_per_batch: usize,
    total_rows: usize,
    row_elements: usize,
    /// Number of elements of each row that a task copies.
    chunk: usize,
    rows_per_task: usize,
    offset: usize,
    batch_places: Places,
    /// Stride between rows of x.
    row_stride: usize,
    element_places: Places,
    /// Offset of the result.
    result: usize,
    element_bytes: usize,
}

/// Phase 0 checks the indices, phase 1 copies.
impl Tasks for Gather {
    fn phases(&self) -> usize {
        2
    }

    fn count(&self, phase: usize) -> usize {
        match phase {
            0 => self.indices.tasks(),
            _ => self.total_rows.div_ceil(self.rows_per_task) * self.row_elements.div_ceil(self.chunk),
        }
    }

    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, task: usize) {
        if phase == 0 {
            return self.indices.check(call, task);
        }
        let chunks = self.row_elements.div_ceil(self.chunk);
        let first = task / chunks * self.rows_per_task;
        let start = task % chunks * self.chunk;
        for row in first..(first + self.rows_per_task).min(self.total_rows) {
            // SAFETY: the indices were checked; the task's elements lie in the row, and no other task writes
            // them. Every bit pattern is a valid u8, u16 or u32.
            unsafe {
                match self.element_bytes {
                    1 => self.copy::<u8>(call, row, start),
                    2 => self.copy::<u16>(call, row, start),
                    _ => self.copy::<u32>(call, row, start),
                }
            }
        }
    }

    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        if phase == 0 { self.indices.outcome(call) } else { Ok(()) }
    }
}

impl Gather {
    /// Copies the elements of a row from `start` on, at most a chunk of them.
    ///
    /// # Safety
    /// `call` must be a call of this kernel whose indices have been checked, `row` and `start` must lie in
    /// the result, no other task may access the elements copied, and `T` must have the size of an element.
    unsafe fn copy<T: Copy>(&self, call: &Call<'_>, row: usize, start: usize) {
        // SAFETY: guaranteed by the caller.
        let number = unsafe { self.indices.row(call, row) };
        let batch = self.batch_places.at(row / self.indices_per_batch);
        let from = call.read::<T>(0, self.offset + batch + number * self.row_stride);
        let to = call.write::<T>(0, self.result + row * self.row_elements);
        let end = (start + self.chunk).min(self.row_elements);
        self.element_places.stretches(start, end, |position, place, stride, count| {
            let (from, to) = (from.wrapping_add(place), to.wrapping_add(position));
            // SAFETY: a stretch lies within the row on both sides.
            unsafe {
                match stride {
                    1 => to.copy_from_nonoverlapping(from, count),
                    _ => (0..count).for_each(|i| *to.add(i) = *from.add(i * stride)),
                }
            }
        });
    }
}
