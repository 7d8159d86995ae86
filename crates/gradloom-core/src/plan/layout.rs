//! Offsets in the step arena and the constants.
//!
//! Buffers that a launch may compute in place share bytes; the groups are placed by size, largest first, each at the lowest
//! offset where it meets no other group that lives at the same time. (Greedy by size: Pisarchyk and Lee, "Efficient Memory
//! Management for Deep Neural Net Inference", 2020.)

use super::{ALIGNMENT, Buffer, Plan, Region, Role};

/// Buffers that share bytes one after the other.
struct Group {
    members: Vec<usize>,
    bytes: usize,
    first: usize,
    last: usize,
}

/// Sets the offsets of the regions `Constants` and `Step`, and the totals.
pub(super) fn place(plan: &mut Plan) {
    let mut constants = 0;
    for buffer in plan.buffers.iter_mut().filter(|b| b.region == Region::Constants) {
        buffer.offset = constants;
        constants += buffer.bytes.next_multiple_of(ALIGNMENT);
    }
    plan.totals.constants = constants;

    let mut groups = groups(plan);
    groups.sort_by_key(|g| (std::cmp::Reverse(g.bytes), g.first, g.members[0]));
    let mut placed: Vec<(usize, &Group)> = Vec::new();
    let mut end = 0;
    let mut offsets = vec![0; plan.buffers.len()];
    for group in &groups {
        let mut busy: Vec<(usize, usize)> = placed
            .iter()
            .filter(|(_, other)| group.first <= other.last && other.first <= group.last)
            .map(|(offset, other)| (*offset, offset + other.bytes))
            .collect();
        busy.sort_unstable();
        let mut offset = 0;
        for (start, stop) in busy {
            if offset + group.bytes <= start {
                break;
            }
            offset = offset.max(stop);
        }
        end = end.max(offset + group.bytes);
        for &member in &group.members {
            offsets[member] = offset;
        }
        placed.push((offset, group));
    }
    for (buffer, offset) in plan.buffers.iter_mut().zip(offsets) {
        if buffer.region == Region::Step {
            buffer.offset = offset;
        }
    }
    plan.totals.step = end;
}

/// Joins each result with an operand that dies at its launch, where the launch may alias the two.
fn groups(plan: &Plan) -> Vec<Group> {
    let mut group_of: Vec<Option<usize>> = vec![None; plan.buffers.len()];
    let mut groups: Vec<Group> = Vec::new();
    let start = |groups: &mut Vec<Group>, group_of: &mut Vec<Option<usize>>, member: usize| {
        let Buffer { bytes, first, last, .. } = plan.buffers[member];
        group_of[member] = Some(groups.len());
        groups.push(Group { members: vec![member], bytes: bytes.next_multiple_of(ALIGNMENT), first, last });
    };
    // Inputs and scalars first: no launch writes them.
    for (i, buffer) in plan.buffers.iter().enumerate() {
        if buffer.region == Region::Step && matches!(buffer.role, Role::Input | Role::Scalar) {
            start(&mut groups, &mut group_of, i);
        }
    }
    for (time, launch) in plan.launches.iter().enumerate() {
        for (w, write) in launch.writes.iter().enumerate() {
            let member = plan.buffer_of[&write.buffer];
            let buffer = &plan.buffers[member];
            if buffer.region != Region::Step || group_of[member].is_some() {
                continue;
            }
            let dying = launch.may_alias.iter().filter(|pair| pair.0 == w).find_map(|&(_, r)| {
                let read = &launch.reads[r];
                let operand = plan.buffer_of[&read.buffer];
                let dies = plan.buffers[operand].region == Region::Step
                    && plan.buffers[operand].last == time
                    && plan.buffers[operand].bytes == buffer.bytes
                    && read.layout == write.layout
                    // No other operand of this launch, nor another result, may use the same bytes differently.
                    && launch.reads.iter().all(|other| plan.buffer_of[&other.buffer] != operand || other.layout == read.layout);
                let group = group_of[operand]?;
                (dies && groups[group].last == time).then_some(group)
            });
            match dying {
                Some(group) => {
                    group_of[member] = Some(group);
                    groups[group].members.push(member);
                    groups[group].last = buffer.last;
                }
                None => start(&mut groups, &mut group_of, member),
            }
        }
    }
    groups
}
