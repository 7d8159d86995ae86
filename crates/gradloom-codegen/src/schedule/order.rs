//! Schedules of cumulative reductions and sorts.

use super::LONG_AXIS;
use crate::limits::Limits;
use gradloom_core::kernel::{Access, CumulateSchedule, Schedule, SortMethod, SortSchedule};

/// Number of invocations of a workgroup.
const WORKGROUP: usize = 256;
/// Maximum number of elements that an invocation adds up sequentially.
const EACH: usize = 8;
/// Number of elements that a workgroup sorts in workgroup memory. Their keys and indices take half of the
/// workgroup memory that every device has.
const PART: usize = 1024;
/// Number of elements of a tile that is sorted by a digit.
const TILE: usize = 2048;

/// Returns the number of rows and the length of a row.
fn rows(read: &Access) -> [usize; 2] {
    let (extent, outer) = read.layout.shape.split_last().expect("rows have an axis");
    [outer.iter().product(), *extent]
}

/// Maximum number of elements that an invocation adds up sequentially on a software device, where barriers
/// cost more than they save. Mesa's software driver ends loops after 65,535 iterations.
const EACH_OF_SOFTWARE: usize = 4096;

/// Returns the schedule of `Cumulate`. One invocation computes each short row.
pub(super) fn cumulate(read: &Access, limits: &Limits) -> Schedule {
    let [rows, extent] = rows(read);
    let (short, most) =
        if limits.software { (EACH_OF_SOFTWARE, EACH_OF_SOFTWARE) } else { (LONG_AXIS, EACH) };
    if extent < short {
        return Schedule::Whole;
    }
    let each = extent.div_ceil(WORKGROUP).min(most);
    Schedule::Cumulate(CumulateSchedule { rows, each, pieces: extent.div_ceil(each * WORKGROUP) })
}

/// Returns the schedule of `Sort`. When sorting in parts, at most half of the elements of each part are
/// passed on.
pub(super) fn sort(read: &Access, count: usize) -> SortSchedule {
    let [rows, extent] = rows(read);
    let few = extent <= PART || count <= PART / 2;
    let method = if few { SortMethod::Parts(PART) } else { SortMethod::Digits(TILE) };
    SortSchedule { rows, extent, count, method }
}
