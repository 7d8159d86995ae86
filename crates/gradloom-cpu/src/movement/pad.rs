//! Padding: fills the result, then copies the operand to its places, which interior padding spreads apart.

use super::CopyLoop;
use crate::kernel::{Call, Prepared, Tasks};
use crate::work;
use gradloom_codegen::cpu::loops::bits;
use gradloom_core::ir::Number;
use gradloom_core::kernel::{Launch, Layout};

/// Returns a kernel for a `Pad` launch.
pub(crate) fn prepare(
    launch: &Launch,
    low: &[usize],
    interior: &[usize],
    value: Number,
) -> Box<dyn Prepared> {
    let (read, write) = (&launch.reads[0], &launch.writes[0]);
    let rank = low.len();
    let elements = write.layout.shape.elements();
    let places = Layout {
        offset: write.layout.offset + (0..rank).map(|a| low[a] * write.layout.strides[a]).sum::<usize>(),
        shape: read.layout.shape.clone(),
        strides: (0..rank).map(|a| write.layout.strides[a] * (interior[a] + 1)).collect(),
    };
    Box::new(Pad {
        // If there is no padding, for example because it was folded away on all axes, the copy writes
        // everything.
        filled: if read.layout.shape.elements() == elements { 0 } else { elements },
        write_offset: write.layout.offset,
        element_bytes: write.dtype.bytes(),
        pattern: bits(value, write.dtype),
        copy: CopyLoop::new(&read.layout, &places, write.dtype.bytes()),
    })
}

struct Pad {
    /// Number of elements of the result to fill.
    filled: usize,
    write_offset: usize,
    element_bytes: usize,
    /// The padding element; its low bytes for elements of fewer than four bytes.
    pattern: u32,
    copy: CopyLoop,
}

impl Tasks for Pad {
    fn phases(&self) -> usize {
        2
    }

    fn count(&self, phase: usize) -> usize {
        if phase == 0 { self.filled.div_ceil(work::GRAIN) } else { self.copy.tasks() }
    }

    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, task: usize) {
        if phase == 1 {
            // SAFETY: the launch's layouts lie in the call's buffers, and the result overlaps no operand.
            unsafe { self.copy.run_task(task, call.reads[0], call.writes[0]) };
            return;
        }
        let start = task * work::GRAIN;
        let count = work::GRAIN.min(self.filled - start);
        // SAFETY: the result is contiguous and has `filled` elements; tasks write disjoint ranges.
        unsafe {
            match self.element_bytes {
                1 => fill(call.write(0, self.write_offset + start), count, self.pattern as u8),
                2 => fill(call.write(0, self.write_offset + start), count, self.pattern as u16),
                _ => fill(call.write(0, self.write_offset + start), count, self.pattern),
            }
        }
    }
}

/// Fills `count` contiguous elements from `start` on with `element`.
///
/// # Safety
/// `start` must be valid for writes of `count` elements, which nothing else may access.
unsafe fn fill<T: Copy>(start: *mut T, count: usize, element: T) {
    // SAFETY: guaranteed by the caller; elements are plain data, for which every bit pattern is valid.
    unsafe { std::slice::from_raw_parts_mut(start, count) }.fill(element);
}
