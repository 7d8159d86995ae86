//! Check of a window for launches that run outside of a whole step, in debug runs. In a whole step, the
//! guards check the window.

use super::Results;
use crate::elements::Elements;
use gradloom_codegen::step::Verdict;
use gradloom_core::error::Result;
use gradloom_core::kernel::{Access, Kernel};
use gradloom_core::plan::Plan;

/// Checks that the window that a launch replaces, if any, lies within its tensor. `read` appends the elements
/// of an access.
///
/// # Errors
/// Returns a trap if the window exceeds the tensor, or the error of `read`.
pub fn check_window(
    plan: &Plan,
    number: usize,
    results: &Results,
    read: impl Fn(&Access, &mut Elements) -> Result<()>,
) -> Result<()> {
    let launch = &plan.launches[number];
    if launch.kernel != Kernel::WriteRegion {
        return Ok(());
    }
    let (window, whole) = (&launch.reads[0].layout.shape, &launch.writes[0].layout.shape);
    for (axis, access) in launch.reads[1..].iter().enumerate() {
        let mut bytes = Elements::default();
        bytes.make_room(4, &"the start of a window")?;
        read(access, &mut bytes)?;
        let start = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let room = whole[axis] - window[axis];
        if usize::try_from(start).map_or(true, |start| start > room) {
            let trap = Verdict::Trapped { launch: number, position: axis, index: start, bound: room };
            results.outcome(trap)?;
        }
    }
    Ok(())
}
