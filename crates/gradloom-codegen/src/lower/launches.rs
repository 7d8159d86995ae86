//! From kernels to launches: schedules, scratch memory, and the operands that results may overwrite.
//!
//! In: kernels that can index through their operands. Out: launches. Invariant: the scratch ranges of a
//! group's parts are disjoint.

use super::Lowering;
use crate::cpu;
use crate::pipeline::Target;
use crate::schedule::Workgroups;
use gradloom_core::fuse::KernelSpec;
use gradloom_core::ir::{Graph, OpId, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Launch, Level, NodeKind, Part, Phase, Schedule, Store};
use gradloom_core::plan::ALIGNMENT;

/// A kernel to be scheduled.
pub(crate) struct Request<'r> {
    pub(crate) graph: &'r Graph,
    /// Op that the kernel is named after.
    pub(crate) op: OpId,
    pub(crate) kernel: &'r Kernel,
    pub(crate) reads: &'r [Access],
    pub(crate) writes: &'r [Access],
    /// Results and operands that may alias (see [`Launch::may_alias`]).
    pub(crate) aliases: &'r [(usize, usize)],
}

/// The division of a kernel's work on one kind of device.
pub(crate) trait Sharing {
    /// Returns the schedule of a kernel and the size of its scratch memory, in bytes.
    fn one(&self, request: &Request<'_>, target: &Target) -> (Schedule, u64);

    /// Returns the schedule of a group whose parts run in one launch, and the size of its scratch memory, in
    /// bytes. The parts already have schedules, which need `bytes` bytes of scratch in total.
    fn group(
        &self,
        parts: &[Part],
        reads: &[Access],
        writes: &[Access],
        bytes: u64,
        target: &Target,
    ) -> (Schedule, u64);

    /// Returns `true` if one thread computes whole rows of a loop, so that a result of level `Row` may
    /// overwrite an operand of that level.
    fn has_whole_rows(&self) -> bool;
}

/// Turns all kernels into launches for a CPU.
pub(super) fn on_cpu(lowering: &mut Lowering<'_>) {
    schedule(lowering, &cpu::Tasks);
}

/// Turns all kernels into launches for a GPU.
pub(super) fn on_gpu(lowering: &mut Lowering<'_>) {
    schedule(lowering, &Workgroups);
}

fn schedule(lowering: &mut Lowering<'_>, sharing: &dyn Sharing) {
    let Lowering { graph, target, .. } = *lowering;
    for draft in std::mem::take(&mut lowering.kernels) {
        let KernelSpec { op, mut kernel, reads, writes, commit, once } = draft.spec;
        let (may_alias, schedule, workspace) = match (&mut kernel, draft.library) {
            (Kernel::Group(parts), _) => group(graph, target, sharing, op, parts, &reads, &writes),
            (kernel, Some(library)) => {
                let schedule = Schedule::Library(library);
                let workspace = schedule.workspace(kernel);
                (Vec::new(), schedule, workspace)
            }
            (kernel, None) => one(graph, target, sharing, op, kernel, &reads, &writes),
        };
        let launch =
            Launch { op, kernel, reads, writes, may_alias, schedule, workspace, phase: Phase::Compute };
        lowering.launches.push((launch, (commit, once)));
    }
}

/// Returns the possible aliases of a kernel, its schedule, and the size of its scratch memory.
fn one(
    graph: &Graph,
    target: &Target,
    sharing: &dyn Sharing,
    op: OpId,
    kernel: &Kernel,
    reads: &[Access],
    writes: &[Access],
) -> (Vec<(usize, usize)>, Schedule, u64) {
    let aliases = aliases(sharing, kernel, reads, writes);
    let (schedule, workspace) =
        sharing.one(&Request { graph, op, kernel, reads, writes, aliases: &aliases }, target);
    (aliases, schedule, workspace)
}

/// Returns the possible aliases of a group, its schedule, and the size of its scratch memory, and sets the
/// schedules of its parts.
fn group(
    graph: &Graph,
    target: &Target,
    sharing: &dyn Sharing,
    op: OpId,
    parts: &mut [Part],
    reads: &[Access],
    writes: &[Access],
) -> (Vec<(usize, usize)>, Schedule, u64) {
    let mut may_alias = Vec::new();
    let mut workspace = 0;
    for part in &mut *parts {
        let (reads, writes) = (&reads[part.reads.clone()], &writes[part.writes.clone()]);
        let (pairs, schedule, bytes) = one(graph, target, sharing, op, &part.kernel, reads, writes);
        part.schedule = schedule;
        part.workspace = workspace..workspace + bytes;
        workspace = part.workspace.end.next_multiple_of(ALIGNMENT);
        may_alias.extend(pairs.into_iter().map(|(w, r)| (part.writes.start + w, part.reads.start + r)));
    }
    let (schedule, workspace) = sharing.group(parts, reads, writes, workspace, target);
    (may_alias, schedule, workspace)
}

/// Returns pairs of a result and the operand that it may overwrite. Kernels that can trap are no exception:
/// they never run in the commit, and the temporaries that they overwrite are discarded with the step.
fn aliases(
    sharing: &dyn Sharing,
    kernel: &Kernel,
    reads: &[Access],
    writes: &[Access],
) -> Vec<(usize, usize)> {
    match kernel {
        Kernel::Op(
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Compare(_) | OpKind::Select | OpKind::Cast { .. },
        ) => {
            let same_size = |read: &Access| read.dtype.bytes() == writes[0].dtype.bytes();
            (0..reads.len()).filter(|&i| same_size(&reads[i])).map(|i| (0, i)).collect()
        }
        Kernel::Op(OpKind::Scatter { .. } | OpKind::DynamicUpdateSlice) => vec![(0, 0)],
        Kernel::Op(OpKind::Collective { op, .. }) if op.keeps_types() => {
            (0..reads.len()).map(|i| (i, i)).collect()
        }
        Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => {
            body_aliases(body, reads, writes, |level| may_replace(sharing, kernel, level))
        }
        _ => Vec::new(),
    }
}

/// Returns `true` if a result may overwrite an operand of the same level. This requires that no other thread
/// reads the elements that a thread overwrites. On a GPU, other invocations read elements of level `Row`; on
/// a CPU, other column blocks of a product do.
fn may_replace(sharing: &dyn Sharing, kernel: &Kernel, level: Level) -> bool {
    level == Level::Element || matches!(kernel, Kernel::Loop(_)) && sharing.has_whole_rows()
}

/// Returns pairs of a result and an operand that may alias. They have the same level and element size, so the
/// operand of each position (or row) is read before its result is written.
fn body_aliases(
    body: &Body,
    reads: &[Access],
    writes: &[Access],
    may_replace: impl Fn(Level) -> bool,
) -> Vec<(usize, usize)> {
    let loads: Vec<(usize, Level)> = body
        .nodes
        .iter()
        .filter_map(|node| match node.kind {
            NodeKind::Load(read) => Some((read, node.level)),
            _ => None,
        })
        .collect();
    let mut pairs = Vec::new();
    for store in &body.stores {
        let Store::Value { level, write, .. } = *store else { continue };
        for &(read, at) in &loads {
            let one = body.elements(Level::Element) == 1;
            let alike = at == level && (one || level != Level::Uniform && may_replace(level));
            if alike && reads[read].dtype.bytes() == writes[write].dtype.bytes() {
                pairs.push((write, read));
            }
        }
    }
    pairs
}
