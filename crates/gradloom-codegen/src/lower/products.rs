//! Products that are alike, as one launch: the gradients of queries, keys and values.
//!
//! In: launches. Out: the same, with a product as a part of an earlier one that is like it. Always holds:
//! only products in tiles stand between, and none needs another's result. So a device's queue takes fewer
//! launches, and each fills more of the device.

use super::{Lowering, Section};
use crate::schedule::group::{self, Class, Form};
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{GroupSchedule, Kernel, Launch, Part, Schedule};

/// Puts products together.
pub(super) fn together(lowering: &mut Lowering<'_>) {
    let schedule = group::schedule(&lowering.target.limits);
    let mut launches = Vec::with_capacity(lowering.launches.len());
    // The first launch of the same part of the program.
    let (mut first, mut last) = (0, None);
    for (launch, section) in std::mem::take(&mut lowering.launches) {
        if last.replace(section) != Some(section) {
            first = launches.len();
        }
        // An update could not take the place of a state that another product of its launch reads.
        let is_update = section.0;
        match find(&mut launches[first..], &launch).filter(|_| !is_update) {
            Some(group) => add(group, launch, schedule),
            None => launches.push((launch, section)),
        }
    }
    lowering.launches = launches;
}

/// Returns the launch that another one can become a part of.
fn find<'l>(launches: &'l mut [(Launch, Section)], launch: &Launch) -> Option<&'l mut Launch> {
    if matches!(launch.kernel, Kernel::Group(_)) {
        return None;
    }
    let own = class(launch)?;
    for (before, _) in launches.iter_mut().rev() {
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

/// Returns the class of a product, or of the first of a group of them.
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
fn add(group: &mut Launch, launch: Launch, schedule: GroupSchedule) {
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
