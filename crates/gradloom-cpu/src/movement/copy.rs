//! Copies elements from one strided layout to another.
//!
//! In: two layouts of equal shapes, then the addresses of the buffers. Out: every element of the first layout
//! at its position in the second. Invariant: elements may be copied in any order, because no location is
//! written twice. Axes are sorted by the strides of the target and merged where both sides allow it. The two
//! innermost axes form a plane that is divided into blocks, and into squares if the source runs across the
//! target (a transposition), so that cache lines are used whole on both sides.

use crate::kernel::{Call, Prepared, Tasks};
use crate::work;
use gradloom_core::kernel::{Launch, Layout};

/// Side length of the squares of a transposition: a cache line of 4-byte elements.
const SQUARE: usize = 16;
/// Side length of the blocks of squares: the cache lines of both sides fit in the first-level cache, and
/// their pages in the TLB.
const TILE: usize = 64;

/// An axis with its strides on both sides, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    extent: usize,
    from: usize,
    to: usize,
}

/// A copy whose loops have been chosen.
#[derive(Clone, Debug)]
pub(crate) struct CopyLoop {
    from_offset: usize,
    to_offset: usize,
    element_bytes: usize,
    outer: Vec<Axis>,
    /// Outer axis of the plane.
    rows: Axis,
    /// Inner axis of the plane.
    columns: Axis,
    /// Extents of a block of the plane.
    block: [usize; 2],
    /// Number of blocks of the plane along each axis.
    blocks: [usize; 2],
    /// Number of blocks of all planes.
    total_blocks: usize,
    blocks_per_task: usize,
}

impl CopyLoop {
    /// Creates a copy. Elements must have 1, 2 or 4 bytes, and no two elements of `to` may coincide.
    pub(crate) fn new(from: &Layout, to: &Layout, element_bytes: usize) -> Self {
        debug_assert_eq!(from.shape, to.shape);
        let mut axes: Vec<Axis> = (0..to.shape.rank())
            .map(|a| Axis { extent: to.shape[a], from: from.strides[a], to: to.strides[a] })
            .filter(|axis| axis.extent != 1)
            .collect();
        axes.sort_by_key(|axis| (std::cmp::Reverse(axis.to), std::cmp::Reverse(axis.from)));
        axes = merged(&axes);

        let unit = Axis { extent: 1, from: 0, to: 0 };
        let columns = axes.pop().unwrap_or(unit);
        // If the source is strided along the target's inner axis, the axis of its smallest stride becomes the
        // outer axis of the plane.
        let transposed = columns.from > 1;
        if transposed
            && let Some(best) = (0..axes.len()).filter(|&a| axes[a].from != 0).min_by_key(|&a| axes[a].from)
            && axes[best].from < columns.from
        {
            let rows = axes.remove(best);
            axes.push(rows);
        }
        let rows = axes.pop().unwrap_or(unit);

        let block = if transposed && rows.from < columns.from && rows.extent > 1 {
            [TILE, TILE]
        } else {
            let columns_at_once = columns.extent.clamp(1, work::GRAIN);
            [(work::GRAIN / columns_at_once).max(1), columns_at_once]
        };
        let block = [block[0].min(rows.extent).max(1), block[1].min(columns.extent).max(1)];
        let blocks = [rows.extent.div_ceil(block[0]), columns.extent.div_ceil(block[1])];
        let total_blocks = axes.iter().map(|axis| axis.extent).product::<usize>() * blocks[0] * blocks[1];
        Self {
            from_offset: from.offset,
            to_offset: to.offset,
            element_bytes,
            outer: axes,
            rows,
            columns,
            block,
            blocks,
            total_blocks,
            blocks_per_task: (work::GRAIN / (block[0] * block[1])).max(1),
        }
    }

    /// Returns the number of tasks that the copy is split into.
    pub(crate) fn tasks(&self) -> usize {
        self.total_blocks.div_ceil(self.blocks_per_task)
    }

