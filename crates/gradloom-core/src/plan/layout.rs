//! Offsets in the step arena and the constants.
//!
//! A result that may be computed in place shares the bytes of its operand. The resulting groups of buffers
//! are placed by size, largest first, each at the lowest offset where it does not overlap a group that is
//! live at the same time. (Greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural
//! Net Inference", 2020.) The results of a sum over the ranks are placed next to each other, so that a
//! library can sum them as one.

use super::{ALIGNMENT, Buffer, Plan, Region, Role, SCALAR_ALIGNMENT, report};
use crate::collections::sort_by_key;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, OpKind};
use crate::kernel::{Kernel, Overwrites};

/// Buffers that use the same bytes one after the other, or several such groups next to each other.
struct SharedBytes {
    /// Indices of the buffers, each with its offset from the start of the group.
    members: Vec<(usize, u64)>,
    bytes: u64,
    first: usize,
    last: usize,
}

/// Byte range and lifetime of a placed group. Lists of these are sorted by `start`.
struct Placed {
    start: u64,
    end: u64,
    first: usize,
    last: usize,
}

/// Sets the offsets in the regions `Constants` and `Step` and the totals. No value crosses a multiple of
/// `segment`. Bytes are not reused for `distance` launches after their last use.
pub(super) fn place(plan: &mut Plan, segment: u64, distance: usize) {
    place_constants(plan, segment);
    let scalars = place_scalars(plan);
    let mut groups = groups(plan, segment);
    groups.iter_mut().for_each(|group| group.last += distance);
    sort_by_key(&mut groups, |g| (std::cmp::Reverse(g.bytes), g.first, g.members[0]));
    let mut placed: Vec<Placed> = Vec::with_capacity(groups.len());
    let mut end = scalars;
    let mut offsets = vec![0; plan.buffers.len()];
    for group in &groups {
        let mut offset = fit(scalars, group.bytes, segment);
        for other in placed.iter().filter(|other| group.first <= other.last && other.first <= group.last) {
            if offset + group.bytes <= other.start {
                break;
            }
            offset = fit(offset.max(other.end), group.bytes, segment);
        }
        let stop = offset + group.bytes;
        end = end.max(stop);
        for &(member, start) in &group.members {
            offsets[member] = offset + start;
        }
        let at = placed.partition_point(|other| other.start <= offset);
        placed.insert(at, Placed { start: offset, end: stop, first: group.first, last: group.last });
    }
    for (buffer, offset) in plan.buffers.iter_mut().zip(offsets) {
        if buffer.region == Region::Step && buffer.role != Role::Scalar {
            buffer.offset = offset;
        }
    }
    plan.totals.step = end;
}

/// Returns the first offset at or after `offset` where the bytes do not cross a multiple of `segment`.
fn fit(offset: u64, bytes: u64, segment: u64) -> u64 {
    let behind = offset % segment;
    if behind + bytes <= segment { offset } else { offset - behind + segment }
}

fn place_constants(plan: &mut Plan, segment: u64) {
    let mut end = 0;
    for buffer in plan.buffers.iter_mut().filter(|b| b.region == Region::Constants) {
        let bytes = buffer.bytes.next_multiple_of(ALIGNMENT);
        buffer.offset = fit(end, bytes, segment);
        end = buffer.offset + bytes;
    }
    plan.totals.constants = end;
}

/// Places the scalars at the start of the step arena. Returns the aligned end of the scalars.
fn place_scalars(plan: &mut Plan) -> u64 {
    let mut end = 0;
    for buffer in plan.buffers.iter_mut().filter(|b| b.role == Role::Scalar) {
        buffer.offset = end;
        end += buffer.bytes.next_multiple_of(SCALAR_ALIGNMENT);
    }
    end.next_multiple_of(ALIGNMENT)
}

impl Plan {
    /// Returns the number of bytes of the per-step block of scalars, which is at the start of the step arena.
    pub fn scalar_bytes(&self) -> u64 {
        let scalars = self.buffers.iter().filter(|b| b.role == Role::Scalar);
        scalars.map(|b| b.bytes.next_multiple_of(SCALAR_ALIGNMENT)).sum()
    }

    /// Returns the same plan without memory reuse in the step arena. This takes far more memory, but helps to
    /// debug: if a wrong result disappears, the placement is at fault.
    pub fn without_sharing(mut self) -> Self {
        self.place_apart(u64::MAX);
        self
    }

    /// Returns the same plan for a device whose buffers have at most `segment` bytes, a multiple of
    /// [`ALIGNMENT`]: no value of the step arena or the constants crosses a multiple of `segment`. `sharing`
    /// determines whether values of the arena reuse memory. If they do, a plan that already fits is
    /// unchanged.
    ///
    /// # Errors
    /// Returns an error that names the largest value if it is larger than a segment.
    pub fn in_segments(mut self, graph: &Graph, segment: u64, sharing: bool) -> Result<Self> {
        let cut = |b: &&Buffer| matches!(b.region, Region::Step | Region::Constants);
        if let Some(large) = self.buffers.iter().filter(cut).max_by_key(|b| b.bytes)
            && large.bytes.next_multiple_of(ALIGNMENT) > segment
        {
            let message =
                format!("a value takes {} bytes, a buffer of the device at most {segment}", large.bytes);
            let error = Error::new(ErrorKind::Plan, message)
                .note(format!("it is `{}`, {}", report::label(graph, large), large.ty))
                .help("make the batch, the context or the vocabulary smaller, or use another device");
            return Err(graph.blame(graph.defining_op(large.value), error));
        }
        if !sharing {
            place_constants(&mut self, segment);
            self.place_apart(segment);
        } else if self.totals.step.max(self.totals.constants) > segment {
            place(&mut self, segment, 0);
        }
        Ok(self)
    }

