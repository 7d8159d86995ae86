//! Scatter: adds updates to rows selected by index, or writes them there.
//!
//! In: x `[batch.., rows, row..]`, indices `[batch.., index..]` and updates `[batch.., index.., row..]`. Out:
//! x with the updates, contiguous, possibly in place. Invariant: each element is modified by a single
//! task, in the order of the updates. Tasks are ranges of columns, or ranges of rows if rows are short.

use super::indices::{Indices, Places};
use super::{Call, Prepared, Tasks, Trap};
use crate::movement::CopyLoop;
use crate::work::GRAIN;
use gradloom_core::ir::{DType, ScatterOp};
use gradloom_core::kernel::Launch;
use std::ops::Range;

/// Number of tasks that a large scatter is split into.
const TASKS: usize = 16;
/// Minimum number of elements of a row per task: four cache lines, so that tasks seldom share one.
const LEAST_COLUMNS: usize = 64;

/// Returns a kernel for a `Scatter` launch.
pub(crate) fn prepare(launch: &Launch, op: ScatterOp, batch: usize) -> Box<dyn Prepared> {
    let [x, index, updates] = [0, 1, 2].map(|read| &launch.reads[read]);
    let write = &launch.writes[0];
    let shape = &x.layout.shape;
    let batches: usize = shape[..batch].iter().product();
    let row_elements: usize = shape[batch + 1..].iter().product();
    let per_batch = index.layout.shape.elements() / batches.max(1);

    let wanted = (per_batch * batches * row_elements).div_ceil(GRAIN).min(TASKS).div_ceil(batches.max(1));
    let column_pieces = wanted.min(row_elements.div_ceil(LEAST_COLUMNS)).max(1);
    let row_pieces = (wanted / column_pieces).clamp(1, shape[batch].max(1));
    let index_rank = index.layout.shape.rank();
    Box::new(Scatter {
        op,
        indices: Indices::new(1, index, shape[batch]),
        per_batch,
        batches,
        rows: shape[batch],
        row_elements,
        columns_per_task: row_elements.div_ceil(column_pieces).next_multiple_of(16),
        rows_per_task: shape[batch].div_ceil(row_pieces).max(1),
        copy: CopyLoop::new(&x.layout, &write.layout, write.dtype.bytes()),
        same_layout: x.layout == write.layout,
        updates_offset: updates.layout.offset,
        update_places: Places::new(&updates.layout, 0, index_rank),
        element_places: Places::new(&updates.layout, index_rank, updates.layout.shape.rank()),
        result: write.layout.offset,
        dtype: write.dtype,
    })
}

struct Scatter {
    op: ScatterOp,
    indices: Indices,
    /// Number of updates per batch.
    per_batch: usize,
    batches: usize,
    rows: usize,
    row_elements: usize,
    columns_per_task: usize,
    rows_per_task: usize,
    /// Copy of x to the result.
    copy: CopyLoop,
    same_layout: bool,
    updates_offset: usize,
    update_places: Places,
    element_places: Places,
    /// Offset of the result.
    result: usize,
    dtype: DType,
}

/// Phase 0 checks the indices and copies x, phase 1 combines.
impl Tasks for Scatter {
    fn phases(&self) -> usize {
        2
    }

    fn count(&self, phase: usize) -> usize {
        match phase {
            0 => self.checks() + self.copy.tasks(),
            _ => {
                let columns = self.row_elements.div_ceil(self.columns_per_task);
                self.batches * self.rows.div_ceil(self.rows_per_task) * columns
            }
        }
    }

    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, task: usize) {
        // SAFETY: the layouts are those of the launch, whose result overlaps x only if it is in place.
        unsafe {
            match (phase, task.checked_sub(self.checks())) {
                (0, None) => self.indices.check(call, task),
                (0, Some(task)) => {
                    if !self.same_layout || call.reads[0] != call.writes[0].cast_const() {
                        self.copy.run_task(task, call.reads[0], call.writes[0]);
                    }
                }
                _ => self.combine_task(call, task),
            }
        }
    }

    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        if phase == 0 { self.indices.outcome(call) } else { Ok(()) }
    }
}

impl Scatter {
    /// Returns the number of tasks that check indices.
    fn checks(&self) -> usize {
        if self.op == ScatterOp::Distinct { 0 } else { self.indices.tasks() }
    }

    /// Combines updates with the rows and columns of a task.
    ///
    /// # Safety
    /// `call` must be a call of this kernel whose indices have been checked. Each task must run at most once.
    unsafe fn combine_task(&self, call: &Call<'_>, task: usize) {
        let columns = self.row_elements.div_ceil(self.columns_per_task);
        let ranges = self.rows.div_ceil(self.rows_per_task);
        let (rest, column) = (task / columns, task % columns);
        let (batch, range) = (rest / ranges, rest % ranges);
        let (row, column) = (range * self.rows_per_task, column * self.columns_per_task);
        let rows = row..(row + self.rows_per_task).min(self.rows);
        let columns = column..(column + self.columns_per_task).min(self.row_elements);
        // SAFETY: the indices were checked, or `combine` skips those out of range; the rows and columns of a
        // task belong to it alone.
        unsafe {
            match (self.op, self.dtype) {
                (ScatterOp::Add, DType::F32) => {
                    self.combine(call, batch, &rows, &columns, |a: f32, b: f32| a + b);
                }
                (ScatterOp::Add, _) => self.combine(call, batch, &rows, &columns, u32::wrapping_add),
                (ScatterOp::Set | ScatterOp::Distinct, DType::Bool | DType::U8) => {
                    self.combine(call, batch, &rows, &columns, |_: u8, b: u8| b);
                }
                (ScatterOp::Set | ScatterOp::Distinct, DType::F16 | DType::BF16) => {
                    self.combine(call, batch, &rows, &columns, |_: u16, b: u16| b);
                }
                (ScatterOp::Set | ScatterOp::Distinct, _) => {
                    self.combine(call, batch, &rows, &columns, |_: u32, b: u32| b);
                }
            }
        }
    }

    /// Combines updates with the given columns of the given rows.
    ///
    /// # Safety
    /// `rows` and `columns` must lie in the result, no other task may access these elements, and `T` must be
    /// the element type.
    unsafe fn combine<T: Copy>(
        &self,
        call: &Call<'_>,
        batch: usize,
        rows: &Range<usize>,
        columns: &Range<usize>,
        with: impl Fn(T, T) -> T + Copy,
    ) {
        for update in batch * self.per_batch..(batch + 1) * self.per_batch {
            // SAFETY: the update is below the number of indices. An index out of range is in no range of
            // rows.
            let row = unsafe { self.indices.row(call, update) };
            if !rows.contains(&row) {
                continue;
            }
            let from = call.read::<T>(2, self.updates_offset + self.update_places.at(update));
            let to = call.write::<T>(0, self.result + (batch * self.rows + row) * self.row_elements);
            self.element_places.stretches(columns.start, columns.end, |position, place, stride, count| {
                let (from, to) = (from.wrapping_add(place), to.wrapping_add(position));
                // SAFETY: a stretch lies within the row on both sides; the updates do not overlap the result.
                unsafe {
                    match stride {
                        1 => (0..count).for_each(|i| *to.add(i) = with(*to.add(i), *from.add(i))),
                        _ => (0..count).for_each(|i| *to.add(i) = with(*to.add(i), *from.add(i * stride))),
                    }
                }
            });
        }
    }
}
