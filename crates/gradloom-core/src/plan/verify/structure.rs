//! Checks of individual buffers, launches and accesses.

use super::super::{ALIGNMENT, Buffer, Plan, Region, Role, SCALAR_ALIGNMENT};
use super::{broken, kernels};
use crate::error::Result;
use crate::kernel::{Access, Kernel, Launch, Phase, Schedule};

pub(super) fn check(plan: &Plan) -> Result<()> {
    check_buffers(plan)?;
    check_hoisted(plan)?;
    if plan.scratch.len() != plan.launches.len() {
        let (given, launches) = (plan.scratch.len(), plan.launches.len());
        return Err(broken(format!("{given} launches of {launches} have a place for their scratch")));
    }
    let mut phase = Phase::Compute;
    for (i, launch) in plan.launches.iter().enumerate() {
        let name = format!("launch {i} ({})", launch.kernel.name());
        if launch.phase < phase {
            return Err(broken(format!("{name} computes after the commit has begun")));
        }
        phase = launch.phase;
        check_launch(plan, launch, plan.scratch[i], &name)?;
        for access in launch.reads.iter().chain(&launch.writes) {
            let buffer = check_access(plan, access, &name)?;
            if i < buffer.first || i > buffer.last {
                return Err(broken(format!("{name} uses {} outside of its life", access.buffer)));
            }
        }
        for write in &launch.writes {
            check_write(&plan.buffers[plan.buffer_of[&write.buffer]], launch, &name)?;
        }
    }
    for (what, (name, access)) in
        plan.outputs.iter().map(|o| ("output", o)).chain(plan.guards.iter().map(|g| ("guard", g)))
    {
        let buffer = check_access(plan, access, &format!("{what} {name:?}"))?;
        if what == "output" && buffer.last < plan.launches.len() {
            return Err(broken(format!("{what} {name:?} reads {} after its life", access.buffer)));
        }
    }
    Ok(())
}

fn check_buffers(plan: &Plan) -> Result<()> {
    for (i, buffer) in plan.buffers.iter().enumerate() {
        let value = buffer.value;
        if plan.buffer_of.get(&value) != Some(&i) {
            return Err(broken(format!("{value} does not lead to its buffer")));
        }
        if buffer.bytes != buffer.ty.bytes() {
            return Err(broken(format!("{value} has {} bytes for {}", buffer.bytes, buffer.ty)));
        }
        let alignment = if buffer.role == Role::Scalar { SCALAR_ALIGNMENT } else { ALIGNMENT };
        if buffer.offset % alignment != 0 {
            return Err(broken(format!("{value} stands at byte {}, which is not aligned", buffer.offset)));
        }
        if buffer.first > buffer.last || buffer.last > plan.launches.len() {
            return Err(broken(format!("{value} lives from {} to {}", buffer.first, buffer.last)));
        }
        let (region, size) = match buffer.role {
            // The size of the store is not checked, because the store may contain more than this program
            // uses.
            Role::Parameter | Role::Frozen | Role::State | Role::Next => (Region::Store, u64::MAX),
            Role::Constant | Role::Hoisted => (Region::Constants, plan.totals.constants),
            Role::Input | Role::Scalar | Role::Output | Role::Temporary => (Region::Step, plan.totals.step),
        };
        if buffer.region != region {
            return Err(broken(format!("{value} ({:?}) stands in {:?}", buffer.role, buffer.region)));
        }
        if buffer.offset.checked_add(buffer.bytes).is_none_or(|end| end > size) {
            return Err(broken(format!(
                "{value} takes {} bytes at {} of a region of {size}",
                buffer.bytes, buffer.offset
            )));
        }
    }
    if let Some((value, _)) = plan.buffer_of.iter().find(|&(_, &i)| i >= plan.buffers.len()) {
        return Err(broken(format!("{value} leads to no buffer")));
    }
    let store: u64 = plan
        .buffers
        .iter()
        .filter(|b| matches!(b.role, Role::Parameter | Role::Frozen | Role::State))
        .map(|b| b.bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add);
    if store != plan.totals.store {
        return Err(broken(format!("parameters and states have {store} bytes, not {}", plan.totals.store)));
    }
    Ok(())
}

