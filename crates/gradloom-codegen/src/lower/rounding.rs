//! Scatters that round what they put into rows of 16 bits, as pages of keys and values are.
//!
//! In: the kernels of a graph. Out: the same kernels without those that only round updates for scatters,
//! which take the updates as they were: kernels for GPUs round at every store to 16 bits. Always holds: what
//! is stored is the same; a scatter that adds, whose sums may not be rounded before, is left alone.
//!
//! Updates are parts of rows of a larger matrix, and there are two for each layer of a model: kernels of
//! their own for so little are most of what they cost.

use super::Lowering;
use super::apart::regrouped;
use gradloom_core::fuse::KernelSpec;
use gradloom_core::ir::{DType, OpKind, ScatterOp};
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeKind, Part, Store};

/// The operand of a scatter that has its updates.
const UPDATES: usize = 2;

/// Lets scatters round their updates.
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
                // What persists may have its next value when the scatter runs.
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

/// Returns true if a body stores each element that it loads in another dtype.
fn only_casts(body: &Body) -> bool {
    let [Store::Value { node, level: Level::Element, .. }] = body.stores[..] else { return false };
    let NodeKind::Cast(from) = body.node(node).kind else { return false };
    matches!(body.node(from).kind, NodeKind::Load(_)) && body.nodes.len() == 2
}

/// Lets scatters read the source of a rounded buffer, if only such read it.
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

/// Removes a kernel, or those parts of a group.
fn leave_out(lowering: &mut Lowering<'_>, at: usize, is_done: &[bool]) {
    let spec = lowering.kernels.remove(at);
    let Kernel::Group(parts) = &spec.kernel else { return };
    let others = parts.iter().zip(is_done).filter(|(_, done)| !**done).map(|(part, _)| part);
    if let Some((kernel, reads, writes)) = regrouped(others, &spec.reads, &spec.writes) {
        lowering.kernels.insert(at, spec.beside(kernel, reads, writes));
    }
}
