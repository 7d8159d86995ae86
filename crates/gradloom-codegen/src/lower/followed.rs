//! Fusion of attention with a loop over the rows of its output. In generation, this loop combines attention
//! over the cached keys with the newest key of each text.
//!
//! In: the kernels of a graph. Out: the same kernels, with each such loop merged into its attention as an
//! epilogue, at the loop's position, if the attention kernel supports it. Invariant: no other kernel reads
//! the results of that attention, which are no longer stored.

use super::Lowering;
use super::joined::is_all_of;
use crate::pipeline::Target;
use crate::schedule::schedule;
use gradloom_core::fuse::KernelSpec;
use gradloom_core::ir::{DType, OpKind};
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeKind, Schedule, Store};

/// Merges loops over the rows of attention's output into attention.
pub(super) fn follow(lowering: &mut Lowering<'_>) {
    let mut at = 0;
    while at < lowering.kernels.len() {
        match followed(lowering, at) {
            Some((rows, spec)) => {
                lowering.kernels[rows] = spec.into();
                lowering.kernels.remove(at);
            }
            None => at += 1,
        }
    }
}

/// Returns the attention kernel at this index merged with the only kernel that reads its results, and the
/// index of that kernel.
fn followed(lowering: &Lowering<'_>, at: usize) -> Option<(usize, KernelSpec)> {
    let attention = &lowering.kernels[at];
    let Kernel::Op(OpKind::Attention(spec)) = &attention.kernel else { return None };
    let is_result = |buffer| attention.writes.iter().any(|write| write.buffer == buffer);
    let reads_it = |spec: &KernelSpec| spec.reads.iter().any(|read| is_result(read.buffer));
    let mut readers = (at + 1..lowering.kernels.len()).filter(|&other| reads_it(&lowering.kernels[other]));
    let (reader, None) = (readers.next()?, readers.next()) else { return None };
    let rows = &lowering.kernels[reader];
    let is_watched = lowering.watched().into_iter().any(is_result);
    let alike = (attention.commit, attention.once) == (rows.commit, rows.once);
    if is_watched || !alike || !takes(lowering, attention) {
        return None;
    }
    let Kernel::Loop(body) = &rows.kernel else { return None };
    let own = 3 + spec.extra_operands();
    let mut reads = attention.reads[..own].to_vec();
    let epilogue = epilogue(body, rows, &attention.writes, &mut reads)?;
    let kernel = Kernel::Attention { spec: *spec, epilogue };
    Some((reader, KernelSpec { op: attention.op, kernel, reads, writes: rows.writes.clone(), ..rows.spec }))
}

/// Returns `true` if attention supports an epilogue with the schedule that it will have on the device.
fn takes(lowering: &Lowering<'_>, KernelSpec { kernel, reads, writes, .. }: &KernelSpec) -> bool {
    let Target { limits, choices, .. } = lowering.target;
    let schedule = schedule(kernel, reads, writes, limits, choices);
    matches!(schedule, Schedule::Attention(attention) if attention.takes_epilogue())
}

/// Returns a loop over the rows of attention's output as an epilogue, or `None` if the loop cannot be an
/// epilogue. The loop's other operands are appended to `reads`.
fn epilogue(body: &Body, rows: &KernelSpec, results: &[Access], reads: &mut Vec<Access>) -> Option<Body> {
    let output = results.first()?;
    let (width, count) = output.layout.shape.split_last()?;
    let is_of_rows = (body.rows, body.columns) == (count.iter().product(), *width);
    let is_stored = |store: &Store| matches!(store, Store::Value { level: Level::Element, .. });
    if !is_of_rows || !body.stores.iter().all(is_stored) || body.can_trap() {
        return None;
    }
    let mut renamed: Vec<Option<usize>> = vec![None; rows.reads.len()];
    let mut nodes = body.nodes.clone();
    for node in &mut nodes {
        let NodeKind::Load(read) = node.kind else { continue };
        let access = &rows.reads[read];
        let result = results.iter().find(|result| result.buffer == access.buffer);
        node.kind = match result {
            Some(result) => {
                let level = if result.buffer == output.buffer { Level::Element } else { Level::Row };
                if node.level != level || node.dtype != DType::F32 || !is_all_of(access, result) {
                    return None;
                }
                NodeKind::Accumulator
            }
            None => NodeKind::Load(*renamed[read].get_or_insert_with(|| {
                reads.push(access.clone());
                reads.len() - 1
            })),
        };
    }
    Some(Body { nodes, ..body.clone() })
}
