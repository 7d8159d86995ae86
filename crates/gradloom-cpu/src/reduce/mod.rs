//! Reductions over any axes of a strided operand.
//!
//! In: one operand. Out: its elements combined along the reduced axes, contiguous. Always holds: elements are
//! combined in a fixed tree (Higham, "The accuracy of floating point summation", 1993: pairwise summation
//! with blocks), so the error of a float32 sum grows with the logarithm of its length and the bits do not
//! depend on threads or on the instruction set; a NaN anywhere gives NaN.

mod arg;
pub(crate) mod combine;
mod split;
#[cfg(test)]
mod tests;

use super::InstructionSet;
use super::kernel::{Call, Prepared, Trap};
use super::strided_reader::{BLOCK, Buffer};
pub(super) use arg::prepare_arg;
use combine::{Reducer, columns, row, with_reducer};
use gradloom_core::ir::ReduceOp;
use gradloom_core::kernel::Launch;
use split::{COLUMN_LEAF, Direction, PARTIALS, STRIP, Split};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Prepares `Reduce`.
pub(super) fn prepare(
    launch: &Launch,
    op: ReduceOp,
    axes: &[usize],
    level: InstructionSet,
) -> Box<dyn Prepared> {
    with_reducer!(op, launch.reads[0].dtype, F => Box::new(Reduce::<F>::new(launch, axes, level)))
}

struct Reduce<F: Reducer> {
    split: Split,
    walk: Walk<F>,
    write_offset: usize,
}

/// The inner loops, for the machine's instruction set.
struct Walk<F: Reducer> {
    row: unsafe fn(usize, *const F::T) -> F::T,
    columns: unsafe fn(usize, *const F::T, *mut F::T),
}

impl<F: Reducer> Reduce<F> {
    fn new(launch: &Launch, axes: &[usize], level: InstructionSet) -> Self {
        let write = &launch.writes[0];
        debug_assert!(write.layout.is_contiguous());
        Self {
            split: Split::new(&launch.reads[0], axes, false),
            walk: Walk { row: row::<F>(level), columns: columns::<F>(level) },
            write_offset: write.layout.offset,
        }
    }
}

impl<F: Reducer> Prepared for Reduce<F> {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        let split = &self.split;
        if split.chunks == 1 {
            call.pool.run(split.tasks(), &|task| {
                // SAFETY: the operand's layout lies in its buffer; strips of outputs are disjoint.
                unsafe { self.walk.reduce(split, task, call.read(0, 0), call.write(0, self.write_offset)) };
            });
            return Ok(());
        }
        let mut partials = [const { MaybeUninit::<F::T>::uninit() }; PARTIALS];
        let partials = Partials(partials.as_mut_ptr().cast::<F::T>());
        call.pool.run(split.tasks(), &|task| {
            let chunk = task / split.strips;
            // SAFETY: as above, with a row of partial results for each chunk; there are at most PARTIALS of
            // them in all.
            unsafe {
                self.walk.reduce(split, task, call.read(0, 0), partials.get().add(chunk * split.outputs))
            };
        });
        for output in 0..split.outputs {
            // SAFETY: every task has written its strip of its chunk's row.
            unsafe {
                let combined =
                    tree::<F>(&|chunk| *partials.get().add(chunk * split.outputs + output), 0..split.chunks);
                call.write::<F::T>(0, self.write_offset).add(output).write(combined);
            }
        }
        Ok(())
    }
}

/// The address of the tasks' partial results.
struct Partials<T>(*mut T);

// SAFETY: only an address; see `Reduce::run` for the elements that its tasks write.
unsafe impl<T> Sync for Partials<T> {}

impl<T> Partials<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Combines numbered values pairwise.
fn tree<F: Reducer>(value: &dyn Fn(usize) -> F::T, range: Range<usize>) -> F::T {
    match range.len() {
        0 => F::IDENTITY,
        1 => value(range.start),
        n => {
            let middle = range.start + n.div_ceil(2);
            F::combine(tree::<F>(value, range.start..middle), tree::<F>(value, middle..range.end))
        }
    }
}

/// Returns the position at which to split `n > leaf` elements in two: near the middle, at a multiple of
/// `leaf`.
fn middle(n: usize, leaf: usize) -> usize {
    n.div_ceil(leaf).div_ceil(2) * leaf
}

impl<F: Reducer> Walk<F> {
    /// Reduces a task's chunk of its strip of outputs, and writes the results at the outputs' places in `to`.
    ///
    /// # Safety
    /// `from` is the operand's buffer; `to` takes all outputs, and overlaps no element of the operand.
    unsafe fn reduce(&self, split: &Split, task: usize, from: *const u8, to: *mut F::T) {
        let (outputs, reduced) = split.ranges(task);
        let mut buffer = Buffer::new();
        // SAFETY: the ranges are those of the split, so all positions are within the source.
        unsafe {
            match split.direction {
                _ if reduced.is_empty() => outputs.for_each(|output| to.add(output).write(F::IDENTITY)),
                Direction::Rows => {
                    for output in outputs {
                        let start = output * split.reduced + reduced.start;
                        to.add(output).write(self.row(split, start, reduced.len(), from, &mut buffer));
                    }
                }
                Direction::Columns => {
                    for start in outputs.clone().step_by(STRIP) {
                        let width = STRIP.min(outputs.end - start);
                        let mut running = [F::IDENTITY; STRIP];
                        self.strip(
                            split,
                            start..start + width,
                            reduced.clone(),
                            from,
                            &mut running,
                            &mut buffer,
                        );
                        std::ptr::copy_nonoverlapping(running.as_ptr(), to.add(start), width);
                    }
                }
            }
        }
    }

    /// Reduces `count` elements from a position of a source that walks along rows.
    ///
    /// # Safety
    /// `from` is the operand's buffer; `start + count` is at most its number of elements.
    unsafe fn row(
        &self,
        split: &Split,
        start: usize,
        count: usize,
        from: *const u8,
        buffer: &mut Buffer,
    ) -> F::T {
        // SAFETY: the caller's promise holds for both halves.
        unsafe {
            if count <= BLOCK {
                return (self.row)(count, split.source.stage(from, start, count, buffer).cast());
            }
            let left = middle(count, BLOCK);
            let first = self.row(split, start, left, from, buffer);
            F::combine(first, self.row(split, start + left, count - left, from, buffer))
        }
    }

    /// Reduces a range of the rows of a strip of outputs into `running`, which starts as the identity.
    ///
    /// # Safety
    /// `from` is the operand's buffer; the ranges are within the split's, and there are at most [`STRIP`]
    /// outputs.
    unsafe fn strip(
        &self,
        split: &Split,
        outputs: Range<usize>,
        rows: Range<usize>,
        from: *const u8,
        running: &mut [F::T; STRIP],
        buffer: &mut Buffer,
    ) {
        let width = outputs.len();
        // SAFETY: the caller's promise holds for both halves; `running` has STRIP elements.
        unsafe {
            if rows.len() <= COLUMN_LEAF {
                for row in rows {
                    let staged = split.source.stage(from, row * split.outputs + outputs.start, width, buffer);
                    (self.columns)(width, staged.cast(), running.as_mut_ptr());
                }
                return;
            }
            let cut = rows.start + middle(rows.len(), COLUMN_LEAF);
            self.strip(split, outputs.clone(), rows.start..cut, from, running, buffer);
            let mut second = [F::IDENTITY; STRIP];
            self.strip(split, outputs, cut..rows.end, from, &mut second, buffer);
            (self.columns)(width, second.as_ptr(), running.as_mut_ptr());
        }
    }
}
