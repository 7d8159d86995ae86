//! Conversion of reductions to bodies over permuted operands. Fusion leaves reductions unfused if their axes
//! are neither the first nor the last ones.

use super::{Draft, Lowering};
use gradloom_core::ir::{OpKind, ReduceOp};
use gradloom_core::kernel::{Access, Body, Kernel, Level, Node, NodeId, NodeKind, Store};

/// Converts unfused reductions to bodies.
pub(super) fn as_bodies(lowering: &mut Lowering<'_>) {
    for Draft { spec, .. } in &mut lowering.kernels {
        if let Kernel::Op(OpKind::Reduce { op, axes }) = &spec.kernel {
            spec.kernel = Kernel::Loop(as_body(*op, axes, &mut spec.reads[0]));
        }
    }
}

/// Returns a reduction as a body over `operand`, whose axes it permutes. It reduces rows, or columns if the
/// axis with the smallest stride is kept.
fn as_body(op: ReduceOp, axes: &[usize], operand: &mut Access) -> Body {
    let shape = operand.layout.shape.clone();
    let kept: Vec<usize> = (0..shape.rank()).filter(|axis| !axes.contains(axis)).collect();
    let extent = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let nearest =
        (0..shape.rank()).filter(|&a| shape[a] > 1).min_by_key(|&axis| operand.layout.strides[axis]);
    let across = nearest.is_some_and(|axis| kept.contains(&axis)) && extent(axes) > 0;
    let order = if across { [axes, &kept[..]].concat() } else { [&kept[..], axes].concat() };
    let node = |kind, level| Node { kind, dtype: operand.dtype, level };
    let load = node(NodeKind::Load(0), Level::Element);
    let body = match across {
        true => Body {
            rows: extent(axes),
            columns: extent(&kept),
            nodes: vec![load],
            stores: vec![Store::ColumnReduce { op, node: NodeId(0), write: 0, parts: 1 }],
        },
        false => Body {
            rows: extent(&kept),
            columns: extent(axes),
            nodes: vec![load, node(NodeKind::Reduce(op, NodeId(0)), Level::Row)],
            stores: vec![Store::Value { node: NodeId(1), level: Level::Row, write: 0 }],
        },
    };
    operand.layout = operand.layout.permute(&order);
    body
}
