//! Schedules of cumulative reductions and sorts.

use super::LONG_AXIS;
use crate::limits::Limits;
use gradloom_core::kernel::{Access, CumulateSchedule, Schedule, SortMethod, SortSchedule};

/// Invocations of a workgroup.
const WORKGROUP: usize = 256;
/// Elements that an invocation adds up one after the other.
const EACH: usize = 8;
/// Elements that a workgroup sorts in its own memory: their keys and indices are half of what every device
/// has.
const PART: usize = 1024;
/// Elements of a tile that is sorted by a digit.
const TILE: usize = 2048;

/// Returns the number of rows, and of elements of a row.
fn rows(read: &Access) -> [usize; 2] {
    let (extent, outer) = read.layout.shape.split_last().expect("rows have an axis");
    [outer.iter().product(), *extent]
}

/// The same on a CPU, where meeting costs more than it saves. Mesa's ends loops after 65,535 turns.
const EACH_OF_SOFTWARE: usize = 4096;

/// Returns the schedule of `Cumulate`. Short rows have an invocation each.
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

/// Returns the schedule of `Sort`. Parts hand on at most half of their elements.
pub(super) fn sort(read: &Access, count: usize) -> SortSchedule {
    let [rows, extent] = rows(read);
    let few = extent <= PART || count <= PART / 2;
    let method = if few { SortMethod::Parts(PART) } else { SortMethod::Digits(TILE) };
    SortSchedule { rows, extent, count, method }
}
