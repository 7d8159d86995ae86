//! Scatters that round their updates to 16 bits, such as those into pages of keys and values.
//!
//! In: the kernels of a graph. Out: the same kernels without those that only round the updates of scatters.
//! The scatters read the unrounded updates, because GPU kernels round at every store to 16 bits. Invariant:
//! the stored values are the same. A scatter that adds is left unchanged, because it would add unrounded
//! updates.
//!
//! Each layer of a model has two such updates, each of which is a part of the rows of a larger matrix. The
//! updates are so small that launching separate kernels for them would dominate the cost.

use super::Lowering;
use super::apart::regrouped;
use gradloom_core::fuse::KernelSpec;
use gradloom_core::ir::{DType, OpKind, ScatterOp};
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeKind, Part, Store};

/// Index of the updates among the operands of a scatter.
const UPDATES: usize = 2;

/// Moves the rounding of updates into scatters.
pub(super) fn at_scatters(lowering: &mut Lowering<'_>) {
    let kept = lowering.watched();
    for at in (0..lowering.kernels.len()).rev() {
        let spec = &lowering.kernels[at];
        let found: Vec<Option<[Access; 2]>> = match &spec.kernel {
            Kernel::Group(parts) => parts.iter().map(|part| rounded(part, spec)).collect(),
            kernel => vec![rounds(kernel, &spec.reads, &spec.writes)],
        };
        let mut move_one = |found: &Option<[Access; 2]>| match found {
            Some([source, result]) if !kept.contains(&result.buffer) => {
                // Leave out sources that are not temporaries: a persistent source may already have its next
                // value when the scatter runs.
                let is_temporary = lowering.kernels[..at]
                    .iter()
                    .any(|spec| spec.writes.iter().any(|w| w.buffer == source.buffer));
                is_temporary && move_to_scatters(lowering, source, result)
            }
            _ => false,
        };
        let is_done: Vec<bool> = found.iter().map(&mut move_one).collect();
        if is_done.iter().any(|&done| done) {
            leave_out(lowering, at, &is_done);
        }
    }
}

/// Returns the operand and the result of a kernel that only rounds elements to 16 bits.
fn rounds(kernel: &Kernel, reads: &[Access], writes: &[Access]) -> Option<[Access; 2]> {
    let ([source], [result]) = (reads, writes) else { return None };
    let only_rounds = match kernel {
        Kernel::Op(OpKind::Cast { .. }) => true,
        Kernel::Loop(body) => only_casts(body),
        _ => false,
    };
    let fits = source.dtype == DType::F32
        && matches!(result.dtype, DType::F16 | DType::BF16)
        && result.layout.is_contiguous();
    (only_rounds && fits).then(|| [source.clone(), result.clone()])
}

fn rounded(part: &Part, spec: &KernelSpec) -> Option<[Access; 2]> {
    rounds(&part.kernel, &spec.reads[part.reads.clone()], &spec.writes[part.writes.clone()])
}

/// Returns `true` if a body only converts each loaded element to another type.
fn only_casts(body: &Body) -> bool {
    let [Store::Value { node, level: Level::Element, .. }] = body.stores[..] else { return false };
    let NodeKind::Cast(from) = body.node(node).kind else { return false };
    matches!(body.node(from).kind, NodeKind::Load(_)) && body.nodes.len() == 2
}

/// Makes scatters read the source of a rounded buffer. Returns `false` if another kernel reads the buffer.
fn move_to_scatters(lowering: &mut Lowering<'_>, source: &Access, result: &Access) -> bool {
    let mut moved = Vec::new();
    for (user, spec) in lowering.kernels.iter().enumerate() {
        for (read, access) in spec.reads.iter().enumerate().filter(|(_, read)| read.buffer == result.buffer) {
            let puts = matches!(
                spec.kernel,
                Kernel::Op(OpKind::Scatter { op: ScatterOp::Set | ScatterOp::Distinct, .. })
            );
            let is_whole = access.layout.is_contiguous()
                && access.layout.offset == result.layout.offset
                && access.layout.shape.elements() == source.layout.shape.elements();
            let layout = source.layout.reshape(&access.layout.shape);
            let (true, Some(layout)) = (puts && read == UPDATES && is_whole, layout) else { return false };
            moved.push((user, Access { layout, ..source.clone() }));
        }
    }
    for (user, access) in moved {
        lowering.kernels[user].reads[UPDATES] = access;
    }
    true
}

/// Removes a kernel, or the parts of a group for which `is_done` is true.
fn leave_out(lowering: &mut Lowering<'_>, at: usize, is_done: &[bool]) {
    let spec = lowering.kernels.remove(at);
    let Kernel::Group(parts) = &spec.kernel else { return };
    let others = parts.iter().zip(is_done).filter(|(_, done)| !**done).map(|(part, _)| part);
    if let Some((kernel, reads, writes)) = regrouped(others, &spec.reads, &spec.writes) {
        lowering.kernels.insert(at, spec.beside(kernel, reads, writes));
    }
}
