//! Reads a strided operand as if it were contiguous.
//!
//! In: an operand's layout, then a range of its elements in row-major order. Out: the address of those
//! elements, contiguous: in the operand's own buffer if they are contiguous there, otherwise in a small
//! buffer to which they were copied. Invariant: a buffer holds [`BLOCK`] elements; together with two more
//! operands and a result, it fits in the first-level cache.

use gradloom_core::kernel::{Access, Layout};
use std::mem::MaybeUninit;

/// Number of elements staged at a time.
pub(super) const BLOCK: usize = 512;

/// Buffer for one staged block of an operand.
#[repr(align(64))]
pub(super) struct Buffer {
    elements: [MaybeUninit<u32>; BLOCK],
    /// True if the buffer holds the repeated element of a splat.
    filled: bool,
}

impl Buffer {
    pub(super) const fn new() -> Self {
        Self { elements: [const { MaybeUninit::uninit() }; BLOCK], filled: false }
    }
}

/// One axis of a strided operand.
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: usize,
    stride: usize,
    /// Number of elements in one step along this axis, which is the product of the extents of the inner axes.
    step: usize,
}

#[derive(Clone, Debug)]
enum Order {
    Contiguous,
    Splat,
    /// Axes, outermost first; at least one.
    Strided(Vec<Axis>),
}

/// An operand, ready to be read in row-major order.
#[derive(Clone, Debug)]
pub(super) struct StridedReader {
    /// Offset of the first element from the start of the buffer, in elements.
    offset: usize,
    element_bytes: usize,
    order: Order,
}

impl StridedReader {
    pub(super) fn new(access: &Access) -> Self {
        Self::of_layout(&access.layout, access.dtype.bytes())
    }

    /// Creates a reader of a layout's elements in the order of its axes. Elements must have 1, 2 or 4 bytes.
    pub(super) fn of_layout(layout: &Layout, element_bytes: usize) -> Self {
        let groups = layout.collapsed();
        let order = match groups[..] {
            [] | [(_, 1)] => Order::Contiguous,
            [(_, 0)] => Order::Splat,
            _ => {
                let mut step = 1;
                let mut axes: Vec<Axis> = groups
                    .iter()
                    .rev()
                    .map(|&(extent, stride)| {
                        let axis = Axis { extent, stride, step };
                        step *= extent;
                        axis
                    })
                    .collect();
                axes.reverse();
                Order::Strided(axes)
            }
        };
        Self { offset: layout.offset, element_bytes, order }
    }

    /// Returns the address of `count` contiguous elements from row-major position `start` on: in the operand
    /// itself if they are contiguous there, else in `buffer`, to which they are copied. The address is valid
    /// until `buffer` is used again or dropped.
    ///
    /// # Safety
    /// `base` must be the operand's buffer; `start + count` must not exceed the number of elements; `count`
    /// must not exceed [`BLOCK`]; `buffer` must be used for this operand only.
    pub(super) unsafe fn stage(
        &self,
        base: *const u8,
        start: usize,
        count: usize,
        buffer: &mut Buffer,
    ) -> *const u8 {
        // SAFETY: the element type has the operand's size, and every bit pattern is a valid u8, u16 or u32;
        // the caller guarantees the rest.
        unsafe {
            match self.element_bytes {
                1 => self.stage_as::<u8>(base.cast(), start, count, buffer).cast(),
                2 => self.stage_as::<u16>(base.cast(), start, count, buffer).cast(),
                _ => self.stage_as::<u32>(base.cast(), start, count, buffer).cast(),
            }
        }
    }

    /// Copies `count` elements, starting at row-major position `start`.
    ///
    /// # Safety
    /// `base` must be the operand's buffer; `start + count` must not exceed the number of elements; `to` must
    /// have room for them and must not overlap them.
    pub(super) unsafe fn copy(&self, base: *const u8, start: usize, count: usize, to: *mut u8) {
        // SAFETY: the element type has the operand's size, and every bit pattern is a valid u8, u16 or u32;
        // the caller guarantees the rest.
        unsafe {
            match self.element_bytes {
                1 => self.copy_as::<u8>(base.cast(), start, count, to),
                2 => self.copy_as::<u16>(base.cast(), start, count, to.cast()),
                _ => self.copy_as::<u32>(base.cast(), start, count, to.cast()),
            }
        }
    }

    /// # Safety
    /// Same as [`StridedReader::copy`]; `T` must have the size of the elements.
    unsafe fn copy_as<T: Copy>(&self, base: *const T, start: usize, count: usize, to: *mut T) {
        // SAFETY: the layout's elements lie in the buffer at `base`.
        unsafe {
            let first = base.add(self.offset);
            match &self.order {
                Order::Contiguous => std::ptr::copy_nonoverlapping(first.add(start), to, count),
                Order::Splat => fill(to, count, *first),
                Order::Strided(axes) => {
                    let written = gather(axes, first, start, to, count);
                    debug_assert_eq!(written, count);
                }
            }
        }
    }

