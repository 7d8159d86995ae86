//! The position of the largest or smallest element along an axis.
//!
//! In: one operand. Out: i32 positions, contiguous. Invariant: of equal elements, the first wins; the
//! first NaN wins over all numbers.

use super::combine::{Extreme, MaxF32, MaxI32, MaxU32, MinF32, MinI32, MinU32, arg_columns, row};
use crate::InstructionSet;
use crate::kernel::{Call, Prepared, Tasks};
use crate::strided_reader::{BLOCK, Buffer, StridedReader};
use crate::work::GRAIN;
use gradloom_core::ir::{ArgReduceOp, DType};
use gradloom_core::kernel::{Access, Launch, Layout};
use std::ops::Range;

/// Maximum number of outputs that a task computes together when it reads the operand by columns.
const STRIP: usize = 512;

/// Returns a kernel for an `ArgReduce` launch.
pub(crate) fn prepare_arg(
    launch: &Launch,
    op: ArgReduceOp,
    axis: usize,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    macro_rules! kernel {
        ($F:ty) => {
            Box::new(ArgReduce::<$F>::new(launch, axis, level))
        };
    }
    match (op, launch.reads[0].dtype) {
        (ArgReduceOp::ArgMax, DType::F32) => kernel!(MaxF32),
        (ArgReduceOp::ArgMax, DType::I32) => kernel!(MaxI32),
        (ArgReduceOp::ArgMax, DType::U32) => kernel!(MaxU32),
        (ArgReduceOp::ArgMin, DType::F32) => kernel!(MinF32),
        (ArgReduceOp::ArgMin, DType::I32) => kernel!(MinI32),
        (ArgReduceOp::ArgMin, DType::U32) => kernel!(MinU32),
        (_, dtype @ (DType::Bool | DType::F16 | DType::BF16 | DType::U8 | DType::I64)) => {
            panic!("gradloom launched {op:?} on {dtype} elements; please report this")
        }
    }
}

/// The direction in which a task reads the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Along the reduced axis, one output at a time.
    Rows,
    /// Across a strip of outputs, one element of the reduced axis at a time.
    Columns,
}

/// The division of an operand into tasks, which depends on its layout alone.
#[derive(Clone, Debug)]
struct Split {
    direction: Direction,
    /// The operand's elements: in the order `[outputs, reduced]` for rows, `[reduced, outputs]` for columns.
    source: StridedReader,
    outputs: usize,
    /// Number of elements per output.
    reduced: usize,
    /// Number of outputs per task; at most [`STRIP`] for columns.
    strip: usize,
}

impl Split {
    fn new(access: &Access, axis: usize) -> Self {
        let layout = &access.layout;
        let kept: Vec<usize> = (0..layout.shape.rank()).filter(|&a| a != axis).collect();
        let reduced = layout.shape[axis];
        let outputs = kept.iter().map(|&a| layout.shape[a]).product::<usize>();
        let side_by_side =
            innermost(layout, &kept).is_some_and(|(extent, stride)| stride == 1 && extent >= 8);
        let (direction, order, strip) = if outputs < 8 || (reduced >= 16 && !side_by_side) {
            let strip = (GRAIN / reduced.max(1)).clamp(1, outputs.max(1));
            (Direction::Rows, [&kept[..], &[axis]].concat(), strip)
        } else {
            // Divide the outputs into equal strips of whole cache lines, as wide as allowed.
            let strip = outputs.div_ceil(outputs.div_ceil(STRIP).max(1)).next_multiple_of(16).min(STRIP);
            (Direction::Columns, [&[axis], &kept[..]].concat(), strip)
        };
        let source = StridedReader::of_layout(&layout.permute(&order), access.dtype.bytes());
        Self { direction, source, outputs, reduced, strip }
    }

    /// Returns the outputs of a task.
    fn task(&self, task: usize) -> Range<usize> {
        task * self.strip..((task + 1) * self.strip).min(self.outputs)
    }
}

