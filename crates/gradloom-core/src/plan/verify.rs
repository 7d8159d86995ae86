//! Checks a plan against what it promises.

use super::{Buffer, Plan, Region};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Phase;

/// Checks that accesses stay inside their buffers and buffers inside their regions, that buffers which live at the same time do
/// not overlap unless a launch may alias them, and that compute launches write nothing that persists.
///
/// # Errors
/// [`ErrorKind::Verify`], naming the launch or the buffers.
pub fn verify(plan: &Plan) -> Result<()> {
    let fail = |message: String| Err(Error::new(ErrorKind::Verify, message));
    for (i, launch) in plan.launches.iter().enumerate() {
        let name = launch.kernel.name();
        if i > 0 && launch.phase < plan.launches[i - 1].phase {
            return fail(format!("launch {i} ({name}) computes after the commit has begun"));
        }
        for access in launch.reads.iter().chain(&launch.writes) {
            let Some(&buffer) = plan.buffer_of.get(&access.buffer) else {
                return fail(format!("launch {i} ({name}) uses {}, which has no buffer", access.buffer));
            };
            let buffer = &plan.buffers[buffer];
            if access.layout.end() > buffer.ty.elements() || access.dtype != buffer.ty.dtype {
                return fail(format!(
                    "launch {i} ({name}) reaches element {} of {}",
                    access.layout.end(),
                    buffer.ty
                ));
            }
            if i < buffer.first || i > buffer.last {
                return fail(format!("launch {i} ({name}) uses {} outside of its life", access.buffer));
            }
        }
        let persists = |b: &Buffer| b.region != Region::Step;
        if launch.phase == Phase::Compute
            && launch.writes.iter().any(|w| persists(&plan.buffers[plan.buffer_of[&w.buffer]]))
        {
            return fail(format!("launch {i} ({name}) writes what persists before the commit"));
        }
    }
    for (i, a) in plan.buffers.iter().enumerate() {
        let size = match a.region {
            Region::Store => continue,
            Region::Constants => plan.totals.constants,
            Region::Step => plan.totals.step,
        };
        if a.offset + a.bytes > size {
            return fail(format!("{} ends at byte {} of a region of {size}", a.value, a.offset + a.bytes));
        }
        for b in &plan.buffers[i + 1..] {
            let together = a.first <= b.last && b.first <= a.last;
            let overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
            if a.region == b.region
                && together
                && overlap
                && !hands_over(plan, a, b)
                && !hands_over(plan, b, a)
            {
                return fail(format!("{} and {} live at the same time in the same bytes", a.value, b.value));
            }
        }
    }
    Ok(())
}

/// Whether a launch reads `from` for the last time while it writes `to` for the first, and may do so in place.
fn hands_over(plan: &Plan, from: &Buffer, to: &Buffer) -> bool {
    if from.last != to.first || from.offset != to.offset {
        return false;
    }
    plan.launches.get(from.last).is_some_and(|launch| {
        launch.may_alias.iter().any(|&(w, r)| {
            launch.writes[w].buffer == to.value
                && launch.reads[r].buffer == from.value
                && launch.reads[r].layout == launch.writes[w].layout
        })
    })
}