    /// Runs the task with index `task`.
    ///
    /// # Safety
    /// `from` and `to` must be the buffers of the layouts: the elements of `from` must be readable, those of
    /// `to` writable, and the two windows must not overlap.
    pub(crate) unsafe fn run_task(&self, task: usize, from: *const u8, to: *mut u8) {
        // SAFETY: every bit pattern is a valid u8, u16 or u32; the caller guarantees the rest.
        unsafe {
            match self.element_bytes {
                1 => self.run_task_as::<u8>(task, from.cast(), to.cast()),
                2 => self.run_task_as::<u16>(task, from.cast(), to.cast()),
                _ => self.run_task_as::<u32>(task, from.cast(), to.cast()),
            }
        }
    }

    /// # Safety
    /// Same as [`CopyLoop::run_task`]; `T` must have the size of the elements.
    unsafe fn run_task_as<T: Copy>(&self, task: usize, from: *const T, to: *mut T) {
        let end = ((task + 1) * self.blocks_per_task).min(self.total_blocks);
        for block in task * self.blocks_per_task..end {
            let (mut rest, column_block) = (block / self.blocks[1], block % self.blocks[1]);
            let row_block = rest % self.blocks[0];
            rest /= self.blocks[0];
            let (row, column) = (row_block * self.block[0], column_block * self.block[1]);
            let mut from_at = self.from_offset + row * self.rows.from + column * self.columns.from;
            let mut to_at = self.to_offset + row * self.rows.to + column * self.columns.to;
            for axis in self.outer.iter().rev() {
                let index = rest % axis.extent;
                rest /= axis.extent;
                from_at += index * axis.from;
                to_at += index * axis.to;
            }
            let rows = Axis { extent: self.block[0].min(self.rows.extent - row), ..self.rows };
            let columns = Axis { extent: self.block[1].min(self.columns.extent - column), ..self.columns };
            // SAFETY: the indices are below the extents, so the addresses point to elements.
            unsafe { copy_block(from.add(from_at), to.add(to_at), rows, columns) };
        }
    }
}

/// Merges adjacent axes that a single stride describes on both sides.
fn merged(axes: &[Axis]) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::with_capacity(axes.len());
    for &axis in axes {
        match merged.last_mut() {
            Some(outer) if outer.from == axis.from * axis.extent && outer.to == axis.to * axis.extent => {
                *outer = Axis { extent: outer.extent * axis.extent, ..axis };
            }
            _ => merged.push(axis),
        }
    }
    merged
}

/// # Safety
/// All elements of the block must be readable at `from` and writable at `to`, and the two must not overlap.
unsafe fn copy_block<T: Copy>(from: *const T, to: *mut T, rows: Axis, columns: Axis) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if columns.from > 1 && rows.from < columns.from && rows.extent > 1 {
            // Copy square by square, so that the cache lines that a square uses stay in the cache.
            for row in (0..rows.extent).step_by(SQUARE) {
                for column in (0..columns.extent).step_by(SQUARE) {
                    let from = from.add(row * rows.from + column * columns.from);
                    let to = to.add(row * rows.to + column * columns.to);
                    let (height, width) =
                        (SQUARE.min(rows.extent - row), SQUARE.min(columns.extent - column));
                    for r in 0..height {
                        let (from, to) = (from.add(r * rows.from), to.add(r * rows.to));
                        copy_line(from, to, Axis { extent: width, ..columns });
                    }
                }
            }
        } else {
            for r in 0..rows.extent {
                copy_line(from.add(r * rows.from), to.add(r * rows.to), columns);
            }
        }
    }
}

/// # Safety
/// Same as [`copy_block`].
#[inline(always)]
unsafe fn copy_line<T: Copy>(
    from: *const T,
    to: *mut T,
    Axis { extent, from: from_stride, to: to_stride }: Axis,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (from_stride, to_stride) {
            (1, 1) => std::ptr::copy_nonoverlapping(from, to, extent),
            (0, 1) => {
                let value = *from;
                (0..extent).for_each(|i| *to.add(i) = value);
            }
            (_, 1) => (0..extent).for_each(|i| *to.add(i) = *from.add(i * from_stride)),
            _ => (0..extent).for_each(|i| *to.add(i * to_stride) = *from.add(i * from_stride)),
        }
    }
}

/// Returns a kernel for a `Copy` launch.
pub(crate) fn prepare(launch: &Launch) -> Box<dyn Prepared> {
    let (read, write) = (&launch.reads[0], &launch.writes[0]);
    Box::new(CopyKernel(CopyLoop::new(&read.layout, &write.layout, write.dtype.bytes())))
}

