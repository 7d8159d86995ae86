//! The last phase of a launch, after all tasks: combines partial results of columns and writes uniform
//! results.
//!
//! In: the partial results of each panel of rows. Out: results. Invariant: panels are combined in order.

use super::program::Program;
use crate::elementwise::Operand;
use crate::index::Places;
use std::ops::Range;

/// Number of columns per task.
const PIECE: usize = 2048;
/// Number of columns combined at a time, on the stack.
const CHUNK: usize = 256;

impl Program {
    /// Sets the partial results of some columns to the result of an empty reduction.
    ///
    /// # Safety
    /// `partials` must point to the partial results of a panel of the body, in which `columns` must lie.
    /// Nothing else may access these columns.
    pub(crate) unsafe fn start_partials(&self, partials: *mut u8, columns: Range<usize>) {
        for result in &self.column_results {
            let first = partials.wrapping_add(result.offset).cast::<u32>();
            // SAFETY: there is a partial result for each column.
            columns.clone().for_each(|column| unsafe { first.add(column).write(result.reduction.identity) });
            if let Some(total) = result.total {
                let totals = partials.wrapping_add(total).cast::<f64>();
                // SAFETY: there is also a total for each column.
                columns.clone().for_each(|column| unsafe { totals.add(column).write(0.0) });
            }
        }
    }

    /// Adds the partial results of some columns to their totals in f64, and resets them.
    ///
    /// # Safety
    /// Same as [`Program::start_partials`], which must have initialized the columns.
    pub(super) unsafe fn add_to_totals(&self, partials: *mut u8, columns: &Range<usize>) {
        for result in &self.column_results {
            let Some(total) = result.total else { continue };
            let count = columns.len();
            // SAFETY: there is a partial result and a total for each column.
            let (sums, totals) = unsafe {
                let sums = partials.add(result.offset).cast::<f32>().add(columns.start);
                let totals = partials.add(total).cast::<f64>().add(columns.start);
                (std::slice::from_raw_parts_mut(sums, count), std::slice::from_raw_parts_mut(totals, count))
            };
            for (sum, total) in sums.iter_mut().zip(totals) {
                *total += f64::from(*sum);
                *sum = f32::from_bits(result.reduction.identity);
            }
        }
    }

    /// Returns the number of tasks of [`Program::finish`].
    pub(crate) fn finish_tasks(&self) -> usize {
        if self.column_results.is_empty() {
            return usize::from(!self.uniform_results.is_empty());
        }
        self.columns.div_ceil(PIECE).max(1)
    }

    /// Returns the approximate duration of a task of [`Program::finish`], in nanoseconds.
    pub(crate) fn finish_cost(&self, panels: usize) -> usize {
        100 + panels * self.columns.min(PIECE) * self.column_results.len() / 8
    }

    /// Combines the partial results of all panels, which lie one after another in memory. The first task also
    /// writes the uniform results.
    ///
    /// # Safety
    /// `writes` must meet the requirements documented on [`Call`](crate::Call) for the launch that the
    /// program was compiled from. `partials` must point to the partial results of `panels` panels, the first
    /// of which contains row 0, and all blocks of the launch must have run. `task` must be less than
    /// [`Program::finish_tasks`], and each task must run at most once.
    #[expect(clippy::cast_possible_truncation, reason = "a sum is rounded once, at its end")]
    pub(crate) unsafe fn finish(&self, writes: &[*mut u8], partials: *const u8, panels: usize, task: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if task == 0 {
                for result in &self.uniform_results {
                    let to = writes[result.write].add(result.write_offset * result.bytes);
                    std::ptr::copy_nonoverlapping(partials.add(result.offset), to, result.bytes);
                }
            }
            let end = ((task + 1) * PIECE).min(self.columns);
            for (result, places) in self.column_results.iter().zip(&self.columns_at) {
                let to = writes[result.write].cast::<u32>().wrapping_add(result.write_offset);
                for start in (task * PIECE..end).step_by(CHUNK) {
                    let count = CHUNK.min(end - start);
                    let mut combined = [result.reduction.identity; CHUNK];
                    let first = partials.add(result.offset + 4 * start);
                    if let Some(total) = result.total {
                        for (column, combined) in combined[..count].iter_mut().enumerate() {
                            let sum = |panel: usize| {
                                let panel = partials.add(panel * self.partials);
                                let rest = panel.add(result.offset).cast::<f32>().add(start + column);
                                let total = panel.add(total).cast::<f64>().add(start + column);
                                total.read() + f64::from(rest.read())
                            };
                            *combined = ((0..panels).map(sum).sum::<f64>() as f32).to_bits();
                        }
                    } else {
                        let operand = Operand { start: first, row_stride: self.partials, repeated: false };
                        (self.reductions[result.reduction.number].columns)(
                            panels,
                            count,
                            &operand,
                            combined.as_mut_ptr().cast(),
                        );
                    }
                    put(&combined[..count], places, start, to);
                }
            }
        }
    }
}

/// # Safety
/// `to` must be valid for writes at the places of the `elements.len()` positions from `start` on.
unsafe fn put(elements: &[u32], places: &Places, start: usize, to: *mut u32) {
    places.stretches(start, start + elements.len(), |position, place, stride, count| {
        for i in 0..count {
            // SAFETY: guaranteed by the caller.
            unsafe { to.add(place + i * stride).write(elements[position - start + i]) };
        }
    });
}
