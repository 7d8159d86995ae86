//! Cuts a reduction into tasks.
//!
//! In: the operand's layout and the axes to reduce. Out: a direction to walk in, strips of outputs, and,
//! where there are too few outputs to keep a machine busy, chunks of the reduced elements whose partial
//! results are combined afterwards. Always holds: the cut depends on the layout alone.

use crate::strided_reader::{BLOCK, StridedReader};
use crate::work::GRAIN;
use gradloom_core::kernel::{Access, Layout};

/// Outputs that a task reduces side by side when it walks down columns.
pub(super) const STRIP: usize = 512;
/// Rows of a column that are combined one after the other; larger counts are halved.
pub(super) const COLUMN_LEAF: usize = 64;
/// Partial results that fit on the caller's stack.
pub(super) const PARTIALS: usize = 16 * 1024;
/// Tasks that keep any machine busy.
const MANY_TASKS: usize = 64;

/// The direction of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// One output at a time, along the reduced elements.
    Rows,
    /// A strip of outputs at a time, across them.
    Columns,
}

/// The cut of a reduction.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) direction: Direction,
    /// The operand's elements in the order of the walk: `[outputs, reduced]` for rows, `[reduced, outputs]`
    /// for columns.
    pub(super) source: StridedReader,
    pub(super) outputs: usize,
    /// Elements behind each output.
    pub(super) reduced: usize,
    /// Outputs of a strip; at most [`STRIP`] for columns.
    pub(super) strip: usize,
    pub(super) strips: usize,
    /// Reduced elements of a chunk.
    pub(super) chunk: usize,
    /// Number of chunks: at least 1; exactly 1 where partial results do not pay.
    pub(super) chunks: usize,
}

impl Split {
    /// Cuts the reduction of an operand over some of its axes. With `whole`, there is one chunk.
    pub(super) fn new(access: &Access, axes: &[usize], whole: bool) -> Self {
        let layout = &access.layout;
        let (reduced_axes, kept_axes): (Vec<usize>, Vec<usize>) =
            (0..layout.shape.rank()).partition(|a| axes.contains(a));
        let count = |axes: &[usize]| axes.iter().map(|&a| layout.shape[a]).product::<usize>();
        let (outputs, reduced) = (count(&kept_axes), count(&reduced_axes));

        // The elements of a few outputs, or a walk that finds neighbours only along the reduced axes.
        let side_by_side =
            innermost(layout, &kept_axes).is_some_and(|(extent, stride)| stride == 1 && extent >= 8);
        let direction = if outputs < 8 || (reduced >= 16 && !side_by_side) {
            Direction::Rows
        } else {
            Direction::Columns
        };
        let order = match direction {
            Direction::Rows => [kept_axes, reduced_axes].concat(),
            Direction::Columns => [reduced_axes, kept_axes].concat(),
        };
        let strip = match direction {
            Direction::Rows => (GRAIN / reduced.max(1)).clamp(1, outputs.max(1)),
            // As wide as allowed, in equal parts of whole cache lines.
            Direction::Columns => {
                outputs.div_ceil(outputs.div_ceil(STRIP).max(1)).next_multiple_of(16).min(STRIP)
            }
        };
        let strips = outputs.div_ceil(strip);

        let work = outputs * reduced;
        let wanted = if whole || work < 4 * GRAIN || strips == 0 {
            1
        } else {
            (work / (2 * GRAIN)).min(MANY_TASKS / strips).min(PARTIALS / outputs).max(1)
        };
        let unit = match direction {
            Direction::Rows => BLOCK,
            Direction::Columns => COLUMN_LEAF,
        };
        let chunk = reduced.div_ceil(wanted).next_multiple_of(unit).max(1);
        let chunks = reduced.div_ceil(chunk).max(1);
        let source = StridedReader::of_layout(&layout.permute(&order), access.dtype.bytes());
        Self { direction, source, outputs, reduced, strip, strips, chunk, chunks }
    }

    /// Returns the number of tasks: every strip with every chunk.
    pub(super) fn tasks(&self) -> usize {
        self.strips * self.chunks
    }

    /// Returns the ranges of outputs and of reduced elements that a task handles.
    pub(super) fn ranges(&self, task: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let (chunk, strip) = (task / self.strips, task % self.strips);
        let outputs = strip * self.strip..((strip + 1) * self.strip).min(self.outputs);
        let reduced = chunk * self.chunk..((chunk + 1) * self.chunk).min(self.reduced);
        (outputs, reduced)
    }
}

/// Returns the extent and the stride of the last of the axes that is longer than 1.
fn innermost(layout: &Layout, axes: &[usize]) -> Option<(usize, usize)> {
    axes.iter().rev().map(|&a| (layout.shape[a], layout.strides[a])).find(|&(extent, _)| extent != 1)
}
