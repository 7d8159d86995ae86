//! Writes to a window of a parameter or state, whose start is known only at run time.

use super::CopyLoop;
use crate::kernel::{Call, Prepared, Tasks, Trap};
use gradloom_core::kernel::{Launch, Layout};

/// Returns a kernel for a `WriteRegion` launch.
pub(crate) fn prepare(launch: &Launch) -> Box<dyn Prepared> {
    let (value, target) = (&launch.reads[0], &launch.writes[0]);
    let window = Layout {
        offset: target.layout.offset,
        shape: value.layout.shape.clone(),
        strides: target.layout.strides.clone(),
    };
    let axes = (0..window.shape.rank()).map(|a| Axis {
        start_offset: launch.reads[1 + a].layout.offset,
        stride: target.layout.strides[a],
        window: window.shape[a],
        extent: target.layout.shape[a],
    });
    Box::new(WriteRegion {
        axes: axes.collect(),
        element_bytes: target.dtype.bytes(),
        copy: CopyLoop::new(&value.layout, &window, target.dtype.bytes()),
    })
}

struct Axis {
    /// Offset of the start in its buffer.
    start_offset: usize,
    stride: usize,
    window: usize,
    extent: usize,
}

struct WriteRegion {
    axes: Vec<Axis>,
    element_bytes: usize,
    copy: CopyLoop,
}

impl WriteRegion {
    /// Returns the offset of the window in the target, in elements.
    fn offset(&self, call: &Call<'_>) -> Result<usize, Trap> {
        let mut offset = 0;
        for (a, axis) in self.axes.iter().enumerate() {
            // SAFETY: the read is an i32 scalar of the launch.
            let start = unsafe { *call.read::<i32>(1 + a, axis.start_offset) };
            let last = axis.extent - axis.window;
            match usize::try_from(start) {
                Ok(start) if start <= last => offset += start * axis.stride,
                _ => {
                    return Err(Trap::new(format!(
                        "write_region: start {start} on axis {a} is out of range: a window of {} fits into \
                         {} at 0..={last}",
                        axis.window, axis.extent
                    )));
                }
            }
        }
        Ok(offset)
    }
}

/// Phase 0 checks the start, phase 1 copies.
impl Tasks for WriteRegion {
    fn phases(&self) -> usize {
        2
    }

    fn count(&self, phase: usize) -> usize {
        if phase == 0 { 0 } else { self.copy.tasks() }
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, task: usize) {
        let Ok(offset) = self.offset(call) else { return };
        // SAFETY: every window index plus its start is below the target's extent, so the shifted window lies
        // in the target; the value does not overlap it.
        unsafe {
            let to = call.writes[0].add(offset * self.element_bytes);
            self.copy.run_task(task, call.reads[0], to);
        }
    }

    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        if phase == 0 { self.offset(call).map(|_| ()) } else { Ok(()) }
    }
}