struct CopyKernel(CopyLoop);

impl Tasks for CopyKernel {
    fn count(&self, _: usize) -> usize {
        self.0.tasks()
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, task: usize) {
        // A copy onto itself is a no-op if the plan gave both sides the same bytes and order.
        let [read, write] = [call.reads[0], call.writes[0].cast_const()];
        if read != write || !self.0.is_in_place() {
            // SAFETY: the launch's layouts lie in the call's buffers; a copy may alias its source only in
            // the case above.
            unsafe { self.0.run_task(task, read, call.writes[0]) };
        }
    }
}

impl CopyLoop {
    /// Returns `true` if each element's destination is its source, given that both buffers are the same.
    fn is_in_place(&self) -> bool {
        let axes = self.outer.iter().chain([&self.rows, &self.columns]);
        self.from_offset == self.to_offset && axes.into_iter().all(|axis| axis.from == axis.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::ir::Shape;

    fn check<T: Copy + PartialEq + std::fmt::Debug>(from: &Layout, to: &Layout, make: impl Fn(usize) -> T) {
        let data: Vec<T> = (1..=from.end().max(1)).map(&make).collect();
        for backwards in [false, true] {
            let mut got = vec![make(0); to.end()];
            let mut expected = got.clone();
            for (f, t) in from.positions().zip(to.positions()) {
                expected[t] = data[f];
            }
            let copy = CopyLoop::new(from, to, size_of::<T>());
            for task in 0..copy.tasks() {
                let task = if backwards { copy.tasks() - 1 - task } else { task };
                // SAFETY: the vectors have as many elements as the layouts need.
                unsafe { copy.run_task(task, data.as_ptr().cast(), got.as_mut_ptr().cast()) };
            }
            assert!(got == expected, "{from:?} to {to:?}");
        }
    }

    fn check_both(from: &Layout, to: &Layout) {
        check(from, to, |i| i as u32);
        check(from, to, |i| (i % 253) as u8);
    }

    #[test]
    fn every_element_arrives_where_it_belongs() {
        for shape in
            [vec![], vec![1], vec![5], vec![70, 90], vec![3, 65, 4, 33], vec![2, 1, 300, 5], vec![2, 3, 0]]
        {
            let shape = Shape::from(shape);
            let rank = shape.rank();
            let base = Layout::contiguous(&shape);
            let reversed: Vec<usize> = (0..rank).rev().collect();
            let rotated: Vec<usize> = (0..rank).map(|a| (a + 1) % rank).collect();
            let wider = Shape::from(shape.iter().map(|n| 2 * n + 3).collect::<Vec<_>>());
            let (start, limit, step) =
                (vec![1; rank], shape.iter().map(|n| 2 * n + 1).collect::<Vec<_>>(), vec![2; rank]);
            let sliced = Layout::contiguous(&wider).slice(&start, &limit, &step);
            assert_eq!(sliced.shape, shape);
            check_both(&base, &base);
            check_both(&sliced, &base);
            check_both(&base, &sliced);
            check_both(&Layout::splat(&shape), &sliced);
            for order in [&reversed, &rotated] {
                let permuted = base.permute(order);
                check_both(&permuted, &Layout::contiguous(&permuted.shape));
                check_both(&Layout::contiguous(&permuted.shape), &permuted);
                check_both(&sliced.permute(order), &permuted);
            }
        }
    }

    #[test]
    fn a_repeated_axis_beside_a_permuted_one() {
        let column = Layout { offset: 0, shape: [60, 50, 40].into(), strides: vec![1, 0, 60] };
        check_both(&column, &Layout::contiguous(&column.shape));
    }

    #[test]
    fn large_copies_are_split() {
        let base = Layout::contiguous(&Shape::from([300, 400]));
        let turned = base.permute(&[1, 0]);
        check_both(&turned, &Layout::contiguous(&turned.shape));
        assert!(CopyLoop::new(&turned, &Layout::contiguous(&turned.shape), 4).tasks() > 2);
        assert_eq!(CopyLoop::new(&base, &base, 4).tasks(), 4);
    }
}
