//! Products that are alike, as one launch: the gradients of queries, keys and values.
//!
//! In: the launches so far, and the next one. Out: which of them the next one becomes a part of. Always
//! holds: only products in tiles stand between, and none needs another's result. A device's queue takes fewer
//! launches so, each of which fills more of the device.

use crate::schedule::group::{self, Class, Form};
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{GroupSchedule, Kernel, Launch, Part, Schedule};

/// The launch that another one can become a part of.
pub(super) fn find<'l>(launches: &'l mut [Launch], launch: &Launch) -> Option<&'l mut Launch> {
    if matches!(launch.kernel, Kernel::Group(_)) {
        return None;
    }
    let own = class(launch)?;
    for before in launches.iter_mut().rev() {
        let class = class(before)?;
        let writes = |read| before.writes.iter().any(|write| write.buffer == read);
        if launch.reads.iter().any(|read| writes(read.buffer)) {
            return None;
        }
        if class == own {
            return Some(before);
        }
    }
    None
}

/// The class of a product, or of the first of a group of them.
fn class(launch: &Launch) -> Option<Class> {
    let whole;
    let part = match &launch.kernel {
        Kernel::Group(parts) => &parts[0],
        Kernel::Op(OpKind::Dot(_)) => {
            whole = Part::whole(launch);
            &whole
        }
        _ => return None,
    };
    if Form::of_part(part) != Some(Form::Product) {
        return None;
    }
    group::class(part, &launch.reads[part.reads.clone()], &launch.writes[part.writes.clone()])
}

/// Makes a launch a part of a group, behind its first part or others.
pub(super) fn add(group: &mut Launch, launch: Launch, schedule: GroupSchedule) {
    let part = |kernel, schedule, reads, writes| Part { kernel, reads, writes, schedule, workspace: 0..0 };
    let [reads, writes] = [group.reads.len(), group.writes.len()];
    group.reads.extend(launch.reads);
    group.writes.extend(launch.writes);
    let next = part(launch.kernel, launch.schedule, reads..group.reads.len(), writes..group.writes.len());
    if let Kernel::Group(parts) = &mut group.kernel {
        return parts.push(next);
    }
    let kernel = std::mem::replace(&mut group.kernel, Kernel::Copy);
    let schedule = std::mem::replace(&mut group.schedule, Schedule::Group(schedule));
    group.kernel = Kernel::Group(vec![part(kernel, schedule, 0..reads, 0..writes), next]);
}