/// Returns the extent and the stride of the last of the axes that is longer than 1.
fn innermost(layout: &Layout, axes: &[usize]) -> Option<(usize, usize)> {
    axes.iter().rev().map(|&a| (layout.shape[a], layout.strides[a])).find(|&(extent, _)| extent != 1)
}

struct ArgReduce<F: Extreme> {
    split: Split,
    row: unsafe fn(usize, *const F::T) -> F::T,
    arg_columns: unsafe fn(usize, *const F::T, *mut F::T, *mut i32, i32),
    write_offset: usize,
}

impl<F: Extreme> ArgReduce<F> {
    fn new(launch: &Launch, axis: usize, level: InstructionSet) -> Self {
        let write = &launch.writes[0];
        debug_assert!(write.layout.is_contiguous());
        Self {
            split: Split::new(&launch.reads[0], axis),
            row: row::<F>(level),
            arg_columns: arg_columns::<F>(level),
            write_offset: write.layout.offset,
        }
    }

    /// Returns the position of a row's extreme element: finds the element with the fast reduction, then its
    /// position.
    ///
    /// # Safety
    /// `from` must be the operand's buffer, and the split must run along rows.
    unsafe fn row(&self, output: usize, from: *const u8, buffer: &mut Buffer) -> i32 {
        let split = &self.split;
        let start = output * split.reduced;
        // SAFETY: the row's positions lie within the source; `count` elements are staged.
        unsafe {
            let mut extreme = F::IDENTITY;
            for block in (0..split.reduced).step_by(BLOCK) {
                let count = BLOCK.min(split.reduced - block);
                let staged = split.source.stage(from, start + block, count, buffer).cast();
                extreme = F::combine(extreme, (self.row)(count, staged));
            }
            for block in (0..split.reduced).step_by(BLOCK) {
                let count = BLOCK.min(split.reduced - block);
                let staged = split.source.stage(from, start + block, count, buffer).cast::<F::T>();
                if let Some(at) = (0..count).find(|&i| F::is(*staged.add(i), extreme)) {
                    return (block + at) as i32;
                }
            }
        }
        unreachable!("the extreme of a row that is not empty is one of its elements")
    }

    /// # Safety
    /// `from` must be the operand's buffer, and the split must run along columns; `to` must have room for
    /// `width` positions.
    unsafe fn strip(&self, start: usize, width: usize, from: *const u8, to: *mut i32, buffer: &mut Buffer) {
        let split = &self.split;
        let mut best = [F::IDENTITY; STRIP];
        // SAFETY: the rows' positions lie within the source; `width <= STRIP`.
        unsafe {
            let first = split.source.stage(from, start, width, buffer);
            std::ptr::copy_nonoverlapping(first.cast(), best.as_mut_ptr(), width);
            (0..width).for_each(|i| to.add(i).write(0));
            for row in 1..split.reduced {
                let staged = split.source.stage(from, row * split.outputs + start, width, buffer);
                (self.arg_columns)(width, staged.cast(), best.as_mut_ptr(), to, row as i32);
            }
        }
    }
}

impl<F: Extreme> Tasks for ArgReduce<F> {
    fn count(&self, _: usize) -> usize {
        self.split.outputs.div_ceil(self.split.strip)
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, task: usize) {
        let split = &self.split;
        let outputs = split.task(task);
        let mut buffer = Buffer::new();
        let from = call.read(0, 0);
        let to = call.write::<i32>(0, self.write_offset);
        // SAFETY: the operand's layout lies in its buffer; strips of outputs are disjoint and at most STRIP
        // wide.
        unsafe {
            match split.direction {
                Direction::Rows => {
                    outputs.for_each(|output| to.add(output).write(self.row(output, from, &mut buffer)));
                }
                Direction::Columns => {
                    self.strip(outputs.start, outputs.len(), from, to.add(outputs.start), &mut buffer);
                }
            }
        }
    }
}
