//! Schedules of scatters.

use crate::limits::Limits;
use gradloom_core::ir::ScatterOp;
use gradloom_core::kernel::{Access, ScatterSchedule};

/// Number of invocations that find the position of one update.
const LANES: usize = 16;
/// Maximum number of updates of a batch that are sorted together. The time to find a position grows with
/// their number.
const CHUNK: usize = 8192;
/// Number of updates of a row that are loaded at the same time.
const AHEAD: usize = 8;

/// Returns the schedule of `Scatter` with this many batch axes.
pub(crate) fn scatter(op: ScatterOp, reads: &[Access], batch: usize, limits: &Limits) -> ScatterSchedule {
    let batches: usize = reads[0].layout.shape[..batch].iter().product();
    let updates = reads[1].layout.shape.elements() / batches.max(1);
    let is_sorted = updates <= 1 || op.is_distinct();
    ScatterSchedule {
        batches,
        width: if is_sorted { 0 } else { updates.min(CHUNK) },
        chunks: if is_sorted { updates.min(1) } else { updates.div_ceil(CHUNK) },
        // Several lanes and early loads have no benefit on a software device, which runs invocations
        // sequentially and waits for each load.
        lanes: if limits.software { 1 } else { LANES },
        ahead: if limits.software { 1 } else { AHEAD },
    }
}
