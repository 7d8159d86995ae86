//! How updates of rows by number are shared out.

use crate::limits::Limits;
use gradloom_core::kernel::{Access, ScatterSchedule};

/// Invocations that find the place of one update.
const LANES: usize = 16;
/// Updates of a batch that are sorted together, at most: finding a place takes as long as there are others.
const CHUNK: usize = 8192;
/// Updates of a row that are on their way at the same time.
const AHEAD: usize = 8;

/// The schedule of `Scatter` with so many batch axes.
pub(crate) fn scatter(reads: &[Access], batch: usize, limits: &Limits) -> ScatterSchedule {
    let batches: usize = reads[0].layout.shape[..batch].iter().product();
    let updates = reads[1].layout.shape.elements() / batches.max(1);
    ScatterSchedule {
        batches,
        width: if updates <= 1 { 0 } else { updates.min(CHUNK) },
        chunks: updates.div_ceil(CHUNK),
        // A CPU does one thing after the other, and waits for each load anyway.
        lanes: if limits.software { 1 } else { LANES },
        ahead: if limits.software { 1 } else { AHEAD },
    }
}
