//! Offsets in the step arena and the constants.
//!
//! Buffers that a launch may compute in place share bytes; the groups are placed by size, largest first, each at the lowest
//! offset where it meets no other group that lives at the same time. (Greedy by size: Pisarchyk and Lee, "Efficient Memory
//! Management for Deep Neural Net Inference", 2020.)

use super::{ALIGNMENT, Buffer, Plan, Region, Role, SCALAR_ALIGNMENT};

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

    let scalars = place_scalars(plan);
    let mut groups = groups(plan);
    groups.sort_by_key(|g| (std::cmp::Reverse(g.bytes), g.first, g.members[0]));
    let mut placed: Vec<(usize, &Group)> = Vec::new();
    let mut end = scalars;
    let mut offsets = vec![0; plan.buffers.len()];
    for group in &groups {
        let mut busy: Vec<(usize, usize)> = placed
            .iter()
            .filter(|(_, other)| group.first <= other.last && other.first <= group.last)
            .map(|(offset, other)| (*offset, offset + other.bytes))
            .collect();
        busy.sort_unstable();
        let mut offset = scalars;
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
        if buffer.region == Region::Step && buffer.role != Role::Scalar {
            buffer.offset = offset;
        }
    }
    plan.totals.step = end;
}

/// Puts the scalars at the start of the step arena; gives where the rest of it starts.
fn place_scalars(plan: &mut Plan) -> usize {
    let mut end = 0;
    for buffer in plan.buffers.iter_mut().filter(|b| b.role == Role::Scalar) {
        buffer.offset = end;
        end += buffer.bytes.next_multiple_of(SCALAR_ALIGNMENT);
    }
    end.next_multiple_of(ALIGNMENT)
}

impl Plan {
    /// The same plan with bytes of its own for every value of the step arena. It takes far more memory; a wrong result that it
    /// does not have points at the placement.
    pub fn without_sharing(mut self) -> Self {
        self.totals.step = place_scalars(&mut self);
        for buffer in self.buffers.iter_mut().filter(|b| b.region == Region::Step && b.role != Role::Scalar) {
            buffer.offset = self.totals.step;
            self.totals.step += buffer.bytes.next_multiple_of(ALIGNMENT);
        }
        self
    }
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
    // Inputs first: no launch writes them.
    for (i, buffer) in plan.buffers.iter().enumerate() {
        if buffer.region == Region::Step && buffer.role == Role::Input {
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
                let operand = plan.buffer_of[&launch.reads[r].buffer];
                let group = group_of[operand]?;
                let dies = plan.buffers[operand].last == time
                    && plan.buffers[operand].bytes == buffer.bytes
                    // Nor has another result taken the bytes already.
                    && groups[group].members.last() == Some(&operand)
                    && launch.may_overwrite(w, plan.buffers[operand].value);
                dies.then_some(group)
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
