//! Grouping of similar products into one launch, such as the gradients of queries, keys and values.
//!
//! In: launches. Out: the same launches, with products moved into an earlier launch of similar products.
//! Invariant: a product is only moved across launches of tiled products whose results it does not read. The
//! device's queue receives fewer launches, and each of them fills more of the device.

use super::{Lowering, Section};
use crate::schedule::group::{self, Class, Form};
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{GroupSchedule, Kernel, Launch, Part, Schedule};

/// Groups similar products.
pub(super) fn together(lowering: &mut Lowering<'_>) {
    let schedule = group::schedule(&lowering.target.limits);
    let mut launches = Vec::with_capacity(lowering.launches.len());
    // Index of the first launch in the current section of the program.
    let (mut first, mut last) = (0, None);
    for (launch, section) in std::mem::take(&mut lowering.launches) {
        if last.replace(section) != Some(section) {
            first = launches.len();
        }
        // Updates stay separate: in a group, an update could not overwrite a state that another product
        // reads.
        let is_update = section.0;
        match find(&mut launches[first..], &launch).filter(|_| !is_update) {
            Some(group) => add(group, launch, schedule),
            None => launches.push((launch, section)),
        }
    }
    lowering.launches = launches;
}

/// Returns the earlier launch that this launch can join.
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

/// Returns the class of a product, or of the first product of a group.
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

/// Adds a launch to a group. A single product becomes a group first.
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