    /// # Safety
    /// Same as [`StridedReader::stage`]; `T` must have the size of the elements.
    unsafe fn stage_as<T: Copy>(
        &self,
        base: *const T,
        start: usize,
        count: usize,
        buffer: &mut Buffer,
    ) -> *const T {
        debug_assert!(count <= BLOCK && size_of::<T>() == self.element_bytes);
        let staged = buffer.elements.as_mut_ptr().cast::<T>();
        // SAFETY: the layout's elements lie in the buffer at `base`; the staging buffer has room for BLOCK
        // elements of 4 bytes.
        unsafe {
            let first = base.add(self.offset);
            match &self.order {
                Order::Contiguous => first.add(start),
                Order::Splat => {
                    if !buffer.filled {
                        buffer.filled = true;
                        fill(staged, BLOCK, *first);
                    }
                    staged
                }
                Order::Strided(axes) => {
                    if let [.., axis] = axes[..]
                        && axis.stride == 1
                        && start % axis.extent + count <= axis.extent
                    {
                        return first.add(position(axes, start));
                    }
                    let written = gather(axes, first, start, staged, count);
                    debug_assert_eq!(written, count);
                    staged
                }
            }
        }
    }
}

/// Returns the offset from the first element to the one at a row-major position.
fn position(axes: &[Axis], mut start: usize) -> usize {
    let mut position = 0;
    for axis in axes {
        position += start / axis.step * axis.stride;
        start %= axis.step;
    }
    position
}

/// Copies up to `count` elements after skipping the first `skip`; returns the number of elements copied.
///
/// # Safety
/// `from` must be valid for reads of the axes' elements. `to` must be valid for writes of `count` elements
/// and must not overlap those at `from`.
unsafe fn gather<T: Copy>(axes: &[Axis], from: *const T, skip: usize, to: *mut T, count: usize) -> usize {
    let [axis, inner @ ..] = axes else { return 0 };
    // SAFETY: `index < extent` for every axis, so the addresses point to elements.
    unsafe {
        let mut index = skip / axis.step;
        if inner.is_empty() {
            let run = count.min(axis.extent - index);
            let from = from.add(index * axis.stride);
            match axis.stride {
                1 => std::ptr::copy_nonoverlapping(from, to, run),
                0 => fill(to, run, *from),
                stride => (0..run).for_each(|i| *to.add(i) = *from.add(i * stride)),
            }
            return run;
        }
        let mut skip = skip % axis.step;
        let mut done = 0;
        while done < count && index < axis.extent {
            done += gather(inner, from.add(index * axis.stride), skip, to.add(done), count - done);
            skip = 0;
            index += 1;
        }
        done
    }
}

/// # Safety
/// `to` must be valid for writes of `count` elements.
unsafe fn fill<T: Copy>(to: *mut T, count: usize, value: T) {
    for i in 0..count {
        // SAFETY: `i < count`.
        unsafe { to.add(i).write(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::ir::Shape;

    fn layouts() -> Vec<Layout> {
        let base = Layout::contiguous(&Shape::from([6, 7, 40]));
        vec![
            base.clone(),
            base.permute(&[2, 0, 1]),
            base.permute(&[1, 0, 2]),
            base.slice(&[1, 2, 3], &[6, 7, 40], &[2, 1, 3]),
            base.slice(&[0, 0, 5], &[6, 7, 38], &[1, 1, 1]),
            base.slice(&[0, 3, 0], &[6, 4, 40], &[1, 1, 1]).broadcast(&Shape::from([6, 9, 40])),
            Layout::splat(&Shape::from([50, 30])),
            base.slice(&[5, 6, 39], &[6, 7, 40], &[1, 1, 1]).reshape(&Shape::scalar()).unwrap(),
        ]
    }

    fn check<T: Copy + PartialEq + std::fmt::Debug>(make: impl Fn(usize) -> T) {
        let data: Vec<T> = (0..6 * 7 * 40).map(&make).collect();
        for layout in layouts() {
            let positions: Vec<usize> = layout.positions().collect();
            let source = StridedReader::of_layout(&layout, size_of::<T>());
            for count in [1, 3, 64, BLOCK] {
                let mut buffer = Buffer::new();
                for start in (0..positions.len()).step_by(37) {
                    let count = count.min(positions.len() - start);
                    // SAFETY: the range lies within the layout, whose elements lie within `data`.
                    let staged = unsafe {
                        let from = source.stage(data.as_ptr().cast(), start, count, &mut buffer);
                        std::slice::from_raw_parts(from.cast::<T>(), count)
                    };
                    let expected: Vec<T> = positions[start..start + count].iter().map(|&p| data[p]).collect();
                    assert_eq!(staged, expected, "{layout:?} {start}+{count}");
                }
            }
        }
    }

    #[test]
    fn a_staged_block_has_the_elements_of_the_layout_in_order() {
        check(|i| i as u32);
        check(|i| (i % 251) as u8);
    }
}
