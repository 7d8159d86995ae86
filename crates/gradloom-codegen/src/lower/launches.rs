//! From kernels to launches: how each is shared out, and whose place its results may take.
//!
//! In: kernels whose operands fit. Out: launches with their schedules and scratch. Always holds: the scratch
//! of a group's parts stands side by side.

use super::Lowering;
use crate::cpu;
use crate::pipeline::Target;
use crate::schedule::Workgroups;
use gradloom_core::fuse::KernelSpec;
use gradloom_core::ir::{Graph, OpId, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Launch, Level, NodeKind, Part, Phase, Schedule, Store};
use gradloom_core::plan::ALIGNMENT;

/// A kernel that is to be shared out.
pub(crate) struct Request<'r> {
    pub(crate) graph: &'r Graph,
    /// The op that asks for it.
    pub(crate) op: OpId,
    pub(crate) kernel: &'r Kernel,
    pub(crate) reads: &'r [Access],
    pub(crate) writes: &'r [Access],
    /// See [`Launch::may_alias`].
    pub(crate) aliases: &'r [(usize, usize)],
}

/// A kind of device's way to share the work of a kernel out.
pub(crate) trait Sharing {
    /// Returns the schedule of a kernel, and the bytes of its scratch.
    fn one(&self, request: &Request<'_>, target: &Target) -> (Schedule, u64);

    /// Returns the schedule of a group's parts that run in one launch, which have their own schedules and so
    /// many bytes of scratch, and the bytes of scratch of all.
    fn group(
        &self,
        parts: &[Part],
        reads: &[Access],
        writes: &[Access],
        bytes: u64,
        target: &Target,
    ) -> (Schedule, u64);

    /// Returns whether a loop's thread does whole rows alone: a result of a row may then take the place of
    /// an operand of the row.
    fn has_whole_rows(&self) -> bool;
}

/// Makes launches of all kernels for a CPU.
pub(super) fn on_cpu(lowering: &mut Lowering<'_>) {
    schedule(lowering, &cpu::Tasks);
}

/// Makes launches of all kernels for a GPU.
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

/// Returns what may alias, how a kernel is shared out, and its scratch.
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

/// Returns the same of a group, and sets the schedules of its parts.
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

/// Returns the reads that the results may overwrite. A kernel that can trap is no exception: it is never
/// launched in the commit, and the temporaries that it overwrites die with the step.
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
        Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => {
            body_aliases(body, reads, writes, |level| may_replace(sharing, kernel, level))
        }
        _ => Vec::new(),
    }
}

/// Returns whether a result with an element for each position, row, or one in all may take the place of an
/// operand with as many: not if another thread may still read that. On a GPU, other invocations read what a
/// row has; on a CPU, several blocks of columns of a product do.
fn may_replace(sharing: &dyn Sharing, kernel: &Kernel, level: Level) -> bool {
    level == Level::Element || matches!(kernel, Kernel::Loop(_)) && sharing.has_whole_rows()
}

/// A position's operands are read before its results are written, if both have an element for each position
/// (or each row).
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
