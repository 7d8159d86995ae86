//! Kernels of ops that are not fused with others.
//!
//! An op whose operands are in memory is converted to a body if it is elementwise or a reduction. Any other
//! op remains as it is.

use crate::ir::{DType, OpKind, ReduceOp};
use crate::kernel::{Access, Body, Kernel, Level, Node, NodeId, NodeKind, Store};

/// Returns the kernel of an op whose first result has this dtype. May permute the axes of a reduction's
/// operand.
pub fn single(kind: &OpKind, reads: &mut [Access], dtype: DType) -> Kernel {
    let node = |kind, dtype| Node { kind, dtype, level: Level::Element };
    let load = |(i, read): (usize, &Access)| node(NodeKind::Load(i), read.dtype);
    let mut nodes: Vec<Node> = reads.iter().enumerate().map(load).collect();
    let x: Vec<NodeId> = (0..nodes.len()).map(NodeId::new).collect();
    let computed = match kind {
        OpKind::Unary(op) => NodeKind::Unary(*op, x[0]),
        OpKind::Binary(op) if op.divides_integers(dtype) => {
            nodes.push(node(NodeKind::CheckDivisor(x[1]), dtype));
            NodeKind::Binary(*op, [x[0], NodeId::new(nodes.len() - 1)])
        }
        OpKind::Binary(op) => NodeKind::Binary(*op, [x[0], x[1]]),
        OpKind::Compare(op) => NodeKind::Compare(*op, [x[0], x[1]]),
        OpKind::Select => NodeKind::Select([x[0], x[1], x[2]]),
        OpKind::Cast { .. } => NodeKind::Cast(x[0]),
        OpKind::Reduce { op, axes } => return Kernel::Loop(reduction(*op, axes, &mut reads[0])),
        other => return Kernel::Op(other.clone()),
    };
    nodes.push(node(computed, dtype));
    let (rows, columns) = match reads[0].layout.shape.split_last() {
        Some((&columns, rows)) if reads.iter().any(|read| !read.layout.is_contiguous()) => {
            (rows.iter().product(), columns)
        }
        _ => (1, reads[0].layout.shape.elements()),
    };
    let result = NodeId::new(nodes.len() - 1);
    Kernel::Loop(Body {
        rows,
        columns,
        nodes,
        stores: vec![Store::Value { node: result, level: Level::Element, write: 0 }],
    })
}

/// Returns a reduction over any axes as a body. The body reduces rows if the axis with the operand's smallest
/// stride is kept, otherwise columns. Permutes the axes of `operand` accordingly.
fn reduction(op: ReduceOp, axes: &[usize], operand: &mut Access) -> Body {
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