    /// Returns the same plan for a device that runs launches concurrently. The memory of a value and scratch
    /// memory are not reused for `distance` launches after their last use, because a launch waits for all
    /// earlier users of its bytes. The plan takes slightly more memory.
    #[must_use]
    pub fn side_by_side(mut self, distance: usize) -> Self {
        place(&mut self, u64::MAX, distance);
        for number in 0..self.launches.len() {
            let bytes = |i: usize| self.launches[i].workspace.next_multiple_of(ALIGNMENT);
            let near = number.saturating_sub(distance)..number;
            let mut taken: Vec<_> = near.map(|i| self.scratch[i]..self.scratch[i] + bytes(i)).collect();
            taken.sort_by_key(|range| range.start);
            let (mut start, wanted) = (0, bytes(number));
            for range in taken.into_iter().filter(|range| !range.is_empty()) {
                if start + wanted <= range.start {
                    break;
                }
                start = start.max(range.end);
            }
            self.scratch[number] = start;
            self.totals.workspace = self.totals.workspace.max(start + wanted);
        }
        self
    }

    fn place_apart(&mut self, segment: u64) {
        let mut end = place_scalars(self);
        for buffer in self.buffers.iter_mut().filter(|b| b.region == Region::Step && b.role != Role::Scalar) {
            let bytes = buffer.bytes.next_multiple_of(ALIGNMENT);
            buffer.offset = fit(end, bytes, segment);
            end = buffer.offset + bytes;
        }
        self.totals.step = end;
    }
}

/// Groups each result with an operand whose lifetime ends at its launch, if the launch may alias the two, and
/// joins the groups of the results of each sum over the ranks.
fn groups(plan: &Plan, segment: u64) -> Vec<SharedBytes> {
    let mut group_of: Vec<Option<usize>> = vec![None; plan.buffers.len()];
    let mut groups: Vec<SharedBytes> = Vec::new();
    let start = |groups: &mut Vec<SharedBytes>, group_of: &mut Vec<Option<usize>>, member: usize| {
        let Buffer { bytes, first, last, .. } = plan.buffers[member];
        group_of[member] = Some(groups.len());
        groups.push(SharedBytes {
            members: vec![(member, 0)],
            bytes: bytes.next_multiple_of(ALIGNMENT),
            first,
            last,
        });
    };
    // Start the groups of inputs first, because no launch writes inputs.
    for (i, buffer) in plan.buffers.iter().enumerate() {
        if buffer.region == Region::Step && buffer.role == Role::Input {
            start(&mut groups, &mut group_of, i);
        }
    }
    for (time, launch) in plan.launches.iter().enumerate() {
        let overwrites = Overwrites::new(launch);
        for (w, write) in launch.writes.iter().enumerate() {
            let member = plan.buffer_of[&write.buffer];
            let buffer = &plan.buffers[member];
            if buffer.region != Region::Step || group_of[member].is_some() {
                continue;
            }
            let dying = overwrites.reads_of(w).iter().find_map(|&r| {
                let operand = plan.buffer_of[&launch.reads[r].buffer];
                let group = group_of[operand]?;
                // Accept a slightly larger buffer, because the buffer of a vendor library's result may have a
                // few more rows.
                let more = plan.buffers[operand].bytes.wrapping_sub(buffer.bytes);
                let dies = plan.buffers[operand].last == time
                    && (more == 0 || more < buffer.bytes / 64)
                    // No other result may have taken the bytes already.
                    && groups[group].members.last() == Some(&(operand, 0))
                    && overwrites.allow_buffer(buffer.value, plan.buffers[operand].value);
                dies.then_some(group)
            });
            match dying {
                Some(group) => {
                    group_of[member] = Some(group);
                    groups[group].members.push((member, 0));
                    groups[group].last = buffer.last;
                }
                None => start(&mut groups, &mut group_of, member),
            }
        }
    }
    join_sums(plan, &group_of, &mut groups, segment);
    groups
}

/// Joins the groups of the results of each sum over the ranks, those of one type next to each other, unless
/// they take more than a segment.
fn join_sums(plan: &Plan, group_of: &[Option<usize>], groups: &mut Vec<SharedBytes>, segment: u64) {
    let is_sum =
        |kernel: &Kernel| matches!(kernel, Kernel::Op(OpKind::Collective { op, .. }) if op.keeps_types());
    for launch in plan.launches.iter().filter(|launch| is_sum(&launch.kernel)) {
        let mut numbers: Vec<usize> = Vec::new();
        let mut writes: Vec<_> = launch.writes.iter().collect();
        sort_by_key(&mut writes, |write| write.dtype.bytes());
        for number in writes.into_iter().filter_map(|write| group_of[plan.buffer_of[&write.buffer]]) {
            // A group that is part of another sum's has no members.
            if !numbers.contains(&number) && !groups[number].members.is_empty() {
                numbers.push(number);
            }
        }
        let bytes: u64 = numbers.iter().map(|&number| groups[number].bytes).sum();
        let Some((&first, others)) = numbers.split_first().filter(|_| bytes <= segment) else { continue };
        for &other in others {
            let SharedBytes { bytes, first: begin, last, .. } = groups[other];
            let members = std::mem::take(&mut groups[other].members);
            let joined = &mut groups[first];
            joined.members.extend(members.into_iter().map(|(member, start)| (member, joined.bytes + start)));
            joined.bytes += bytes;
            joined.first = joined.first.min(begin);
            joined.last = joined.last.max(last);
        }
    }
    groups.retain(|group| !group.members.is_empty());
}
