//! Windows whose start is known only at run time.
//!
//! In: a tensor, possibly an update, and one i32 start per axis. Out: the window's elements, or the tensor
//! with those elements replaced, contiguous and possibly in place. For `WriteRegion`, the tensor is a
//! parameter or state, whose other elements stay as they are.

use super::{Call, Prepared, Tasks, Trap};
use crate::movement::CopyLoop;
use gradloom_core::kernel::{Access, Launch, Layout};

/// Returns a kernel for a `DynamicSlice` launch.
pub(crate) fn prepare_dynamic_slice(launch: &Launch) -> Box<dyn Prepared> {
    let (x, write) = (&launch.reads[0].layout, &launch.writes[0]);
    let bytes = write.dtype.bytes();
    let window = Layout { shape: write.layout.shape.clone(), ..x.clone() };
    Box::new(DynamicSlice {
        starts: Starts::new("", 1, &launch.reads[1..], x, &window),
        copy: CopyLoop::new(&window, &write.layout, bytes),
        element_bytes: bytes,
    })
}

/// Returns a kernel for a `DynamicUpdateSlice` launch.
pub(crate) fn prepare_dynamic_update_slice(launch: &Launch) -> Box<dyn Prepared> {
    let (x, update, write) = (&launch.reads[0].layout, &launch.reads[1].layout, &launch.writes[0]);
    let bytes = write.dtype.bytes();
    let window = Layout { shape: update.shape.clone(), ..write.layout.clone() };
    Box::new(WindowUpdate {
        starts: Starts::new("", 2, &launch.reads[2..], &write.layout, &window),
        whole: Some(CopyLoop::new(x, &write.layout, bytes)),
        same_layout: *x == write.layout,
        update: CopyLoop::new(update, &window, bytes),
        update_read: 1,
        element_bytes: bytes,
    })
}

/// Returns a kernel for a `WriteRegion` launch.
pub(crate) fn prepare_write_region(launch: &Launch) -> Box<dyn Prepared> {
    let (value, target) = (&launch.reads[0].layout, &launch.writes[0]);
    let bytes = target.dtype.bytes();
    let window = Layout { shape: value.shape.clone(), ..target.layout.clone() };
    Box::new(WindowUpdate {
        starts: Starts::new("write_region: ", 1, &launch.reads[1..], &target.layout, &window),
        whole: None,
        same_layout: false,
        update: CopyLoop::new(value, &window, bytes),
        update_read: 0,
        element_bytes: bytes,
    })
}

struct DynamicSlice {
    starts: Starts,
    /// Copy of the window at start 0 to the result.
    copy: CopyLoop,
    element_bytes: usize,
}

/// Phase 0 checks the starts, phase 1 copies.
impl Tasks for DynamicSlice {
    fn phases(&self) -> usize {
        2
    }

    fn count(&self, phase: usize) -> usize {
        if phase == 0 { 0 } else { self.copy.tasks() }
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, task: usize) {
        let Ok(start) = self.starts.offset(call) else { return };
        // SAFETY: the starts are in range, so the window lies in x; the result overlaps no operand.
        unsafe { self.copy.run_task(task, call.read(0, start * self.element_bytes), call.writes[0]) };
    }

    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        if phase == 0 { self.starts.offset(call).map(|_| ()) } else { Ok(()) }
    }
}

struct WindowUpdate {
    starts: Starts,
    /// Copy of x to the result, if x is an operand.
    whole: Option<CopyLoop>,
    same_layout: bool,
    /// Copy of the update to the window at start 0.
    update: CopyLoop,
    /// Index of the read that holds the update.
    update_read: usize,
    element_bytes: usize,
}

/// Phase 0 checks the starts and copies x, phase 1 copies the update.
impl Tasks for WindowUpdate {
    fn phases(&self) -> usize {
        2
    }

    fn count(&self, phase: usize) -> usize {
        if phase == 1 { self.update.tasks() } else { self.whole.as_ref().map_or(0, CopyLoop::tasks) }
    }

    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, task: usize) {
        let Ok(start) = self.starts.offset(call) else { return };
        let in_place = self.same_layout && call.reads[0] == call.writes[0].cast_const();
        // SAFETY: the starts are in range, so the window lies in the result, which overlaps x only if it is
        // in place, and never the update.
        unsafe {
            if phase == 1 {
                let to = call.write(0, start * self.element_bytes);
                self.update.run_task(task, call.reads[self.update_read], to);
            } else if let Some(whole) = self.whole.as_ref().filter(|_| !in_place) {
                whole.run_task(task, call.reads[0], call.writes[0]);
            }
        }
    }

    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        if phase == 0 { self.starts.offset(call).map(|_| ()) } else { Ok(()) }
    }
}

/// Starts of a window, one per axis.
struct Starts {
    /// Beginning of the message of a trap.
    prefix: &'static str,
    axes: Vec<Axis>,
}

struct Axis {
    /// Index of the read that holds the start.
    read: usize,
    /// Offset of the start in its buffer.
    offset: usize,
    stride: usize,
    window: usize,
    extent: usize,
}

impl Starts {
    /// Creates the starts of a window into the layout `whole`. `reads` are the starts, the first of which is
    /// read number `first`.
    fn new(prefix: &'static str, first: usize, reads: &[Access], whole: &Layout, window: &Layout) -> Self {
        let axes = reads.iter().enumerate().map(|(a, start)| Axis {
            read: first + a,
            offset: start.layout.offset,
            stride: whole.strides[a],
            window: window.shape[a],
            extent: whole.shape[a],
        });
        Self { prefix, axes: axes.collect() }
    }

    /// Returns the offset of the window, in elements.
    ///
    /// # Errors
    /// Returns an error if the window exceeds the tensor.
    fn offset(&self, call: &Call<'_>) -> Result<usize, Trap> {
        let mut offset = 0;
        for (a, axis) in self.axes.iter().enumerate() {
            // SAFETY: the read is an i32 scalar of the launch.
            let start = unsafe { *call.read::<i32>(axis.read, axis.offset) };
            let last = axis.extent - axis.window;
            match usize::try_from(start) {
                Ok(start) if start <= last => offset += start * axis.stride,
                _ => {
                    return Err(Trap::new(format!(
                        "{}start {start} on axis {a} is out of range: a window of {} fits into {} at \
                         0..={last}",
                        self.prefix, axis.window, axis.extent
                    )));
                }
            }
        }
        Ok(offset)
    }
}