/// Checks that hoisted launches read only constants and hoisted values, and write only hoisted values.
fn check_hoisted(plan: &Plan) -> Result<()> {
    for (i, launch) in plan.hoisted.iter().enumerate() {
        let name = format!("hoisted launch {i} ({})", launch.kernel.name());
        check_launch(plan, launch, 0, &name)?;
        for access in launch.reads.iter().chain(&launch.writes) {
            let buffer = check_access(plan, access, &name)?;
            if buffer.region != Region::Constants {
                return Err(broken(format!("{name} uses the {:?} {}", buffer.role, buffer.value)));
            }
        }
        if let Some(write) =
            launch.writes.iter().find(|w| plan.buffers[plan.buffer_of[&w.buffer]].role != Role::Hoisted)
        {
            return Err(broken(format!("{name} writes the constant {}", write.buffer)));
        }
    }
    Ok(())
}

fn check_launch(plan: &Plan, launch: &Launch, scratch: u64, name: &str) -> Result<()> {
    // Check the number of strides first, because the following checks index the strides by axis.
    let has_strides = |access: &Access| access.layout.strides.len() == access.layout.shape.rank();
    if let Some(access) = launch.reads.iter().chain(&launch.writes).find(|access| !has_strides(access)) {
        return Err(broken(format!("{name} sees {} without a stride for each axis", access.buffer)));
    }
    kernels::check(&launch.kernel, &launch.schedule, &launch.reads, &launch.writes, launch.workspace)
        .map_err(|message| broken(format!("{name} {message}")))?;
    if !scratch.is_multiple_of(ALIGNMENT) {
        return Err(broken(format!("{name} has its scratch at byte {scratch}, which is not aligned")));
    }
    if scratch.saturating_add(launch.workspace) > plan.totals.workspace {
        let (wanted, given) = (scratch.saturating_add(launch.workspace), plan.totals.workspace);
        return Err(broken(format!("{name} needs {wanted} bytes of workspace, there are {given}")));
    }
    if launch.may_alias.iter().any(|&(w, r)| w >= launch.writes.len() || r >= launch.reads.len()) {
        return Err(broken(format!("{name} may alias operands that it does not have")));
    }
    let by_library = matches!(launch.schedule, Schedule::Library(_));
    if by_library && launch.phase == Phase::Commit {
        return Err(broken(format!(
            "{name} is a library's product in the commit, which it cannot keep back"
        )));
    }
    let is_stored = |access: &Access| plan.buffer(access.buffer).is_some_and(|b| b.region == Region::Store);
    if launch.kernel.is_collective() && launch.writes.iter().any(is_stored) {
        return Err(broken(format!("{name} writes the store, which it cannot keep back")));
    }
    let may_have_gaps = launch.kernel.writes_strided() || by_library;
    if let Some(write) = launch.writes.iter().find(|w| !may_have_gaps && !w.layout.is_contiguous()) {
        return Err(broken(format!("{name} writes {} with gaps", write.buffer)));
    }
    if let Some(write) = launch.writes.iter().find(|w| !w.layout.is_injective()) {
        return Err(broken(format!("{name} writes elements of {} twice", write.buffer)));
    }
    Ok(())
}

/// Checks that an access refers to an existing buffer and is within its bounds. Returns the buffer.
fn check_access<'p>(plan: &'p Plan, access: &Access, name: &str) -> Result<&'p Buffer> {
    let Some(buffer) = plan.buffer(access.buffer) else {
        return Err(broken(format!("{name} uses {}, which has no buffer", access.buffer)));
    };
    if access.layout.strides.len() != access.layout.shape.rank() {
        return Err(broken(format!("{name} sees {} without a stride for each axis", access.buffer)));
    }
    if access.layout.end() > buffer.ty.elements() || access.dtype != buffer.ty.dtype {
        let (dtype, end) = (access.dtype, access.layout.end());
        return Err(broken(format!(
            "{name} reaches {dtype} element {end} of {} {}",
            buffer.ty, access.buffer
        )));
    }
    Ok(buffer)
}

/// Checks that persistent values change only in the commit, that parameters and states change only by copies
/// and region writes, and that no launch writes to other leaves.
fn check_write(buffer: &Buffer, launch: &Launch, name: &str) -> Result<()> {
    let persists = buffer.region != Region::Step;
    if persists && launch.phase == Phase::Compute {
        return Err(broken(format!("{name} writes what persists before the commit")));
    }
    let allowed = match buffer.role {
        Role::Parameter | Role::State => matches!(launch.kernel, Kernel::Copy | Kernel::WriteRegion),
        Role::Next | Role::Output | Role::Temporary => true,
        Role::Frozen | Role::Constant | Role::Hoisted | Role::Input | Role::Scalar => false,
    };
    if !allowed {
        return Err(broken(format!("{name} writes the {:?} {}", buffer.role, buffer.value)));
    }
    Ok(())
}
